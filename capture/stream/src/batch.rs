// SPDX-License-Identifier: GPL-2.0-or-later
//! What the recorder hands to the writer: a stretch of the trace, in order.

use halfwink_trace::{Event, RawAccess};

use crate::block::Definition;
use crate::clock::Stamp;

/// One step of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The next of [`Batch::definitions`].
    Define,
    /// An execution with the next `accesses` of [`Batch::accesses`].
    Run {
        /// The recorder's number of the block.
        block: u32,
        /// Number of instructions that retired.
        executed: u16,
        /// Number of memory accesses.
        accesses: u16,
    },
    /// The next of [`Batch::events`].
    Event,
}

/// A stretch of the trace.
#[derive(Debug, Default)]
pub struct Batch {
    /// Items in the order of time.
    pub items: Vec<Item>,
    /// Memory accesses of the runs.
    pub accesses: Vec<RawAccess>,
    /// Events that items refer to.
    pub events: Vec<Event>,
    /// Blocks, with the recorder's numbers.
    pub definitions: Vec<(u32, Definition)>,
    /// Events whose times are not complete.
    open: Vec<(usize, Times)>,
}

/// Which times of an event are not complete.
#[derive(Clone, Copy, Debug)]
struct Times {
    from: bool,
    to: bool,
}

/// An event whose time may not be known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Has no time, or a complete one.
    Plain(Event),
    /// A request was sent.
    Begin(u64, Stamp),
    /// A response is complete.
    End(u64, Stamp),
    /// The CPU was halted.
    Idle(Stamp, Stamp),
}

impl Timed {
    /// Completes the times with the base that is known now.
    pub fn resolve(&mut self, base: u64) {
        match self {
            Timed::Plain(_) => {}
            Timed::Begin(_, at) | Timed::End(_, at) => at.resolve(base),
            Timed::Idle(from, to) => {
                from.resolve(base);
                to.resolve(base);
            }
        }
    }
}

impl Batch {
    /// Appends an event to the batch.
    pub fn event(&mut self, event: Timed) {
        let exact = Times { from: false, to: false };
        let (event, open) = match event {
            Timed::Plain(event) => (event, exact),
            Timed::Begin(id, at) => {
                (Event::RequestBegin { id, at_ns: at.value }, Times { from: !at.exact, to: false })
            }
            Timed::End(id, at) => {
                (Event::RequestEnd { id, at_ns: at.value }, Times { from: !at.exact, to: false })
            }
            Timed::Idle(from, to) => (
                Event::Idle { from_ns: from.value, to_ns: to.value },
                Times { from: !from.exact, to: !to.exact },
            ),
        };
        if open.from || open.to {
            self.open.push((self.events.len(), open));
        }
        self.items.push(Item::Event);
        self.events.push(event);
    }

    /// True while an event waits for its time.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Completes all times of the batch.
    pub fn resolve(&mut self, base: u64) {
        for (index, open) in self.open.drain(..) {
            let add = |time: &mut u64, open: bool| {
                if open {
                    *time = time.wrapping_add(base);
                }
            };
            match &mut self.events[index] {
                Event::RequestBegin { at_ns, .. } | Event::RequestEnd { at_ns, .. } => {
                    add(at_ns, open.from);
                }
                Event::Idle { from_ns, to_ns } => {
                    add(from_ns, open.from);
                    add(to_ns, open.to);
                    // Possible only if a reading was missing: see `Clock::give_up`.
                    *to_ns = (*to_ns).max(*from_ns);
                }
                _ => {}
            }
        }
    }

    /// Empties it, keeping the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.accesses.clear();
        self.events.clear();
        self.definitions.clear();
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_times_are_completed() {
        let (known, open) = (Stamp { value: 500, exact: true }, Stamp { value: 20, exact: false });
        let mut batch = Batch::default();
        batch.event(Timed::Idle(known, open));
        batch.event(Timed::End(7, open));
        batch.event(Timed::End(8, known));
        batch.event(Timed::Plain(Event::Cpu(1)));
        assert!(batch.is_open());
        batch.resolve(1_000);
        assert!(!batch.is_open());
        assert_eq!(
            batch.events,
            [
                Event::Idle { from_ns: 500, to_ns: 1_020 },
                Event::RequestEnd { id: 7, at_ns: 1_020 },
                Event::RequestEnd { id: 8, at_ns: 500 },
                Event::Cpu(1),
            ]
        );
    }
}
