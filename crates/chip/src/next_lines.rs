//! Lines of instructions behind one that is fetched.

use halfwink_units::{Cycle, LINE_SHIFT, PAGE_SHIFT};

use crate::cache::flag;
use crate::front_end::{By, WorkCounts};
use crate::private::Private;
use crate::ruled::Reference;
use crate::uncore::Want;

const LINES_PER_PAGE: u64 = 1 << (PAGE_SHIFT - LINE_SHIFT);

impl Private {
    /// Brings in the lines behind this one, as far as its page goes. One register is left for a
    /// line that is waited for.
    pub(crate) fn fetch_next(&mut self, line: u64, by: By, now: Cycle, work: &WorkCounts) {
        let mode = usize::from(by.kernel());
        for next in line + 1..=line + self.next_lines {
            if next % LINES_PER_PAGE == 0 {
                return;
            }
            // Asking makes nothing recent.
            if self.l1i.change(next, 0, 0).is_some()
                || self.instruction_misses.find(next, now).is_some()
            {
                continue;
            }
            if self.instruction_misses.free(now) < 2 {
                return;
            }
            self.counts.l1i_prefetches[mode] += 1;
            self.l1i.insert(next, flag::PENDING);
            let reference = Reference::of(next, by, true);
            let fill = self.second_level(reference, Want::Read, now, Some(work));
            let register = self.instruction_misses.allocate(next, fill, now);
            debug_assert!(register.is_some(), "a register is free");
            self.count_outstanding(now);
        }
    }
}
