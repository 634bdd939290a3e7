//! Atomic instructions between caches: a locked load takes its line to write it, and the store
//! behind it finds the line as the load had it.
//!
//! Cores hold on to the line between the two (Intel SDM 3, Sec 9.1.4), so that each atomic
//! instruction moves it once. In the model the line may leave at any time; so what the store wrote
//! counts as written by the load.

use halfwink_units::Cycle;

use crate::front_end::{By, WorkCounts};
use crate::private::{Access, Private};

impl Private {
    /// Reads a line of data at cycle `now`; to write it, if an atomic instruction locks it.
    #[inline]
    pub(crate) fn read(
        &mut self,
        line: u64,
        (by, locks): (By, bool),
        now: Cycle,
        work: &WorkCounts,
    ) -> Access {
        if locks {
            self.lock(line, by, now, work)
        } else {
            self.load(line, by, now, work)
        }
    }

    /// A queued store writes a line at cycle `now`; that of an atomic instruction, whose load has
    /// locked the line, finds it.
    #[inline]
    pub(crate) fn write(&mut self, line: u64, (by, is_locked): (By, bool), now: Cycle) -> Access {
        if is_locked {
            self.write_locked(line, by)
        } else {
            self.store(line, by, now)
        }
    }

    /// Reads a line of data to write it. It is kept out of the pipelines' loops, where a second
    /// copy of the access would take room.
    #[cold]
    #[inline(never)]
    fn lock(&mut self, line: u64, by: By, now: Cycle, work: &WorkCounts) -> Access {
        self.data(line, true, by, now, Some(work))
    }

    /// Writes a line that the load of the same instruction has [locked](Private::lock).
    #[cold]
    #[inline(never)]
    fn write_locked(&mut self, line: u64, by: By) -> Access {
        self.counts.l1d_accesses[usize::from(by.kernel())] += 1;
        // Without a flag: the line may have become another core's since.
        self.l1d.touch(line, 0);
        Access::Hit
    }
}
