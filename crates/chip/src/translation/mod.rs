//! Address translation of a core: translation buffers of two levels, and walkers that read page
//! tables through the second-level cache.
//!
//! ```text
//!  page ─▶ first level (instructions, data) ─▶ second level ─▶ walk caches ─▶ walker
//!                                                                 │ table entries, one after
//!                                                                 ▼ another
//!                                              second-level cache ─▶ shared levels
//! ```
//!
//! An access without a translation waits, and tries again when it is there: nothing of it happens
//! before. **A walk** reads the entries that the walk caches do not have from the root to the leaf.
//! What the second-level cache has of them is looked up when the walk begins, or goes on after an
//! answer, each with the time that it takes; so between two answers a walk knows when it is over,
//! and no cycle has to be visited for it. The page is in the buffers from the beginning of its walk
//! on, as lines are in caches from their miss on.
//!
//! Assumptions: a walker's reads go past the data cache, as a miss of it; entries are read, never
//! written (no accessed or dirty bits); a look-up of the first level costs nothing beside the
//! cache's, whose time and energy have it.

mod page;
mod private;

use halfwink_units::Cycle;

use crate::cache::{Cache, Victim};
use crate::machine::{Geometry, TlbLevelSpec, TlbSpec};
use crate::miss::UNKNOWN;

pub(crate) use page::{Page, Sizes, Space, LEVELS};

/// Counters of translation, by privilege of the access (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlbCounts {
    /// Pages of fetched lines.
    pub instruction_accesses: [u64; 2],
    /// Number of misses in the first level.
    pub instruction_misses: [u64; 2],
    /// Pages of loads and stores.
    pub data_accesses: [u64; 2],
    /// Number of misses in the first level.
    pub data_misses: [u64; 2],
    /// Misses of the second level: walks.
    pub walks: [u64; 2],
    /// Table entries that they read.
    pub walk_reads: [u64; 2],
    /// Number of misses in the second-level cache.
    pub walk_misses: [u64; 2],
}

/// A first level: pages of both sizes in one array, or large ones in one of their own.
#[derive(Clone, Debug)]
struct FirstLevel {
    all: Cache,
    large: Option<Cache>,
}

impl FirstLevel {
    fn new(spec: TlbLevelSpec) -> FirstLevel {
        FirstLevel { all: Cache::new(spec.all), large: spec.large.map(Cache::new) }
    }

    #[inline]
    fn array(&mut self, page: Page) -> &mut Cache {
        match &mut self.large {
            Some(large) if page.is_large() => large,
            _ => &mut self.all,
        }
    }

    fn arrays(&mut self) -> impl Iterator<Item = &mut Cache> {
        std::iter::once(&mut self.all).chain(&mut self.large)
    }
}

/// Contents of all buffers, each set in the order of recency.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    /// First levels of data and of instructions.
    first: [FirstLevel; 2],
    second: Cache,
    /// Caches of entries that are not leaves, by level from 1 on.
    walk_caches: Option<[Cache; LEVELS - 1]>,
}

impl Buffers {
    pub(crate) fn new(spec: &TlbSpec) -> Buffers {
        let entries = spec.walk_cache;
        let fully = |ways| Cache::new(Geometry { sets: 1, ways });
        Buffers {
            first: [FirstLevel::new(spec.data), FirstLevel::new(spec.instruction)],
            second: Cache::new(spec.second),
            walk_caches: (entries > 0).then(|| [fully(entries), fully(entries), fully(entries)]),
        }
    }

    /// Returns whether both have equal numbers of sets and ways.
    pub(crate) fn is_shaped_like(&self, other: &Buffers) -> bool {
        let same = |a: &Option<Cache>, b: &Option<Cache>| match (a, b) {
            (Some(a), Some(b)) => a.is_shaped_like(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        let first = self.first.iter().zip(&other.first);
        first.clone().all(|(a, b)| a.all.is_shaped_like(&b.all) && same(&a.large, &b.large))
            && self.second.is_shaped_like(&other.second)
            && match (&self.walk_caches, &other.walk_caches) {
                (Some([a, ..]), Some([b, ..])) => a.is_shaped_like(b),
                (a, b) => a.is_none() && b.is_none(),
            }
    }

    /// True if the first level has the page; nothing changes.
    #[inline]
    fn holds(&mut self, page: Page, code: bool) -> bool {
        self.first[usize::from(code)].array(page).change(page.0, 0, 0).is_some()
    }

    /// True if the second level has the page; nothing changes.
    fn holds_second(&mut self, page: Page) -> bool {
        self.second.change(page.0, 0, 0).is_some()
    }

    /// Uses the page: whether the first level has it. If not, it does from now on.
    #[inline]
    pub(crate) fn use_first(&mut self, page: Page, code: bool) -> bool {
        use_page(self.first[usize::from(code)].array(page), page.0)
    }

    /// Uses a page in the second level, and returns whether it is present.
    pub(crate) fn use_second(&mut self, page: Page) -> bool {
        use_page(&mut self.second, page.0)
    }

    /// The level at which a walk begins: below the deepest entry that a walk cache has.
    pub(crate) fn first_read(&mut self, page: Page) -> usize {
        let Some(caches) = &mut self.walk_caches else { return LEVELS - 1 };
        let mut above = page.leaf() + 1..LEVELS;
        let found = above.find(|&level| {
            let entry = page.entry(level);
            caches[level - 1].touch(entry, 0).is_some()
        });
        found.unwrap_or(LEVELS) - 1
    }

    /// A walk has read an entry.
    pub(crate) fn has_read(&mut self, page: Page, level: usize) {
        if let (Some(caches), true) = (&mut self.walk_caches, level > page.leaf()) {
            use_page(&mut caches[level - 1], page.entry(level));
        }
    }

    /// Other page tables are used from now on, and nothing tells their pages from these: only
    /// global ones stay.
    pub(crate) fn flush(&mut self) {
        let first = self.first.iter_mut().flat_map(FirstLevel::arrays);
        for array in first.chain([&mut self.second]) {
            array.keep(|page| Page(page).is_global());
        }
        for cache in self.walk_caches.iter_mut().flatten() {
            cache.keep(|entry| Page(entry).is_global());
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        let first = self.first.iter_mut().flat_map(FirstLevel::arrays);
        first.chain([&mut self.second]).for_each(Cache::clear);
        self.walk_caches.iter_mut().flatten().for_each(Cache::clear);
    }
}

/// True if it was there; it is the most recent of its set from now on.
#[inline]
fn use_page(array: &mut Cache, page: u64) -> bool {
    if array.touch(page, 0).is_some() {
        return true;
    }
    let _: Option<Victim> = array.insert(page, 0);
    false
}

/// A translation on its way to the first level.
#[derive(Clone, Copy, Debug)]
struct Refill {
    page: Page,
    code: bool,
    kernel: bool,
    /// Cycle at which it is there, or [`UNKNOWN`].
    fill: Cycle,
    /// Whether it takes a walker; otherwise the second level has it.
    walks: bool,
    /// The level of the entry that is read, if its line is with the shared levels.
    level: usize,
    line: u64,
    /// The shared levels have answered, and the walker has not gone on yet.
    is_answered: bool,
    /// Whether the waiting accesses were notified that it is present.
    is_told: bool,
}

/// Address translation of one core.
#[derive(Debug)]
pub(crate) struct Translation {
    spec: TlbSpec,
    pub(crate) buffers: Buffers,
    refills: Vec<Refill>,
    /// A walk has its answer, and may go on.
    due: bool,
    pub(crate) counts: TlbCounts,
}

impl Translation {
    pub(crate) fn new(spec: TlbSpec) -> Translation {
        Translation {
            buffers: Buffers::new(&spec),
            spec,
            refills: Vec::new(),
            due: false,
            counts: TlbCounts::default(),
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        self.spec.sizes()
    }

    /// Other page tables are used from now on.
    pub(crate) fn switch_space(&mut self) {
        if !self.spec.pcid {
            self.buffers.flush();
        }
    }

    /// The shared levels have answered.
    fn answer(&mut self, line: u64) -> bool {
        let mut waited = false;
        for refill in &mut self.refills {
            if refill.fill == UNKNOWN && refill.line == line && !refill.is_answered {
                refill.is_answered = true;
                waited = true;
            }
        }
        self.due |= waited;
        waited
    }

    /// The first cycle after `now` at which a translation is there, if none is answered before.
    fn next_fill(&self, now: Cycle) -> Cycle {
        let fills = self.refills.iter().map(|refill| refill.fill);
        fills.filter(|&fill| fill > now).min().unwrap_or(UNKNOWN)
    }

    /// Returns whether no refill is under way.
    fn is_quiet(&self, now: Cycle) -> bool {
        self.refills.iter().all(|refill| refill.fill <= now)
    }

    fn has_walker(&self, now: Cycle) -> bool {
        let busy = self.refills.iter().filter(|refill| refill.walks && refill.fill > now).count();
        busy < self.spec.walkers
    }

    /// Returns whether a translation has arrived by `now` that was not announced yet, and marks it
    /// as announced.
    fn tell(&mut self, now: Cycle) -> bool {
        let mut told = false;
        for refill in self.refills.iter_mut().filter(|refill| refill.fill <= now) {
            told |= !std::mem::replace(&mut refill.is_told, true);
        }
        told
    }
}
