// SPDX-License-Identifier: GPL-2.0-or-later
//! What registers and entries mean in the trace's terms.

use halfwink_trace::Event;
use halfwink_units::Asid;

use crate::idt::Entry;

/// Returns the event that the trace records for an entry.
#[must_use]
pub fn event_of(entry: Entry) -> Event {
    let vector = entry.vector;
    if entry.is_interrupt() {
        Event::Interrupt { vector }
    } else {
        Event::Exception { vector }
    }
}

/// The page number of the top page table, without the flags of CR3.
#[must_use]
pub fn asid_of(cr3: u64) -> Asid {
    Asid(cr3 >> 12 & ((1 << 40) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_spaces_have_no_flags() {
        assert_eq!(asid_of(0x8000_0000_1234_5fff), Asid(0x12345));
    }

    #[test]
    fn vector_tells_exception_from_interrupt() {
        let event = |vector| event_of(Entry { vector, rip: 0 });
        assert_eq!(event(14), Event::Exception { vector: 14 });
        assert_eq!(event(2), Event::Interrupt { vector: 2 });
        assert_eq!(event(236), Event::Interrupt { vector: 236 });
    }
}
