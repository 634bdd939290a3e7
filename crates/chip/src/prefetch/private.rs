//! Prefetching as a part of a core's private caches.
//!
//! What a prefetcher wants at an access begins at that access, a line a cycle: a line that the
//! second level does not have leaves for the shared levels so many cycles later. **First-level
//! prefetchers** take miss registers, all but the last two of their cache, and at most as many as
//! their queue has places; **the second level's** has a queue of its own. Nobody waits for such a
//! miss until an access joins it: then it was late.

use halfwink_units::Cycle;

use super::PrefetchCounts;
use crate::cache::{flag, Victim};
use crate::front_end::By;
use crate::miss::UNKNOWN;
use crate::private::Private;
use crate::ruled::Reference;
use crate::uncore::Want;

/// Registers that are left for what the core itself misses: a load from two lines needs two.
const LEFT: u32 = 2;

impl Private {
    /// The core fetches a line.
    #[inline]
    pub(crate) fn fetched(&mut self, line: u64, by: By, now: Cycle) {
        if self.prefetchers.as_ref().is_some_and(|p| p.l1i.is_some()) {
            self.prefetch_first(line, by, true, now);
        }
    }

    /// The core loads from a line, or stores to it.
    #[inline]
    pub(crate) fn accessed(&mut self, line: u64, by: By, now: Cycle) {
        if self.prefetchers.as_ref().is_some_and(|p| p.l1d.is_some()) {
            self.prefetch_first(line, by, false, now);
        }
    }

    #[inline(never)]
    fn prefetch_first(&mut self, line: u64, by: By, code: bool, now: Cycle) {
        let Some(mut prefetchers) = self.prefetchers.take() else { return };
        let p = &mut *prefetchers;
        let (of, counts) = match code {
            true => (&mut p.l1i, &mut p.counts.l1i),
            false => (&mut p.l1d, &mut p.counts.l1d),
        };
        if let Some(prefetcher) = of {
            prefetcher.sees(line, by.pc());
            for (n, &wanted) in prefetcher.wanted.iter().enumerate() {
                counts.lookups += 1;
                let misses =
                    if code { &mut self.instruction_misses } else { &mut self.data_misses };
                let cache = if code { &mut self.l1i } else { &mut self.l1d };
                let is_there = cache.change(wanted, 0, 0).is_some();
                if is_there || misses.find(wanted, now).is_some() {
                    continue;
                }
                if misses.free(now) <= LEFT || misses.prefetches(now) >= prefetcher.queue {
                    counts.dropped += 1;
                    continue;
                }
                counts.issued += 1;
                p.counts.l2_lookups += 1;
                self.prefetch_into_first(wanted, by.kernel(), code, now, n as Cycle);
            }
        }
        self.prefetchers = Some(prefetchers);
    }

    fn prefetch_into_first(
        &mut self,
        line: u64,
        kernel: bool,
        code: bool,
        now: Cycle,
        after: Cycle,
    ) {
        if code {
            let victim = self.l1i.insert(line, flag::PENDING | flag::PREFETCHED);
            self.count_useless(0, victim);
        } else {
            self.allocate_l1d(line, flag::PREFETCHED, kernel, now);
        }
        let reference = Reference { line, kernel, code, pc: 0 };
        let (flags, taken) = self.read_second(reference);
        let fill = match flags {
            Some(flags) if flags & flag::PENDING == 0 => {
                if !code && flags & flag::SHARED != 0 {
                    self.l1d.change(line, 0, flag::SHARED);
                }
                now + after + taken
            }
            Some(_) => UNKNOWN,
            None => {
                self.allocate_l2(reference, flag::PENDING, kernel, now);
                self.request(line, Want::Prefetch, kernel, now, after + taken);
                UNKNOWN
            }
        };
        let misses = if code { &mut self.instruction_misses } else { &mut self.data_misses };
        if let Some(n) = misses.allocate(line, fill, now) {
            misses.get(n).is_prefetch = true;
        }
    }

    /// A first-level cache reads a line of the second level for the core.
    #[inline]
    pub(crate) fn read_by_core(&mut self, reference: Reference, now: Cycle) {
        if self.prefetchers.as_ref().is_some_and(|p| p.l2.is_some()) {
            self.prefetch_second(reference, now);
        }
    }

    #[inline(never)]
    fn prefetch_second(&mut self, reference: Reference, now: Cycle) {
        let Some(mut prefetchers) = self.prefetchers.take() else { return };
        let p = &mut *prefetchers;
        if let Some(prefetcher) = &mut p.l2 {
            prefetcher.sees(reference.line, reference.pc);
            for (n, &line) in prefetcher.wanted.iter().enumerate() {
                p.counts.l2.lookups += 1;
                if self.l2.change(line, 0, 0).is_some() || p.on_the_way.contains(&line) {
                    continue;
                }
                if p.on_the_way.len() >= prefetcher.queue {
                    p.counts.l2.dropped += 1;
                    continue;
                }
                p.counts.l2.issued += 1;
                p.on_the_way.push(line);
                let kernel = reference.kernel;
                let wanted = Reference { line, kernel, code: reference.code, pc: 0 };
                self.allocate_l2(wanted, flag::PENDING | flag::PREFETCHED, kernel, now);
                let after = self.l1d_latency() + self.least_l2_latency() + n as Cycle;
                self.request(line, Want::Prefetch, kernel, now, after);
            }
        }
        self.prefetchers = Some(prefetchers);
    }

    /// The core uses a line of its first level that was prefetched, and may be on its way in this
    /// register.
    #[cold]
    pub(crate) fn used_first(&mut self, line: u64, code: bool, register: Option<usize>) {
        let cache = if code { &mut self.l1i } else { &mut self.l1d };
        cache.change(line, flag::PREFETCHED, 0);
        match (register, &mut self.prefetchers) {
            (Some(n), _) => self.joins(code, n),
            (None, Some(p)) => {
                (if code { &mut p.counts.l1i } else { &mut p.counts.l1d }).useful += 1
            }
            (None, None) => {}
        }
    }

    /// An access joins the miss in this register.
    #[inline]
    pub(crate) fn joins(&mut self, code: bool, register: usize) {
        let misses = if code { &mut self.instruction_misses } else { &mut self.data_misses };
        if std::mem::take(&mut misses.get(register).is_prefetch) {
            if let Some(p) = &mut self.prefetchers {
                (if code { &mut p.counts.l1i } else { &mut p.counts.l1d }).late += 1;
            }
        }
    }

    /// Records the use of a prefetched line of the second level.
    #[cold]
    pub(crate) fn used_second(&mut self, line: u64, flags: u64) {
        self.l2.change(line, flag::PREFETCHED, 0);
        let Some(p) = &mut self.prefetchers else { return };
        let is_late = flags & flag::PENDING != 0;
        *(if is_late { &mut p.counts.l2.late } else { &mut p.counts.l2.useful }) += 1;
    }

    /// A line leaves a cache (0: instructions, 1: data, 2: second level).
    #[inline]
    pub(crate) fn count_useless(&mut self, cache: usize, victim: Option<Victim>) {
        self.useless[cache] += u64::from(victim.is_some_and(|victim| victim.prefetched));
    }

    /// The shared levels have answered a prefetch of the second level, or what joined it.
    #[inline]
    pub(crate) fn prefetch_arrived(&mut self, line: u64) {
        if let Some(p) = &mut self.prefetchers {
            p.on_the_way.retain(|&other| other != line);
        }
    }

    /// Returns the counters of its prefetchers; zeros if there are none.
    pub(crate) fn prefetch_counts(&self) -> PrefetchCounts {
        let mut counts = self.prefetchers.as_ref().map(|p| p.counts).unwrap_or_default();
        [counts.l1i.useless, counts.l1d.useless, counts.l2.useless] = self.useless;
        counts
    }

    /// No prefetch of the second level is on its way.
    pub(crate) fn is_prefetched(&self) -> bool {
        self.prefetchers.as_ref().is_none_or(|p| p.on_the_way.is_empty())
    }
}
