//! Loads, and stores that write the cache behind the pipeline's back.

use halfwink_units::Cycle;

use super::{Blocked, InOrder, Origin, QueuedStore, Ready, Step};
use crate::core::pipeline::StallOn;
use crate::cpi_stack::Reason;
use crate::front_end::By;
use crate::miss::UNKNOWN;
use crate::private::Access;
use crate::threads::NO_POST;
use crate::translation::Page;
use crate::uop::{fold, Uop, NO_REG};

impl InOrder {
    #[inline]
    pub(super) fn load(&mut self, uop: &Uop, until: Cycle) -> Step {
        let (first, last, byte) = self.common.front_end.data_lines();
        let end = byte + u64::from(uop.size) - 1;
        let by = self.common.front_end.by(uop);
        let pages = self.sizes.map(|sizes| self.common.front_end.data_pages(sizes));
        if let Some(step) = pages.and_then(|pages| self.translate(pages, false, by, until)) {
            return step;
        }
        let hit = self.cycle + self.common.private.l1d_latency();
        // Assumption: a load that the store covers only in part is forwarded too. Most real cores
        // let it wait until the store has written the cache.
        let overlaps = |s: &QueuedStore| s.first_byte <= end && byte <= s.last_byte;
        // An atomic instruction takes the line itself.
        let locks = self.locks(uop);
        if !locks && self.stores.iter().any(overlaps) {
            self.translated(pages, by);
            self.write(uop, hit, Reason::Dependency);
            self.issue(uop);
            return Step::Again;
        }
        // Half a load could not be taken back: it starts only if both lines can miss.
        if first != last && self.common.private.data_misses.free(self.cycle) < 2 {
            return self.wait_for_registers(2, until);
        }
        let mut ready = hit;
        let mut answers = 0;
        let mut miss = 0;
        let lines = [first, last];
        let lines = if first == last { &lines[..1] } else { &lines[..] };
        for &line in lines {
            let work = &self.common.front_end.work;
            match self.common.private.read(line, (by, locks), self.cycle, work) {
                Access::Hit => {}
                Access::At(cycle) => ready = ready.max(cycle),
                Access::Outstanding(n) => {
                    miss = n as u8;
                    answers += self.wait_in(n, uop);
                }
                Access::NoRegister => {
                    debug_assert_eq!(answers, 0, "half of a load is under way");
                    return self.wait_for_registers(1, until);
                }
            }
        }
        self.translated(pages, by);
        if answers > 0 {
            // Assumption: what comes from the second level for its other line is there by then. It
            // need not be, if the miss is an older load's that is about to be answered.
            self.owe(uop, answers, miss);
        } else {
            let reason = if ready > hit { Reason::L2 } else { Reason::Dependency };
            self.write(uop, ready, reason);
        }
        self.issue(uop);
        Step::Again
    }

    /// True for an access of an atomic instruction, where other threads may have the line.
    #[inline]
    fn locks(&self, uop: &Uop) -> bool {
        uop.folds & fold::LOCKED != 0 && self.common.front_end.turns().is_some()
    }

    #[inline]
    fn translated(&mut self, pages: Option<[Page; 2]>, by: By) {
        if let Some(pages) = pages {
            self.common.private.translated(pages, false, by.kernel());
        }
    }

    /// Registers the results of a load in a miss; the number of answers it now waits for.
    fn wait_in(&mut self, n: usize, uop: &Uop) -> u8 {
        // A load of a pair writes two registers from one miss: the answer comes once for both.
        let mut added = 0;
        let miss = self.common.private.data_misses.get(n);
        for &r in uop.results.iter().filter(|&&r| r != NO_REG) {
            if miss.waiters >> r & 1 == 0 {
                miss.waiters |= 1 << r;
                added = 1;
            }
        }
        added
    }

    fn owe(&mut self, uop: &Uop, answers: u8, miss: u8) {
        for &r in uop.results.iter().filter(|&&r| r != NO_REG) {
            let before = self.ready[usize::from(r)];
            debug_assert_ne!(before, Ready::UNKNOWN, "an earlier writer is waited for");
            self.ready[usize::from(r)] = Ready::UNKNOWN;
            self.origin[usize::from(r)] = Origin { answers, miss };
            self.owed += 1;
        }
    }

    fn wait_for_registers(&mut self, count: u32, until: Cycle) -> Step {
        let next = self.common.private.data_misses.next_fill(self.cycle);
        if next == UNKNOWN {
            return Step::Wait(Blocked::DataRegisters(count), StallOn::Data);
        }
        self.pass_to(next.min(until), Reason::L2);
        Step::Again
    }

    #[inline]
    pub(super) fn store(&mut self, uop: &Uop, until: Cycle) -> Step {
        if self.stores.len() == self.common.spec.store_queue {
            let next = self.next_drain;
            if next == UNKNOWN {
                return Step::Wait(Blocked::DataRegisters(1), StallOn::Store);
            }
            self.pass_to(next.max(self.cycle + 1).min(until), Reason::Store);
            return Step::Again;
        }
        let by = self.common.front_end.by(uop);
        let pages = self.sizes.map(|sizes| self.common.front_end.data_pages(sizes));
        if let Some(step) = pages.and_then(|pages| self.translate(pages, false, by, until)) {
            return step;
        }
        self.translated(pages, by);
        let (first, last, byte) = self.common.front_end.data_lines();
        let post = self.common.front_end.post_of(uop.access);
        self.posts += u32::from(post != NO_POST);
        self.stores.push_back(QueuedStore {
            lines: [first, last],
            first_byte: byte,
            last_byte: byte + u64::from(uop.size) - 1,
            by,
            is_locked: self.locks(uop),
            post,
            earliest: self.cycle + 1,
            half: false,
        });
        if self.stores.len() == 1 {
            self.plan_drain();
        }
        self.issue(uop);
        Step::Again
    }

    /// Works out when the store in front may write the cache. Kept and not asked for: the issue
    /// loop compares with it before each access, and it changes only with the front of the queue.
    #[inline]
    pub(super) fn plan_drain(&mut self) {
        self.next_drain = match self.stores.front() {
            Some(store) if !self.store_blocked => store.earliest.max(self.last_drain + 1),
            _ => UNKNOWN,
        };
    }

    /// Lets stores write the cache, one a cycle, up to cycle `now`.
    #[inline]
    pub(super) fn drain_stores(&mut self, now: Cycle) {
        while self.next_drain <= now {
            self.drain_store(self.next_drain);
        }
    }

    fn drain_store(&mut self, at: Cycle) {
        let mut store = self.stores[0];
        let [first, last] = store.lines;
        let by = (store.by, store.is_locked);
        let mut write = |line| self.common.private.write(line, by, at);
        let mut access = Access::Hit;
        if !store.half {
            access = write(first);
        }
        if access != Access::NoRegister && last != first {
            store.half = true;
            access = write(last);
        }
        if access == Access::NoRegister {
            self.stores[0] = store;
            match self.common.private.data_misses.next_fill(at) {
                // All registers wait for the shared levels: only an answer helps.
                UNKNOWN => self.store_blocked = true,
                // As if it had written just before: the next try is when a register is free.
                fill => self.last_drain = fill - 1,
            }
        } else {
            self.last_drain = at;
            self.stores.pop_front();
            if store.post != NO_POST {
                self.posts -= 1;
                self.common.post(store.post, last, access, at);
            }
        }
        self.plan_drain();
    }
}
