//! Completions by cycle.

use halfwink_units::Cycle;

use crate::miss::UNKNOWN;

/// Completions by cycle, for latencies shorter than the ring.
#[derive(Debug)]
pub(super) struct Calendar {
    slots: Box<[u128; RING]>,
    occupied: [u64; RING / 64],
}

/// Longer than the longest wait for something inside the core: machines are held to units of 200
/// cycles, and to 64 + 100 cycles for a line of the second level (`machine/check.rs`).
const RING: usize = 256;

impl Calendar {
    pub(super) fn new() -> Calendar {
        Calendar { slots: Box::new([0; RING]), occupied: [0; RING / 64] }
    }

    /// These slots complete at `cycle`, as is known at `now`.
    #[inline]
    pub(super) fn add(&mut self, now: Cycle, cycle: Cycle, slots: u128) {
        debug_assert!(now < cycle && cycle - now < RING as Cycle, "it would be due a round early");
        let n = cycle as usize % RING;
        self.slots[n] |= slots;
        self.occupied[n / 64] |= 1 << (n % 64);
    }

    #[inline]
    pub(super) fn take(&mut self, cycle: Cycle) -> u128 {
        let n = cycle as usize % RING;
        self.occupied[n / 64] &= !(1 << (n % 64));
        std::mem::take(&mut self.slots[n])
    }

    /// The first cycle after `now` at which something completes, or [`UNKNOWN`].
    pub(super) fn next(&self, now: Cycle) -> Cycle {
        // A word at a time, from the one that the next cycle lies in and round to it again: its
        // lower bits are the end of the ring.
        let start = (now as usize + 1) % RING;
        let first = self.occupied[start / 64] >> (start % 64);
        if first != 0 {
            return now + 1 + Cycle::from(first.trailing_zeros());
        }
        let to_word_end = 64 - start % 64;
        for step in 0..RING / 64 {
            let word = (start / 64 + 1 + step) % (RING / 64);
            if self.occupied[word] != 0 {
                let distance = to_word_end + 64 * step;
                let found = self.occupied[word].trailing_zeros() as usize;
                return now + 1 + (distance + found) as Cycle;
            }
        }
        UNKNOWN
    }
}
