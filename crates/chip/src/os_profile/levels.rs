//! A hierarchy of caches that remembers whose lines it holds.

use crate::cache::{flag, Cache};
use crate::machine::Geometry;

/// Counters of a level, by privilege (user, kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Number of accesses, in lines.
    pub accesses: [u64; 2],
    /// Number of misses among these.
    pub misses: [u64; 2],
    /// Lines that left: by the privilege of the access that displaced them, then by the privilege
    /// of the one that had brought them in.
    pub evictions: [[u64; 2]; 2],
}

#[derive(Debug)]
struct Level {
    cache: Cache,
    counts: LevelCounts,
}

impl Level {
    fn new(geometry: Geometry) -> Level {
        Level { cache: Cache::new(geometry), counts: LevelCounts::default() }
    }

    /// True if the line was there; it is afterwards.
    #[inline]
    fn holds(&mut self, line: u64, mode: usize) -> bool {
        self.counts.accesses[mode] += 1;
        if self.cache.touch(line, 0).is_some() {
            return true;
        }
        self.counts.misses[mode] += 1;
        let owner = flag::owner(mode == 1);
        if let Some(victim) = self.cache.insert(line, owner) {
            self.counts.evictions[mode][usize::from(victim.kernel)] += 1;
        }
        false
    }
}

/// First-level instruction and data caches, then caches for both, each behind the one before.
#[derive(Debug)]
pub(super) struct Hierarchy {
    l1: [Level; 2],
    unified: Vec<Level>,
}

impl Hierarchy {
    pub(super) fn new(l1i: Geometry, l1d: Geometry, unified: &[Geometry]) -> Hierarchy {
        Hierarchy {
            l1: [Level::new(l1i), Level::new(l1d)],
            unified: unified.iter().map(|&geometry| Level::new(geometry)).collect(),
        }
    }

    #[inline]
    pub(super) fn access(&mut self, code: bool, line: u64, mode: usize) {
        if self.l1[usize::from(!code)].holds(line, mode) {
            return;
        }
        for level in &mut self.unified {
            if level.holds(line, mode) {
                return;
            }
        }
    }

    /// Puts a line that was in use before the trace into all levels, without counting.
    pub(super) fn warm(&mut self, code: bool, line: u64, mode: usize) {
        let owner = flag::owner(mode == 1);
        let first = &mut self.l1[usize::from(!code)];
        for level in std::iter::once(first).chain(&mut self.unified) {
            if level.cache.touch(line, 0).is_none() {
                level.cache.insert(line, owner);
            }
        }
    }

    /// Counts of L1I, L1D and the levels behind them.
    pub(super) fn counts(&self) -> impl Iterator<Item = LevelCounts> + '_ {
        self.l1.iter().chain(&self.unified).map(|level| level.counts)
    }
}
