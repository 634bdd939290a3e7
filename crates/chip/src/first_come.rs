//! Memory whose banks serve first come first served: channels of ranks of banks with open rows.
//!
//! An access is scheduled when it reaches the controller: its bank and then its channel are
//! reserved for it, so its time is known at once. Nothing is reordered, writes do not wait for each
//! other, and refresh is not modelled.

use halfwink_dram::Counts;
use halfwink_units::Time;

use crate::machine::FirstComeSpec;

const NO_ROW: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Bank {
    row: u64,
    /// The next column command may start.
    column: Time,
    /// The open row may be closed.
    precharge: Time,
}

/// All channels.
#[derive(Clone, Debug)]
pub(crate) struct FirstCome {
    spec: FirstComeSpec,
    banks: Vec<Bank>,
    /// When each channel's data lines are free.
    channels: Vec<Time>,
    /// Accesses and the rows that they opened; it has no clock and no queues to count.
    pub(crate) counts: Counts,
}

/// When an access is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduled {
    /// What the bank counter says: done, if the channel is free then.
    pub(crate) bank_done: Time,
    /// Done.
    pub(crate) done: Time,
}

impl FirstCome {
    pub(crate) fn new(spec: FirstComeSpec) -> FirstCome {
        let bank = Bank { row: NO_ROW, column: Time::ZERO, precharge: Time::ZERO };
        FirstCome {
            spec,
            banks: vec![bank; spec.channels * spec.ranks * spec.banks],
            channels: vec![Time::ZERO; spec.channels],
            counts: Counts::default(),
        }
    }

    /// Schedules an access that arrives at `now`. Neighbouring lines lie in one row, rows of
    /// neighbouring addresses in different channels and banks.
    pub(crate) fn access(&mut self, line: u64, write: bool, kernel: bool, now: Time) -> Scheduled {
        let mode = usize::from(kernel);
        let spec = &self.spec;
        let mut rest = line / spec.row_lines;
        let channel = (rest % spec.channels as u64) as usize;
        rest /= spec.channels as u64;
        let banks = (spec.banks * spec.ranks) as u64;
        let bank_index = channel * banks as usize + (rest % banks) as usize;
        let row = rest / banks;

        let bank = &mut self.banks[bank_index];
        let column = if bank.row == row {
            now.max(bank.column)
        } else {
            self.counts.activates[mode] += 1;
            let activate = if bank.row == NO_ROW {
                now.max(bank.precharge)
            } else {
                now.max(bank.precharge) + spec.t_rp
            };
            bank.row = row;
            bank.precharge = activate + spec.t_ras;
            activate + spec.t_rcd
        };
        bank.column = column + spec.burst;
        let bank_done = column + spec.t_cl + spec.burst;
        let start = (column + spec.t_cl).max(self.channels[channel]);
        let done = start + spec.burst;
        self.channels[channel] = done;
        let busy_until = if write { done + spec.t_wr } else { column + spec.t_rtp };
        bank.precharge = bank.precharge.max(busy_until);
        let count = if write { &mut self.counts.writes } else { &mut self.counts.reads };
        count[mode] += 1;
        Scheduled { bank_done, done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec() -> FirstComeSpec {
        let ns = Time::from_ns;
        FirstComeSpec {
            channels: 1,
            ranks: 1,
            banks: 8,
            row_lines: 128,
            t_rcd: ns(13.5),
            t_rp: ns(13.5),
            t_cl: ns(13.5),
            t_ras: ns(36.0),
            t_wr: ns(15.0),
            t_rtp: ns(7.5),
            burst: ns(6.0),
        }
    }

    #[test]
    fn closed_hit_and_conflict_take_what_the_data_sheet_says() {
        let mut memory = FirstCome::new(spec());
        // Closed: activate 13.5, column 13.5, burst 6.
        assert_eq!(memory.access(0, false, false, Time::ZERO).done, Time::from_ns(33.0));
        // Hit: column 13.5, burst 6.
        assert_eq!(memory.access(1, false, false, Time::ns(100)).done, Time::from_ns(119.5));
        // Another row of the bank: precharge 13.5 first.
        let conflict = memory.access(8 * 128, false, false, Time::ns(200)).done;
        assert_eq!(conflict, Time::from_ns(246.5));
        // Another bank, long idle, is closed.
        assert_eq!(memory.access(128, false, false, Time::ns(300)).done, Time::ns(333));
        assert_eq!((memory.counts.row_hits(), memory.counts.activates), (1, [3, 0]));
    }

    #[test]
    fn hits_in_a_row_follow_each_other_by_a_burst() {
        let mut memory = FirstCome::new(spec());
        let first = memory.access(0, false, false, Time::ZERO).done;
        for n in 1..10 {
            assert_eq!(memory.access(n, false, false, Time::ZERO).done, first + Time::ns(6) * n);
        }
    }

    #[test]
    fn banks_work_together_and_share_the_channel() {
        let mut memory = FirstCome::new(spec());
        let first = memory.access(0, false, false, Time::ZERO);
        let second = memory.access(128, false, false, Time::ZERO);
        assert_eq!(first.done, second.bank_done);
        assert_eq!(second.done, first.done + Time::ns(6));
    }

    #[test]
    fn a_row_stays_open_long_enough() {
        let mut memory = FirstCome::new(spec());
        memory.access(0, false, false, Time::ZERO);
        // Activate at 0, so precharge at 36 at the earliest: 36 + 13.5 + 13.5 + 13.5 + 6.
        let conflict = memory.access(8 * 128, false, false, Time::ns(10)).done;
        assert_eq!(conflict, Time::from_ns(82.5));
    }

    proptest! {
        /// The bank's promise is a lower bound, and the channel carries one line at a time.
        #[test]
        fn estimates_are_lower_bounds(
            accesses in prop::collection::vec((0u64..4096, any::<bool>(), 0u64..50), 1..200),
        ) {
            let mut memory = FirstCome::new(spec());
            let mut now = Time::ZERO;
            let mut ends = Vec::new();
            for (line, write, gap) in accesses {
                now += Time::ns(gap);
                let scheduled = memory.access(line, write, false, now);
                prop_assert!(scheduled.bank_done <= scheduled.done);
                prop_assert!(scheduled.done >= now + Time::from_ns(19.5));
                ends.push(scheduled.done);
            }
            ends.sort();
            for pair in ends.windows(2) {
                prop_assert!(pair[1] - pair[0] >= Time::ns(6));
            }
        }
    }
}
