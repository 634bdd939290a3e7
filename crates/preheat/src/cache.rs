//! The last-level cache: tags that can be read, and flushed.

use halfwink_engine::{stream, Stream};
use halfwink_policy::preheat::LineSet;
use rand::Rng;
use serde::Deserialize;

/// Which line of a full set leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// Evicts a random line.
    #[default]
    Random,
    /// The one that was used longest ago.
    Lru,
}

/// Result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The line was there.
    Hit,
    /// The line was missing and is cached now. The evicted line follows, with whether it must be
    /// written back.
    Miss(Option<(u64, bool)>),
}

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Line number and one; 0: invalid.
    tag: u64,
    used: u32,
    dirty: bool,
}

/// A set-associative cache of lines, by their numbers.
#[derive(Clone, Debug)]
pub struct Cache {
    ways: usize,
    sets: u64,
    content: Vec<Way>,
    replacement: Replacement,
    clock: u32,
    random: Stream,
}

impl Cache {
    /// An empty cache of `sets` (a power of two) by `ways`.
    ///
    /// # Panics
    /// If the number of sets is no power of two, or there are no ways.
    #[must_use]
    pub fn new(sets: u64, ways: usize, replacement: Replacement, seed: u64) -> Cache {
        assert!(sets.is_power_of_two() && ways > 0, "{sets} sets of {ways} ways");
        let content = vec![Way::default(); sets as usize * ways];
        let random = stream(seed, "replacement");
        Cache { ways, sets, content, replacement, clock: 0, random }
    }

    /// Returns the number of lines that the cache can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.content.len()
    }

    fn set(&self, line: u64) -> std::ops::Range<usize> {
        let first = (line & (self.sets - 1)) as usize * self.ways;
        first..first + self.ways
    }

    /// Returns whether a line is cached; changes no state.
    #[must_use]
    pub fn holds(&self, line: u64) -> bool {
        self.content[self.set(line)].iter().any(|way| way.tag == line + 1)
    }

    /// Uses a line, which is there afterwards.
    pub fn access(&mut self, line: u64, write: bool) -> Access {
        self.clock = self.clock.wrapping_add(1);
        let set = self.set(line);
        let ways = &mut self.content[set.clone()];
        let mut free = None;
        for (n, way) in ways.iter_mut().enumerate() {
            if way.tag == line + 1 {
                way.used = self.clock;
                way.dirty |= write;
                return Access::Hit;
            }
            if way.tag == 0 && free.is_none() {
                free = Some(n);
            }
        }
        // An invalid way first, as in hardware; the random stream is drawn from only where a line
        // has to leave.
        let chosen = free.unwrap_or_else(|| match self.replacement {
            Replacement::Random => (self.random.next_u64() >> 32) as usize % self.ways,
            Replacement::Lru => {
                // The clock may wrap round within a long run; ages are right as long as no line
                // rests for 2^32 accesses.
                let age = |way: &Way| self.clock.wrapping_sub(way.used);
                let oldest = ways.iter().enumerate().max_by_key(|(_, way)| age(way));
                oldest.map_or(0, |(n, _)| n)
            }
        });
        let way = &mut self.content[set.start + chosen];
        debug_assert!(set.start + chosen < set.end, "a line replaces one of its own set");
        let left = (way.tag > 0).then(|| (way.tag - 1, way.dirty));
        *way = Way { tag: line + 1, used: self.clock, dirty: write };
        Access::Miss(left)
    }

    /// Empties it; how many lines had to be written back.
    pub fn flush(&mut self) -> u64 {
        let dirty = self.content.iter().filter(|way| way.tag > 0 && way.dirty).count();
        self.content.fill(Way::default());
        dirty as u64
    }

    /// Lines that are there, as their tags are read: set by set, way by way.
    pub fn tags(&self) -> impl Iterator<Item = u64> + '_ {
        self.content.iter().filter(|way| way.tag > 0).map(|way| way.tag - 1)
    }

    /// Lines that are there.
    #[must_use]
    pub fn dump(&self) -> LineSet {
        LineSet::from_unsorted(self.tags().collect())
    }

    /// Brings lines into the order in which a dump would list them: by set.
    pub fn sort_by_set(&self, lines: &mut [u64]) {
        lines.sort_by_key(|line| (line & (self.sets - 1), line >> self.sets.trailing_zeros()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without evictions a dump is what was touched (Gottschlag 2016, Sec 3.2).
    #[test]
    fn a_dump_is_what_was_touched() {
        let mut cache = Cache::new(2048, 16, Replacement::Random, 1);
        let touched: Vec<u64> = (0..8192).map(|n| n * 37 % 100_003).collect();
        for &line in &touched {
            assert!(!matches!(cache.access(line, false), Access::Miss(Some(_))), "{line}");
        }
        assert_eq!(cache.dump(), LineSet::from_unsorted(touched));
    }

    #[test]
    fn a_full_set_loses_a_line_by_its_rule() {
        let mut cache = Cache::new(4, 2, Replacement::Lru, 1);
        for line in [0, 4] {
            assert_eq!(cache.access(line, line == 0), Access::Miss(None));
        }
        assert_eq!(cache.access(4, false), Access::Hit);
        assert_eq!(cache.access(8, false), Access::Miss(Some((0, true))));
        assert_eq!(cache.access(0, true), Access::Miss(Some((4, false))));
        assert!(cache.holds(8) && cache.holds(0) && !cache.holds(4));
        assert_eq!(cache.flush(), 1);
        assert!(cache.dump().is_empty());
    }

    #[test]
    fn random_replacement_spares_no_way() {
        let mut cache = Cache::new(1, 4, Replacement::Random, 7);
        let mut left = [0u32; 4];
        for line in 0..4 {
            cache.access(line, false);
        }
        for _ in 0..4000 {
            let mut one = cache.clone();
            let Access::Miss(Some((gone, _))) = one.access(9, false) else { panic!() };
            left[gone as usize] += 1;
            cache.random.next_u64();
        }
        assert!(left.iter().all(|&n| (900..1100).contains(&n)), "{left:?}");
    }
}
