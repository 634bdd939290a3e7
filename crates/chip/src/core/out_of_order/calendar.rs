//! Completions by cycle.

use halfwink_units::Cycle;

use super::NO_SLOT;
use crate::miss::UNKNOWN;

/// Completions by cycle, for latencies shorter than the ring: a list of slots for each cycle, since
/// a slot completes once.
#[derive(Debug)]
pub(super) struct Calendar<const N: usize> {
    first: Box<[u16; RING]>,
    /// Next slot of the same cycle, by slot.
    links: Box<[u16; N]>,
    occupied: [u64; RING / 64],
}

/// Longer than the longest wait for something inside the core: machines are held to units of 200
/// cycles, and to 64 + 100 cycles for a line of the second level (`machine/check.rs`).
const RING: usize = 256;

impl<const N: usize> Calendar<N> {
    pub(super) fn new() -> Calendar<N> {
        Calendar {
            first: Box::new([NO_SLOT; RING]),
            links: Box::new([NO_SLOT; N]),
            occupied: [0; RING / 64],
        }
    }

    /// This slot completes at `cycle`, as is known at `now`.
    #[inline]
    pub(super) fn add(&mut self, now: Cycle, cycle: Cycle, slot: usize) {
        debug_assert!(now < cycle && cycle - now < RING as Cycle, "it would be due a round early");
        let n = cycle as usize % RING;
        self.links[slot % N] = std::mem::replace(&mut self.first[n], slot as u16);
        self.occupied[n / 64] |= 1 << (n % 64);
    }

    /// The first slot that completes at `cycle`, or [`NO_SLOT`]; none does any more.
    #[inline]
    pub(super) fn take(&mut self, cycle: Cycle) -> u16 {
        let n = cycle as usize % RING;
        self.occupied[n / 64] &= !(1 << (n % 64));
        std::mem::replace(&mut self.first[n], NO_SLOT)
    }

    /// The one that was taken with this one, or [`NO_SLOT`].
    #[inline]
    pub(super) fn behind(&self, slot: usize) -> u16 {
        self.links[slot % N]
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
