//! Translation as a part of a core's private caches, through which its walkers read.

use halfwink_units::Cycle;

use super::{Page, Refill, Sizes, Translation};
use crate::cache::flag;
use crate::front_end::By;
use crate::miss::UNKNOWN;
use crate::private::{Notice, Private};
use crate::ruled::Reference;
use crate::uncore::Want;

/// Cycle at which an access without translation may be retried; none if it has one.
pub(crate) type Untranslated = Option<Cycle>;

impl Private {
    /// Accesses need translations here.
    #[inline]
    pub(crate) fn translates(&self) -> bool {
        self.translation.is_some()
    }

    pub(crate) fn page_sizes(&self) -> Sizes {
        self.translation.as_ref().map(|t| t.sizes()).unwrap_or_default()
    }

    /// Returns none if the pages of an access are translated at `now`; otherwise the cycle at which
    /// to retry, or [`UNKNOWN`] if the shared levels have to answer first. Repeated calls change
    /// nothing except that a refill begins, once.
    #[inline]
    pub(crate) fn translate(
        &mut self,
        pages: [Page; 2],
        code: bool,
        by: By,
        now: Cycle,
    ) -> Untranslated {
        let first = self.translate_page(pages[0], code, by, now);
        if pages[0] == pages[1] {
            return first;
        }
        // Both at once, if both are missing.
        let second = self.translate_page(pages[1], code, by, now);
        first.max(second)
    }

    #[inline]
    fn translate_page(&mut self, page: Page, code: bool, by: By, now: Cycle) -> Untranslated {
        let translation = self.translation.as_mut()?;
        if translation.refills.is_empty() && translation.buffers.holds(page, code) {
            return None;
        }
        self.refill(page, code, by, now)
    }

    /// Finds the refill of a page, or begins one.
    #[cold]
    fn refill(&mut self, page: Page, code: bool, by: By, now: Cycle) -> Untranslated {
        let mut translation = self.translation.take()?;
        let t = &mut *translation;
        let same = |refill: &&Refill| refill.page == page && refill.code == code;
        let found = match t.refills.iter().find(same) {
            Some(refill) => (refill.fill > now).then_some(refill.fill),
            None if t.buffers.holds(page, code) => None,
            None => Some(self.begin_refill(t, page, code, by, now)),
        };
        self.translation = Some(translation);
        found
    }

    fn begin_refill(
        &mut self,
        t: &mut Translation,
        page: Page,
        code: bool,
        by: By,
        now: Cycle,
    ) -> Cycle {
        let (kernel, mode) = (by.kernel(), usize::from(by.kernel()));
        let latency = t.spec.second_latency;
        let mut refill = Refill {
            page,
            code,
            kernel,
            fill: now + latency,
            walks: false,
            level: 0,
            line: 0,
            is_answered: false,
            is_told: false,
        };
        let other = |refill: &&Refill| refill.page == page;
        // The other side has begun the same walk, or it is in the second level.
        if let Some(other) = t.refills.iter().find(other) {
            if other.fill > now {
                return other.fill;
            }
        }
        if !t.buffers.holds_second(page) {
            // Nothing has been counted or begun: the access asks again when a walker may be free.
            if !t.has_walker(now) {
                return t.next_fill(now);
            }
            refill.walks = true;
            t.counts.walks[mode] += 1;
            refill.level = t.buffers.first_read(page);
            self.read_entries(t, &mut refill, now, latency);
        }
        // Entries are placed at once, as lines are in caches: until the fill the refill says that
        // they are still to come.
        t.buffers.use_second(page);
        t.buffers.use_first(page, code);
        let misses = match code {
            true => &mut t.counts.instruction_misses,
            false => &mut t.counts.data_misses,
        };
        misses[mode] += 1;
        t.refills.push(refill);
        refill.fill
    }

    /// Reads entries from the refill's level on, beginning so many cycles after `now`, up to one
    /// that the shared levels have to bring.
    fn read_entries(
        &mut self,
        t: &mut Translation,
        refill: &mut Refill,
        now: Cycle,
        mut after: Cycle,
    ) {
        let mode = usize::from(refill.kernel);
        loop {
            let line = refill.page.entry_line(refill.level);
            t.counts.walk_reads[mode] += 1;
            match self.read_entry(line, refill.kernel, now, after) {
                Some(taken) => after += taken,
                None => {
                    t.counts.walk_misses[mode] += 1;
                    (refill.fill, refill.line, refill.is_answered) = (UNKNOWN, line, false);
                    return;
                }
            }
            t.buffers.has_read(refill.page, refill.level);
            if refill.level == refill.page.leaf() {
                refill.fill = now + after;
                return;
            }
            refill.level -= 1;
        }
    }

    /// A walker reads a line of a table, so many cycles after `now`: how many it takes, or none if
    /// the shared levels have to answer.
    fn read_entry(&mut self, line: u64, kernel: bool, now: Cycle, after: Cycle) -> Option<Cycle> {
        let mode = usize::from(kernel);
        self.counts.l2_accesses[mode] += 1;
        self.notice(Notice::MissedL1 { line, at: now + after });
        let reference = Reference { line, kernel, code: false, pc: 0 };
        let (flags, taken) = self.read_second(reference);
        match flags {
            Some(flags) if flags & flag::PENDING == 0 => {
                self.notice(Notice::L2Answer { line, at: now + after + taken });
                return Some(taken);
            }
            Some(_) => self.notice(Notice::MissedL2 { line, at: now + after }),
            None => {
                self.counts.l2_misses[mode] += 1;
                if let Some(losing) = &mut self.losing {
                    losing.missed(line, kernel);
                }
                self.notice(Notice::MissedL2 { line, at: now + after });
                self.allocate_l2(reference, flag::PENDING, kernel, now);
                self.request(line, Want::Read, kernel, now, after + taken);
            }
        }
        None
    }

    /// An access of these pages happens, whose translations are there.
    #[inline]
    pub(crate) fn translated(&mut self, pages: [Page; 2], code: bool, kernel: bool) {
        let Some(t) = &mut self.translation else { return };
        let accesses = match code {
            true => &mut t.counts.instruction_accesses,
            false => &mut t.counts.data_accesses,
        };
        let count = if pages[0] == pages[1] { 1 } else { 2 };
        accesses[usize::from(kernel)] += count;
        for &page in &pages[..count as usize] {
            t.buffers.use_first(page, code);
        }
        if !t.refills.is_empty() {
            // Others that waited find it in the first level.
            t.refills.retain(|r| !(r.code == code && (r.page == pages[0] || r.page == pages[1])));
        }
    }

    /// Advances walks that were answered; returns true if an access may have waited for their
    /// result, or for a translation that has arrived.
    #[inline]
    pub(crate) fn go_on_walking(&mut self, now: Cycle) -> bool {
        match &self.translation {
            Some(t) if !t.refills.is_empty() => self.go_on(now),
            _ => false,
        }
    }

    #[cold]
    fn go_on(&mut self, now: Cycle) -> bool {
        let Some(mut translation) = self.translation.take() else { return false };
        let t = &mut *translation;
        let went_on = std::mem::take(&mut t.due);
        if went_on {
            for n in 0..t.refills.len() {
                let mut refill = t.refills[n];
                if refill.is_answered {
                    refill.is_answered = false;
                    t.buffers.has_read(refill.page, refill.level);
                    if refill.level == refill.page.leaf() {
                        refill.fill = now;
                    } else {
                        refill.level -= 1;
                        self.read_entries(t, &mut refill, now, 0);
                    }
                    t.refills[n] = refill;
                }
            }
        }
        let told = t.tell(now);
        self.translation = Some(translation);
        went_on || told
    }

    /// A walk was answered, and can go on.
    #[inline]
    pub(crate) fn can_walk(&self) -> bool {
        self.translation.as_ref().is_some_and(|t| t.due)
    }

    /// The first cycle after `now` at which a translation comes, or [`UNKNOWN`].
    #[inline]
    pub(crate) fn next_translation(&self, now: Cycle) -> Cycle {
        self.translation.as_ref().map_or(UNKNOWN, |t| t.next_fill(now))
    }

    /// The shared levels have answered: whether a walk waited for that.
    #[inline]
    pub(crate) fn answer_walks(&mut self, line: u64) -> bool {
        self.translation.as_mut().is_some_and(|t| t.answer(line))
    }

    /// No translation is on its way at `now`.
    pub(crate) fn is_translated(&self, now: Cycle) -> bool {
        self.translation.as_ref().is_none_or(|t| t.is_quiet(now))
    }
}
