// SPDX-License-Identifier: GPL-2.0-or-later
//! Virtual time, reconstructed from instruction counts and the guest's own readings of its clock.
//!
//! Under `-icount shift=0` every instruction of any CPU takes one virtual nanosecond; when all CPUs
//! are halted, time jumps ahead to the next timer. QEMU tells plugins nothing about time, but the
//! guest reads it (`rdtsc`) soon after every such jump, and the value is exact.
//!
//! The recorded CPU's own time leaves out what other CPUs execute while it has work to do: QEMU
//! runs the CPUs in turns, real ones run side by side. So on the recorded CPU
//! `time = instructions + idle`, without a remainder.

use std::collections::VecDeque;

/// A point in the recorded CPU's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds if `exact`; otherwise without the part that is not known yet.
    pub value: u64,
    /// The value needs no correction.
    pub exact: bool,
}

impl Stamp {
    /// Completes the stamp, now that the missing part is known.
    pub fn resolve(&mut self, base: u64) {
        if !self.exact {
            self.value = self.value.wrapping_add(base);
            self.exact = true;
        }
    }
}

/// Accuracy of the reconstruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReport {
    /// Readings of the guest's clock.
    pub readings: u64,
    /// Readings that were not what the instruction counts foretold.
    pub surprises: u64,
    /// The largest such difference, in ns.
    pub worst_ns: u64,
    /// Jumps over periods in which all CPUs were halted.
    pub jumps: u64,
    /// Sum of these jumps, in ns.
    pub jumped_ns: u64,
    /// Instructions that other CPUs executed while the recorded one had work, in ns.
    pub stolen_ns: u64,
}

/// A reading may differ from the counts by so much, in ns, without being believed: another CPU's
/// block in flight is counted whole although it may have stopped in the middle.
const IN_FLIGHT: u64 = 64;
/// Longest history of other CPUs' turns.
const TURNS: usize = 1024;

/// Clock that reconstructs virtual time.
#[derive(Debug, Default)]
pub struct Clock {
    /// Instructions of all CPUs.
    executed: u64,
    /// Number of these executed by other CPUs while the recorded one had work.
    stolen: u64,
    /// Virtual time minus `executed`.
    base: u64,
    /// True if `base` is valid.
    synced: bool,
    /// `base` was right at some time.
    started: bool,
    /// Other CPUs' turns, as `[from, to)` in `executed`.
    turns: VecDeque<(u64, u64)>,
    report: ClockReport,
}

impl Clock {
    /// Counts instructions of the recorded CPU.
    #[inline]
    pub fn run(&mut self, count: u64) {
        self.executed += count;
    }

    /// Counts instructions of another CPU while the recorded one has work.
    pub fn steal(&mut self, count: u64) {
        let from = self.executed;
        self.executed += count;
        self.stolen += count;
        self.report.stolen_ns += count;
        match self.turns.back_mut() {
            Some((_, to)) if *to == from => *to = self.executed,
            _ => {
                if self.turns.len() == TURNS {
                    self.turns.pop_front();
                }
                self.turns.push_back((from, self.executed));
            }
        }
    }

    /// Takes back instructions that were counted by [`Clock::run`] but did not retire.
    pub fn take_back(&mut self, count: u64) {
        self.executed -= count;
    }

    /// Takes back instructions that were counted by [`Clock::steal`] but did not retire.
    pub fn give_back(&mut self, count: u64) {
        self.executed -= count;
        self.stolen -= count;
        self.report.stolen_ns -= count;
        if let Some((_, to)) = self.turns.back_mut() {
            *to = (*to).min(self.executed);
        }
    }

    /// Instructions so far, to be given to [`Clock::read`].
    #[must_use]
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// All CPUs were halted: time may have jumped.
    pub fn all_halted(&mut self) {
        self.synced = false;
    }

    /// True unless time may have jumped since the last reading.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// The guest read `time` when `executed` instructions had been executed. Returns what to
    /// resolve open stamps with, if they were waiting.
    pub fn read(&mut self, time: u64, executed: u64) -> Option<u64> {
        let base = time.wrapping_sub(executed);
        let jump = base.wrapping_sub(self.base);
        self.report.readings += 1;
        if self.synced {
            let distance = (jump as i64).unsigned_abs();
            if distance > 0 {
                self.report.surprises += 1;
                self.report.worst_ns = self.report.worst_ns.max(distance);
            }
            if distance > IN_FLIGHT {
                self.base = base;
            }
            return None;
        }
        self.base = base;
        if self.started && jump != 0 {
            self.report.jumps += 1;
            self.report.jumped_ns = self.report.jumped_ns.wrapping_add(jump);
        }
        self.synced = true;
        self.started = true;
        Some(self.base)
    }

    /// Goes on without a reading: what to resolve open stamps with.
    #[must_use]
    pub fn give_up(&self) -> u64 {
        self.base
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> Stamp {
        self.stamp(self.executed - self.stolen)
    }

    /// `lag` nanoseconds of all CPUs' time ago.
    #[must_use]
    pub fn ago(&self, lag: u64) -> Stamp {
        let since = self.executed.saturating_sub(lag);
        let stolen: u64 = self
            .turns
            .iter()
            .rev()
            .take_while(|(_, to)| *to > since)
            .map(|(from, to)| to - (*from).max(since))
            .sum();
        self.stamp((self.executed - self.stolen).wrapping_sub(lag).wrapping_add(stolen))
    }

    fn stamp(&self, offset: u64) -> Stamp {
        let value = if self.synced { offset.wrapping_add(self.base) } else { offset };
        Stamp { value, exact: self.synced }
    }

    /// Returns the accuracy up to now.
    #[must_use]
    pub fn report(&self) -> ClockReport {
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(value: u64) -> Stamp {
        Stamp { value, exact: true }
    }

    #[test]
    fn time_is_instructions_plus_jumps() {
        let mut clock = Clock::default();
        clock.run(100);
        let mut early = clock.now();
        assert!(!early.exact);
        clock.run(50);
        assert_eq!(clock.read(5_150, clock.executed()), Some(5_000));
        early.resolve(5_000);
        assert_eq!(early, exact(5_100));
        clock.run(10);
        assert_eq!(clock.now(), exact(5_160));
        clock.all_halted();
        clock.run(20);
        let mut woken = clock.now();
        let base = clock.read(9_185, clock.executed() + 5).expect("it was waiting");
        woken.resolve(base);
        assert_eq!(woken, exact(9_180));
        let report = clock.report();
        assert_eq!((report.jumps, report.jumped_ns, report.surprises), (1, 4_000, 0));
    }

    #[test]
    fn stolen_time_stands_still() {
        let mut clock = Clock::default();
        clock.run(1_000);
        clock.read(1_000, clock.executed());
        clock.steal(300);
        assert_eq!(clock.now(), exact(1_000));
        clock.run(100);
        assert_eq!(clock.now(), exact(1_100));
        assert_eq!(clock.ago(50), exact(1_050));
        assert_eq!(clock.ago(100), exact(1_000));
        assert_eq!(clock.ago(250), exact(1_000), "inside the other CPU's turn");
        assert_eq!(clock.ago(400), exact(1_000));
        assert_eq!(clock.ago(450), exact(950));
        assert_eq!(clock.read(1_400, clock.executed()), None);
        assert_eq!(clock.report().surprises, 0);
        clock.steal(8);
        clock.give_back(3);
        assert_eq!(clock.now(), exact(1_100));
        assert_eq!(clock.read(1_405, clock.executed()), None);
        assert_eq!((clock.report().surprises, clock.report().stolen_ns), (0, 305));
    }

    #[test]
    fn clock_that_jumps_counts_surprise() {
        let mut clock = Clock::default();
        clock.read(10, 0);
        clock.run(5);
        assert_eq!(clock.read(12, 5), None);
        assert_eq!((clock.report().surprises, clock.report().worst_ns), (1, 3));
        assert_eq!(clock.now(), exact(15), "a block of another CPU may be in flight");
        assert_eq!(clock.read(1_000, 5), None);
        assert_eq!(clock.now(), exact(1_000), "the reading is right");
    }
}
