//! A set-associative cache with LRU replacement: tags only.

use crate::machine::Geometry;

/// State of a line.
pub(crate) mod flag {
    /// Holds a line at all.
    pub(crate) const VALID: u64 = 1;
    /// Differs from the level below.
    pub(crate) const DIRTY: u64 = 1 << 1;
    /// Brought in with kernel privilege.
    pub(crate) const KERNEL: u64 = 1 << 2;
    /// Marks a line whose data has not arrived.
    pub(crate) const PENDING: u64 = 1 << 3;
    /// Other cores may hold it too: it may be read, but not written (the S of MESI).
    pub(crate) const SHARED: u64 = 1 << 4;
    /// Marks a line that a prefetcher brought and that was not used.
    pub(crate) const PREFETCHED: u64 = 1 << 5;
    /// All of the flags.
    pub(crate) const ALL: u64 = 0x3f;

    /// Returns the owner flag of a line that this privilege brings in.
    #[inline]
    pub(crate) const fn owner(kernel: bool) -> u64 {
        if kernel {
            KERNEL
        } else {
            0
        }
    }
}

/// A line's number stands above its flags.
pub(crate) const TAG_SHIFT: u32 = 6;

/// The tags of a cache, each set in the order of recency. The order is the replacement state: no
/// counters beside the tags to keep and to compare, and the way that is looked at first, the most
/// recent, is the one that is hit most.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    tags: Box<[u64]>,
    set_mask: u64,
    ways: usize,
}

/// A line that had to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) line: u64,
    pub(crate) dirty: bool,
    /// Brought in with kernel privilege.
    pub(crate) kernel: bool,
    /// Whether a prefetcher brought it and it was never used.
    pub(crate) prefetched: bool,
}

impl Cache {
    pub(crate) fn new(geometry: Geometry) -> Cache {
        Cache {
            tags: vec![0; geometry.sets * geometry.ways].into_boxed_slice(),
            set_mask: geometry.sets as u64 - 1,
            ways: geometry.ways,
        }
    }

    /// Returns whether both have equal numbers of sets and ways.
    pub(crate) fn is_shaped_like(&self, other: &Cache) -> bool {
        (self.set_mask, self.ways) == (other.set_mask, other.ways)
    }

    /// Number of the set that a line belongs to.
    #[inline]
    pub(crate) fn set(&self, line: u64) -> usize {
        (line & self.set_mask) as usize
    }

    /// Number of lines in the set of this line.
    pub(crate) fn held(&self, line: u64) -> usize {
        let ways = &self.tags[self.set(line) * self.ways..][..self.ways];
        ways.iter().filter(|&&word| word & flag::VALID != 0).count()
    }

    #[inline]
    fn set_of(&mut self, line: u64) -> &mut [u64] {
        let start = self.set(line) * self.ways;
        &mut self.tags[start..start + self.ways]
    }

    /// Makes a line the most recent, if it is present, adds `flags`, and returns its flags before.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64, flags: u64) -> Option<u64> {
        let key = line << TAG_SHIFT;
        let set = self.set_of(line);
        // Apart from the others, since nothing has to move for it.
        let first = set[0];
        if first & !flag::ALL == key && first & flag::VALID != 0 {
            set[0] = first | flags;
            return Some(first & flag::ALL);
        }
        for way in 1..set.len() {
            let word = set[way];
            if word & !flag::ALL == key && word & flag::VALID != 0 {
                set.copy_within(..way, 1);
                set[0] = word | flags;
                return Some(word & flag::ALL);
            }
        }
        None
    }

    /// Puts a line that is not there into its set as the most recent; returns what had to leave.
    #[inline]
    pub(crate) fn insert(&mut self, line: u64, flags: u64) -> Option<Victim> {
        debug_assert!(line >> (u64::BITS - TAG_SHIFT) == 0, "the flags' bits are the line's");
        let set = self.set_of(line);
        // Twice in a set, it would be dirty in one place and clean in the other.
        debug_assert!(!set.iter().any(|&word| is(word, line << TAG_SHIFT)), "it is there");
        let last = set[set.len() - 1];
        set.copy_within(..set.len() - 1, 1);
        set[0] = line << TAG_SHIFT | flags | flag::VALID;
        (last & flag::VALID != 0).then_some(Victim {
            line: last >> TAG_SHIFT,
            dirty: last & flag::DIRTY != 0,
            kernel: last & flag::KERNEL != 0,
            prefetched: last & flag::PREFETCHED != 0,
        })
    }

    /// The data of a line has arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, line: u64) {
        self.change(line, flag::PENDING, 0);
    }

    /// Takes flags from a line, if it is present, and gives it others, without using it; returns
    /// its flags before.
    #[inline]
    pub(crate) fn change(&mut self, line: u64, take: u64, give: u64) -> Option<u64> {
        let key = line << TAG_SHIFT;
        let word = self.set_of(line).iter_mut().find(|word| is(**word, key))?;
        let before = *word & flag::ALL;
        *word = *word & !take | give;
        Some(before)
    }

    /// Another core takes the line away; its flags, if it was there.
    pub(crate) fn invalidate(&mut self, line: u64) -> Option<u64> {
        let key = line << TAG_SHIFT;
        let set = self.set_of(line);
        let way = set.iter().position(|&word| is(word, key))?;
        let flags = set[way] & flag::ALL;
        // The place that it leaves is the next to be filled.
        set.copy_within(way + 1.., way);
        set[set.len() - 1] = 0;
        Some(flags)
    }

    /// All lines with their flags, in the order of sets, and how many sets come before each.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let sets = self.tags.chunks_exact(self.ways).enumerate();
        let held = |word: &&u64| **word & flag::VALID != 0;
        sets.flat_map(move |(set, words)| {
            let words = words.iter().filter(held);
            words.map(move |word| (set, word >> TAG_SHIFT, word & flag::ALL))
        })
    }

    pub(crate) fn sets(&self) -> usize {
        self.set_mask as usize + 1
    }

    /// Only these lines are left in it.
    pub(crate) fn keep(&mut self, keeps: impl Fn(u64) -> bool) {
        for set in self.tags.chunks_exact_mut(self.ways) {
            let mut left = 0;
            for way in 0..set.len() {
                let word = set[way];
                if word & flag::VALID != 0 && keeps(word >> TAG_SHIFT) {
                    set[left] = word;
                    left += 1;
                }
            }
            set[left..].fill(0);
        }
    }

    /// Removes all lines.
    pub(crate) fn clear(&mut self) {
        self.tags.fill(0);
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, line: u64) -> bool {
        let start = (line & self.set_mask) as usize * self.ways;
        let key = line << TAG_SHIFT;
        self.tags[start..start + self.ways]
            .iter()
            .any(|&word| word & !flag::ALL == key && word & flag::VALID != 0)
    }
}

#[inline]
fn is(word: u64, key: u64) -> bool {
    word & !flag::ALL == key && word & flag::VALID != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two_ways() -> Cache {
        Cache::new(Geometry { sets: 2, ways: 2 })
    }

    fn dirty(line: u64) -> Victim {
        Victim { line, dirty: true, kernel: false, prefetched: false }
    }

    #[test]
    fn the_least_recent_line_of_the_set_leaves() {
        let mut cache = two_ways();
        assert_eq!(cache.insert(0, 0), None);
        assert_eq!(cache.insert(2, flag::DIRTY), None);
        assert_eq!(cache.insert(1, 0), None);
        assert_eq!(cache.touch(0, 0), Some(flag::VALID));
        assert_eq!(cache.insert(4, 0), Some(dirty(2)));
        assert!(cache.contains(0) && cache.contains(4) && !cache.contains(2));
    }

    #[test]
    fn a_line_that_is_taken_away_leaves_its_place() {
        let mut cache = two_ways();
        cache.insert(0, flag::DIRTY);
        cache.insert(2, 0);
        assert_eq!(cache.invalidate(0), Some(flag::VALID | flag::DIRTY));
        assert_eq!(cache.invalidate(0), None);
        assert_eq!(cache.insert(4, 0), None, "a place is free");
        assert!(cache.contains(2) && cache.contains(4));
    }

    #[test]
    fn touched_line_is_evicted_dirty() {
        let mut cache = two_ways();
        cache.insert(0, 0);
        cache.touch(0, flag::DIRTY);
        cache.insert(2, 0);
        assert_eq!(cache.insert(4, 0), Some(dirty(0)));
    }

    proptest! {
        /// Against the definition: a set holds the last `ways` distinct lines used in it.
        #[test]
        fn hits_are_those_of_a_list_model(lines in prop::collection::vec(0u64..32, 0..400)) {
            let geometry = Geometry { sets: 4, ways: 3 };
            let mut cache = Cache::new(geometry);
            let mut model = vec![Vec::<u64>::new(); geometry.sets];
            for line in lines {
                let set = &mut model[(line % 4) as usize];
                let expected = set.contains(&line);
                set.retain(|&l| l != line);
                set.insert(0, line);
                set.truncate(geometry.ways);
                let hit = cache.touch(line, 0).is_some();
                prop_assert_eq!(hit, expected);
                if !hit {
                    cache.insert(line, 0);
                }
            }
        }
    }
}
