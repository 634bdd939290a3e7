//! Sets of cache lines.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use halfwink_units::{LineAddr, LINE_BYTES};

/// A set of lines by number, which is address / 64: sorted, each once.
///
/// Numbers are of one address space: physical, or of a module's image. Who keeps a set knows which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LineSet(Vec<u64>);

/// Lines that were to be sorted are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSorted {
    /// Index of the first one that is not above the one before.
    pub index: usize,
}

impl fmt::Display for NotSorted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the set is not above the one before", self.index)
    }
}

impl core::error::Error for NotSorted {}

/// A run of consecutive lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the first.
    pub first: u64,
    /// Number of lines, at least one.
    pub lines: u64,
}

impl LineSet {
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> LineSet {
        LineSet(Vec::new())
    }

    /// Creates a set from lines in any order, with duplicates.
    #[must_use]
    pub fn from_unsorted(mut lines: Vec<u64>) -> LineSet {
        lines.sort_unstable();
        lines.dedup();
        LineSet(lines)
    }

    /// Creates a set from lines in ascending order, each once.
    ///
    /// # Errors
    /// If they are not.
    pub fn from_sorted(lines: Vec<u64>) -> Result<LineSet, NotSorted> {
        match lines.windows(2).position(|two| two[0] >= two[1]) {
            Some(before) => Err(NotSorted { index: before + 1 }),
            None => Ok(LineSet(lines)),
        }
    }

    /// Creates a set from lines that are known to be ascending, each once.
    pub(super) fn of_ascending(lines: Vec<u64>) -> LineSet {
        debug_assert!(lines.windows(2).all(|two| two[0] < two[1]), "not in order");
        LineSet(lines)
    }

    /// Creates the set of lines at these byte addresses.
    #[must_use]
    pub fn of_addresses(addresses: impl IntoIterator<Item = u64>) -> LineSet {
        addresses.into_iter().map(|at| at / LINE_BYTES).collect()
    }

    /// Numbers of its lines, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// Numbers of its lines, ascending.
    #[must_use]
    pub fn into_vec(self) -> Vec<u64> {
        self.0
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the size of its lines in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64 * LINE_BYTES
    }

    /// Returns whether the set contains this line.
    #[must_use]
    pub fn contains(&self, line: u64) -> bool {
        self.0.binary_search(&line).is_ok()
    }

    /// Numbers of its lines, ascending.
    pub fn iter(&self) -> core::iter::Copied<core::slice::Iter<'_, u64>> {
        self.0.iter().copied()
    }

    /// Addresses of its lines, ascending.
    pub fn addresses(&self) -> impl Iterator<Item = LineAddr> + '_ {
        self.iter().map(LineAddr)
    }

    /// Maximal runs of consecutive lines, ascending.
    #[must_use]
    pub fn runs(&self) -> Runs<'_> {
        Runs { rest: &self.0 }
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub fn intersect(&self, other: &LineSet) -> LineSet {
        let mut both = self.clone();
        both.keep_common(other);
        both
    }

    /// Keeps what is in the other one too; allocates nothing.
    pub fn keep_common(&mut self, other: &LineSet) {
        self.keep(other, true);
    }

    /// Lines that are not in the other one.
    #[must_use]
    pub fn subtract(&self, other: &LineSet) -> LineSet {
        let mut left = self.clone();
        left.remove(other);
        left
    }

    /// Drops what is in the other one; allocates nothing.
    pub fn remove(&mut self, other: &LineSet) {
        self.keep(other, false);
    }

    /// Lines in one or both.
    #[must_use]
    pub fn union(&self, other: &LineSet) -> LineSet {
        let (a, b) = (&self.0[..], &other.0[..]);
        let mut all = Vec::with_capacity(a.len() + b.len());
        let (mut i, mut j) = (0, 0);
        while i < a.len() && j < b.len() {
            let (x, y) = (a[i], b[j]);
            all.push(x.min(y));
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        all.extend_from_slice(&a[i..]);
        all.extend_from_slice(&b[j..]);
        LineSet(all)
    }

    /// Drops all lines with numbers in a range: of memory that a device writes (Gottschlag 2016,
    /// Sec 5.4). Allocates nothing.
    pub fn remove_range(&mut self, lines: Range<u64>) {
        let from = self.0.partition_point(|&line| line < lines.start);
        let to = self.0.partition_point(|&line| line < lines.end).max(from);
        self.0.drain(from..to);
    }

    /// Returns the set without the lines in a range of numbers.
    #[must_use]
    pub fn subtract_range(&self, lines: Range<u64>) -> LineSet {
        let mut left = self.clone();
        left.remove_range(lines);
        left
    }

    /// Returns the number of lines in both sets.
    #[must_use]
    pub fn common(&self, other: &LineSet) -> usize {
        let (a, b) = (&self.0[..], &other.0[..]);
        let (mut i, mut j, mut common) = (0, 0, 0);
        while i < a.len() && j < b.len() {
            let (x, y) = (a[i], b[j]);
            common += usize::from(x == y);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        common
    }

    /// Keeps lines that are (or are not) in the other one.
    fn keep(&mut self, other: &LineSet, common: bool) {
        let (mine, theirs) = (&mut self.0, &other.0[..]);
        let (mut j, mut kept) = (0, 0);
        for i in 0..mine.len() {
            let line = mine[i];
            while j < theirs.len() && theirs[j] < line {
                j += 1;
            }
            let found = j < theirs.len() && theirs[j] == line;
            mine[kept] = line;
            kept += usize::from(found == common);
        }
        mine.truncate(kept);
    }
}

impl FromIterator<u64> for LineSet {
    fn from_iter<I: IntoIterator<Item = u64>>(lines: I) -> LineSet {
        LineSet::from_unsorted(lines.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a LineSet {
    type Item = u64;
    type IntoIter = core::iter::Copied<core::slice::Iter<'a, u64>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Maximal runs of a set, ascending.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    rest: &'a [u64],
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let &first = self.rest.first()?;
        let lines = self.rest.iter().zip(0..).take_while(|&(&line, n)| line - first == n).count();
        self.rest = &self.rest[lines..];
        Some(Run { first, lines: lines as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use proptest::prelude::*;

    fn set(lines: &[u64]) -> LineSet {
        LineSet::from_sorted(lines.to_vec()).unwrap()
    }

    #[test]
    fn line_sets_intersect_subtract_and_unite() {
        let (a, b) = (set(&[1, 2, 3, 7, 9]), set(&[0, 2, 3, 8, 9, 10]));
        assert_eq!(a.intersect(&b), set(&[2, 3, 9]));
        assert_eq!(a.subtract(&b), set(&[1, 7]));
        assert_eq!(b.subtract(&a), set(&[0, 8, 10]));
        assert_eq!(a.union(&b), set(&[0, 1, 2, 3, 7, 8, 9, 10]));
        assert_eq!(a.common(&b), 3);
        assert_eq!(a.subtract_range(2..8), set(&[1, 9]));
        assert_eq!(a.subtract_range(Range { start: 8, end: 2 }), a, "nothing is in it");
        assert_eq!((a.bytes(), a.contains(7), a.contains(8)), (320, true, false));
        let runs: Vec<(u64, u64)> = a.runs().map(|run| (run.first, run.lines)).collect();
        assert_eq!(runs, [(1, 3), (7, 1), (9, 1)]);
        assert_eq!(LineSet::from_unsorted(vec![9, 1, 9, 3, 2, 7]), a);
        assert_eq!(LineSet::of_addresses([64, 127, 128, 191, 0xc0, 0x1ff, 0x240]), a);
        assert_eq!(LineSet::from_sorted(vec![1, 2, 2]), Err(NotSorted { index: 2 }));
    }

    #[test]
    fn the_last_line_ends_a_run() {
        let last = set(&[u64::MAX - 1, u64::MAX]);
        let runs: Vec<Run> = last.runs().collect();
        assert_eq!(runs, [Run { first: u64::MAX - 1, lines: 2 }]);
    }

    proptest! {
        #[test]
        fn as_a_set_of_the_standard_library(
            a in prop::collection::vec(0u64..200, 0..150),
            b in prop::collection::vec(0u64..200, 0..150),
            from in 0u64..200,
            to in 0u64..200,
        ) {
            let (x, y) = (LineSet::from_unsorted(a.clone()), LineSet::from_unsorted(b.clone()));
            let a: BTreeSet<u64> = a.into_iter().collect();
            let b: BTreeSet<u64> = b.into_iter().collect();
            prop_assert!(x.intersect(&y).iter().eq(a.intersection(&b).copied()));
            prop_assert!(x.subtract(&y).iter().eq(a.difference(&b).copied()));
            prop_assert!(x.union(&y).iter().eq(a.union(&b).copied()));
            prop_assert_eq!(x.common(&y), a.intersection(&b).count());
            let outside = a.iter().copied().filter(|line| !(from..to).contains(line));
            prop_assert!(x.subtract_range(from..to).iter().eq(outside));
            let again: Vec<u64> =
                x.runs().flat_map(|run| run.first..run.first + run.lines).collect();
            prop_assert_eq!(&again, x.as_slice());
        }
    }
}
