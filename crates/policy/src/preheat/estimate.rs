//! From dumps of tags to the lines worth loading, in four steps whose order the types keep
//! (Gottschlag 2016, Sec 4.1.1):
//!
//! ```text
//!   Dump ─(1) intersect─▶ Estimate ─▶ Collected ─(2) subtract─▶ Filtered ─(3) sort─▶ WorkingSet
//!                                                                            (4) encode ─▶ words
//! ```
//!
//! 1. What is in the dumps of all requests is of no other process and in no buffer that moves.
//! 2. What was cached anyway when a load began need not be loaded: the announcement's own way in,
//!    and the buffers of the dumps, which are in every dump.
//! 3. Tags are read set by set; by address, a row of DRAM is opened once.
//! 4. [`super::rle`].

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::lines::LineSet;
use super::rle::{self, TooHigh, MOST_LINES};

/// Numbers of the lines that were cached, each once, in the order in which their tags were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump(Vec<u64>);

impl Dump {
    /// Creates a dump of line numbers as read; duplicates count once.
    #[must_use]
    pub fn new(lines: Vec<u64>) -> Dump {
        Dump(lines)
    }

    /// Numbers in the order in which they were read.
    #[must_use]
    pub fn lines(&self) -> &[u64] {
        &self.0
    }

    /// Converts the dump to a set.
    #[must_use]
    pub fn into_set(self) -> LineSet {
        LineSet::from_unsorted(self.0)
    }
}

impl From<LineSet> for Dump {
    fn from(lines: LineSet) -> Dump {
        Dump(lines.into_vec())
    }
}

/// There was no dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDump;

impl fmt::Display for NoDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected at least one dump to estimate a working set from, found none")
    }
}

impl core::error::Error for NoDump {}

/// Intersection of the dumps up to now. They are of one service, and of the caches of the cluster
/// that it has for itself while it is estimated (Sec 4.1.2).
///
/// ```
/// use halfwink_policy::preheat::estimate::{Dump, Estimate};
/// let mut estimate = Estimate::new();
/// estimate.intersect(Dump::new(vec![9, 1, 2, 3]));
/// estimate.intersect(Dump::new(vec![1, 2, 3, 7]));
/// let collected = estimate.collected().unwrap();
/// let working_set = collected.subtract(Dump::new(vec![1])).sort();
/// assert_eq!(working_set.encode32(), Ok(vec![2 << 6 | 1]));
/// ```
///
/// Nothing is subtracted before all dumps are in, and nothing is encoded that was not filtered:
///
/// ```compile_fail
/// use halfwink_policy::preheat::estimate::{Dump, Estimate};
/// Estimate::new().subtract(Dump::new(vec![1]));
/// ```
/// ```compile_fail
/// use halfwink_policy::preheat::estimate::Estimate;
/// Estimate::new().collected().unwrap().sort();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    lines: LineSet,
    dumps: u32,
}

impl Estimate {
    /// Creates an estimate without dumps.
    #[must_use]
    pub fn new() -> Estimate {
        Estimate::default()
    }

    /// Keeps what is in this one too; all of it if it is the first.
    pub fn intersect(&mut self, dump: Dump) {
        let lines = dump.into_set();
        match self.dumps {
            0 => self.lines = lines,
            _ => self.lines.keep_common(&lines),
        }
        self.dumps += 1;
    }

    /// Adds what is in this one: the other rule by which one set can serve all services.
    pub fn unite(&mut self, dump: Dump) {
        self.lines = self.lines.union(&dump.into_set());
        self.dumps += 1;
    }

    /// Returns the number of dumps.
    #[must_use]
    pub fn dumps(&self) -> u32 {
        self.dumps
    }

    /// Returns the lines that the dumps have in common, or their union.
    #[must_use]
    pub fn lines(&self) -> &LineSet {
        &self.lines
    }

    /// No more dumps come.
    ///
    /// # Errors
    /// If there was none.
    pub fn collected(self) -> Result<Collected, NoDump> {
        if self.dumps == 0 {
            return Err(NoDump);
        }
        Ok(Collected(self.lines))
    }
}

/// Step 1 is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected(LineSet);

impl Collected {
    /// Without what was cached when a load would have begun.
    #[must_use]
    pub fn subtract(mut self, cached: Dump) -> Filtered {
        self.0.remove(&cached.into_set());
        Filtered(self.0)
    }

    /// Skips the filter, to measure its benefit (Sec 6.4.1).
    #[must_use]
    pub fn unfiltered(self) -> Filtered {
        Filtered(self.0)
    }
}

/// Step 2 is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filtered(LineSet);

impl Filtered {
    /// Sorts the lines by address.
    #[must_use]
    pub fn sort(self) -> WorkingSet {
        WorkingSet(self.0)
    }

    /// Returns the lines in the order of tags of a cache with `sets` sets (at least one), to
    /// measure the benefit of sorting (Sec 6.4.1).
    #[must_use]
    pub fn in_tag_order(self, sets: u64) -> Vec<u64> {
        let mut lines = self.0.into_vec();
        lines.sort_unstable_by_key(|&line| (line % sets.max(1), line));
        lines
    }
}

/// Step 3 is done: what is loaded for a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet(LineSet);

impl WorkingSet {
    /// Takes a set that was made elsewhere: read from a file, or exact from a simulation.
    #[must_use]
    pub fn of(lines: LineSet) -> WorkingSet {
        WorkingSet(lines)
    }

    /// Returns the lines of the set.
    #[must_use]
    pub fn lines(&self) -> &LineSet {
        &self.0
    }

    /// Words of 32 bits.
    ///
    /// # Errors
    /// If a line is above 4 GiB.
    pub fn encode32(&self) -> Result<Vec<u32>, TooHigh> {
        rle::encode32(&self.0)
    }

    /// Words of 64 bits.
    ///
    /// # Errors
    /// If a line has a number that no address has.
    pub fn encode64(&self) -> Result<Vec<u64>, TooHigh> {
        rle::encode64(&self.0)
    }

    /// Words by the length of their runs: `[0]` of one line, `[63]` of 64 (Fig 4.4).
    #[must_use]
    pub fn run_lengths(&self) -> [u64; MOST_LINES as usize] {
        let mut words = [0; MOST_LINES as usize];
        for run in self.0.runs() {
            words[MOST_LINES as usize - 1] += run.lines / MOST_LINES;
            if run.lines % MOST_LINES > 0 {
                words[(run.lines % MOST_LINES) as usize - 1] += 1;
            }
        }
        words
    }

    /// Lines of a mean word, which is also how much shorter the words are than a list of lines
    /// (Sec 4.1.1); `None` of an empty set.
    #[must_use]
    pub fn mean_run(&self) -> Option<f64> {
        let words: u64 = self.run_lengths().iter().sum();
        (words > 0).then(|| self.0.len() as f64 / words as f64)
    }

    /// Drops lines that a device writes, by number (Sec 5.4).
    pub fn exclude(&mut self, lines: Range<u64>) {
        self.0.remove_range(lines);
    }
}

/// The part of each core, of words or lines: as even as can be (Sec 5.3). None has no core.
pub fn parts<W>(words: &[W], cores: usize) -> impl Iterator<Item = &[W]> {
    (0..cores).map(move |n| &words[n * words.len() / cores..(n + 1) * words.len() / cores])
}

/// Orders lines for a server that starts while they are still loaded (Sec 6.6): of `lines` in the
/// order of first use, the first `before` by address, then the others by first use, each `chunk` of
/// them by address, so that rows of DRAM stay open.
#[must_use]
pub fn concurrent_order(mut lines: Vec<u64>, before: usize, chunk: usize) -> Vec<u64> {
    let before = before.min(lines.len());
    let (early, late) = lines.split_at_mut(before);
    early.sort_unstable();
    late.chunks_mut(chunk.max(1)).for_each(<[u64]>::sort_unstable);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn dump(lines: &[u64]) -> Dump {
        Dump::new(lines.to_vec())
    }

    /// Three requests of a service that uses 10 to 14 and 30; others touch 99 and 50; buffers are
    /// at 70 and 71, then at 80; dumps go to 200 and 201; the announcement uses 10 and 201.
    fn three() -> Estimate {
        let mut estimate = Estimate::new();
        estimate.intersect(dump(&[200, 201, 70, 71, 10, 30, 11, 12, 13, 14]));
        estimate.intersect(dump(&[99, 200, 10, 11, 201, 70, 12, 13, 14, 30]));
        estimate.intersect(dump(&[10, 11, 200, 12, 13, 80, 201, 14, 30, 50]));
        estimate
    }

    #[test]
    fn four_steps_by_hand() {
        let estimate = three();
        assert_eq!(estimate.dumps(), 3);
        assert_eq!(estimate.lines().as_slice(), [10, 11, 12, 13, 14, 30, 200, 201]);
        let filtered = estimate.collected().unwrap().subtract(dump(&[201, 10, 5, 200]));
        // Four sets: 30 is in set 2, as is 14.
        assert_eq!(filtered.clone().in_tag_order(4), [12, 13, 14, 30, 11]);
        let set = filtered.sort();
        assert_eq!(set.lines().as_slice(), [11, 12, 13, 14, 30]);
        assert_eq!(set.encode32(), Ok(vec![11 << 6 | 3, 30 << 6]));
        assert_eq!(set.encode64(), Ok(vec![11 << 6 | 3, 30 << 6]));
        assert_eq!(set.mean_run(), Some(2.5));
        assert_eq!(Estimate::new().collected(), Err(NoDump));
        let unfiltered = three().collected().unwrap().unfiltered().sort();
        assert_eq!(unfiltered.lines().len(), 8);
    }

    #[test]
    fn subtracting_first_would_lose_what_intersecting_keeps_out() {
        // A later dump brings back nothing that the filter took: it is applied last.
        let mut estimate = Estimate::new();
        estimate.intersect(dump(&[1, 2]));
        estimate.intersect(dump(&[1, 2]));
        let late = estimate.collected().unwrap().subtract(dump(&[1])).sort();
        assert_eq!(late.lines().as_slice(), [2]);
        let mut united = Estimate::new();
        united.unite(dump(&[1, 2]));
        united.unite(dump(&[5]));
        assert_eq!(united.lines().as_slice(), [1, 2, 5]);
    }

    #[test]
    fn run_lengths_are_those_of_the_encoded_words() {
        let lines: LineSet = (0..130).chain([200, 300, 301]).collect();
        let set = WorkingSet::of(lines);
        let lengths = set.run_lengths();
        assert_eq!((lengths[63], lengths[1], lengths[0]), (2, 2, 1));
        assert_eq!(lengths.iter().sum::<u64>() as usize, set.encode32().unwrap().len());
        assert_eq!(WorkingSet::default().mean_run(), None);
    }

    #[test]
    fn lines_of_devices_are_cut_out_of_runs() {
        let mut set = WorkingSet::of((0..10).collect());
        set.exclude(3..5);
        assert_eq!(set.encode32(), Ok(vec![2, 5 << 6 | 4]));
    }

    #[test]
    fn words_are_divided_among_cores() {
        let of = |cores| parts(&[1, 2, 3, 4, 5], cores).map(<[i32]>::to_vec).collect::<Vec<_>>();
        assert_eq!(of(2), [vec![1, 2], vec![3, 4, 5]]);
        assert_eq!(of(4), [vec![1], vec![2], vec![3], vec![4, 5]]);
        assert!(of(0).is_empty());
    }

    #[test]
    fn what_is_needed_first_comes_first() {
        let used = vec![9, 3, 7, 50, 40, 8, 2];
        assert_eq!(concurrent_order(used.clone(), 3, 2), [3, 7, 9, 40, 50, 2, 8]);
        assert_eq!(concurrent_order(used.clone(), 99, 0), [2, 3, 7, 8, 9, 40, 50]);
        assert_eq!(concurrent_order(used.clone(), 0, 1), used);
    }

    proptest! {
        /// Checks that each loaded line is in every dump, and was not cached.
        #[test]
        fn in_all_and_not_cached(
            dumps in prop::collection::vec(prop::collection::vec(0u64..60, 0..60), 1..6),
            cached in prop::collection::vec(0u64..60, 0..20),
        ) {
            let mut estimate = Estimate::new();
            dumps.iter().for_each(|lines| estimate.intersect(dump(lines)));
            let set = estimate.collected().unwrap().subtract(dump(&cached)).sort();
            for line in 0..60 {
                let wanted = dumps.iter().all(|d| d.contains(&line)) && !cached.contains(&line);
                prop_assert_eq!(set.lines().contains(line), wanted);
            }
        }

        /// Cores load all of it, once, and none has two words more than another.
        #[test]
        fn parts_are_even_and_hold_all_words(
            words in prop::collection::vec(any::<u32>(), 0..50),
            cores in 1usize..9,
        ) {
            let lengths: Vec<usize> = parts(&words, cores).map(<[u32]>::len).collect();
            let (least, most) = (lengths.iter().min(), lengths.iter().max());
            prop_assert!(most.unwrap() - least.unwrap() <= 1);
            prop_assert_eq!(parts(&words, cores).flatten().copied().collect::<Vec<_>>(), words);
        }
    }
}
