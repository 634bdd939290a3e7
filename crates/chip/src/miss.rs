//! Miss registers (MSHRs; Kroft 1981): the outstanding misses of a first-level cache.
//!
//! A miss that the second level answers has its fill known at once, and frees its register by
//! itself: whoever asks later than that finds it free. No event is needed for it, and asking at
//! another time, or more often, changes nothing. One that goes further is freed by its answer.

use halfwink_units::Cycle;

/// Not known yet: the shared levels have not answered.
pub(crate) const UNKNOWN: Cycle = Cycle::MAX;

/// Register of one outstanding miss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Miss {
    pub(crate) line: u64,
    /// Cycle at which the data is there, or [`UNKNOWN`].
    pub(crate) fill: Cycle,
    /// The number of its register.
    pub(crate) register: u8,
    /// Registers of an in-order core that wait; an out-of-order one knows by itself who does.
    pub(crate) waiters: u64,
    /// Cycles that the core spent waiting for it so far, by mode, while something else went on.
    pub(crate) waited: [u64; 2],
    /// A prefetcher asked for it, and no access has joined it.
    pub(crate) is_prefetch: bool,
}

impl Miss {
    fn new(line: u64, fill: Cycle) -> Miss {
        Miss { line, fill, register: 0, waiters: 0, waited: [0; 2], is_prefetch: false }
    }
}

/// The miss registers of one cache.
#[derive(Clone, Debug)]
pub(crate) struct MissFile {
    entries: Vec<Miss>,
    /// One bit per register in use.
    used: u64,
    all: u64,
}

impl MissFile {
    pub(crate) fn new(registers: usize) -> MissFile {
        debug_assert!((1..=64).contains(&registers), "one bit of a word for each");
        let blank = Miss::new(0, 0);
        let all = u64::MAX >> (64 - registers as u32);
        MissFile { entries: vec![blank; registers], used: 0, all }
    }

    /// The miss of this line, if it is outstanding at `now`.
    #[inline]
    pub(crate) fn find(&mut self, line: u64, now: Cycle) -> Option<usize> {
        let mut rest = self.used;
        while rest != 0 {
            let n = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let miss = &self.entries[n];
            if miss.fill <= now {
                self.used &= !(1 << n);
            } else if miss.line == line {
                return Some(n);
            }
        }
        None
    }

    /// Takes a register, if one is free at `now`.
    #[inline]
    pub(crate) fn allocate(&mut self, line: u64, fill: Cycle, now: Cycle) -> Option<usize> {
        debug_assert!(fill > now, "no access is over in its own cycle");
        debug_assert!(self.find(line, now).is_none(), "a second miss of a line joins the first");
        if self.used == self.all {
            self.release(now);
        }
        let free = !self.used & self.all;
        if free == 0 {
            return None;
        }
        let n = free.trailing_zeros() as usize;
        self.used |= 1 << n;
        self.entries[n] = Miss { register: n as u8, ..Miss::new(line, fill) };
        Some(n)
    }

    /// True if a register is free at `now`.
    #[inline]
    pub(crate) fn has_free(&mut self, now: Cycle) -> bool {
        if self.used == self.all {
            self.release(now);
        }
        self.used != self.all
    }

    /// Number of registers free at `now`.
    pub(crate) fn free(&mut self, now: Cycle) -> u32 {
        self.release(now);
        (!self.used & self.all).count_ones()
    }

    /// Prefetches among those outstanding at `now`.
    pub(crate) fn prefetches(&mut self, now: Cycle) -> usize {
        self.release(now);
        let is_prefetch = |n: &usize| self.used >> n & 1 == 1 && self.entries[*n].is_prefetch;
        (0..self.entries.len()).filter(is_prefetch).count()
    }

    /// A miss that `waiter` waits for and that was not answered.
    pub(crate) fn waited_by(&self, waiter: usize) -> Option<usize> {
        (0..self.entries.len()).find(|&n| {
            let miss = &self.entries[n];
            self.used >> n & 1 == 1 && miss.fill == UNKNOWN && miss.waiters >> waiter & 1 == 1
        })
    }

    /// True if nothing is outstanding at `now`.
    pub(crate) fn is_empty(&mut self, now: Cycle) -> bool {
        self.release(now);
        self.used == 0
    }

    fn release(&mut self, now: Cycle) {
        let mut rest = self.used;
        while rest != 0 {
            let n = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.entries[n].fill <= now {
                self.used &= !(1 << n);
            }
        }
    }

    /// The earliest known fill after `now`, or [`UNKNOWN`].
    pub(crate) fn next_fill(&self, now: Cycle) -> Cycle {
        let mut next = UNKNOWN;
        let mut rest = self.used;
        while rest != 0 {
            let n = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let fill = self.entries[n].fill;
            if fill > now {
                next = next.min(fill);
            }
        }
        next
    }

    /// The shared levels answer: takes the miss of this line out, if there is one.
    pub(crate) fn answer(&mut self, line: u64) -> Option<Miss> {
        let mut rest = self.used;
        while rest != 0 {
            let n = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let miss = self.entries[n];
            if miss.line == line && miss.fill == UNKNOWN {
                self.used &= !(1 << n);
                return Some(miss);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn get(&mut self, n: usize) -> &mut Miss {
        &mut self.entries[n]
    }

    /// Returns the number of registers.
    pub(crate) fn registers(&self) -> usize {
        self.entries.len()
    }

    /// Number of registers in use at `now`.
    pub(crate) fn in_use(&mut self, now: Cycle) -> u32 {
        self.release(now);
        self.used.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_is_busy_until_its_fill() {
        let mut file = MissFile::new(2);
        assert_eq!(file.allocate(10, 100, 0), Some(0));
        assert_eq!(file.allocate(11, UNKNOWN, 0), Some(1));
        assert_eq!(file.allocate(12, 100, 99), None);
        assert_eq!(file.find(10, 99), Some(0));
        assert_eq!(file.next_fill(0), 100);
        assert_eq!(file.find(10, 100), None);
        assert_eq!(file.allocate(12, 120, 100), Some(0));
        assert!(file.answer(12).is_none(), "its fill is known already");
        assert_eq!(file.answer(11).unwrap().line, 11);
        assert!(file.has_free(100) && !file.is_empty(119) && file.is_empty(120));
    }
}
