//! Global history of branches, and what long stretches of it fold into.

/// Bits that are kept, more than any table looks back; a power of two.
const KEPT: usize = 2048;
/// Longest history in bits.
pub(crate) const MAX_HISTORY: usize = KEPT - 1;
/// Most tables that a predictor of several has.
pub(crate) const MAX_TABLES: usize = 16;

const WORDS: usize = KEPT / 64;

/// Outcomes of the last branches, a ring of bits.
#[derive(Clone, Debug)]
pub(super) struct History {
    bits: Box<[u64; WORDS]>,
    /// Number of bits up to now.
    count: usize,
    /// Number of bits that each table looks back.
    lengths: [usize; MAX_TABLES],
}

impl History {
    /// Creates a history for tables of these lengths; others are 0.
    pub(super) fn new(lengths: [usize; MAX_TABLES]) -> History {
        History { bits: Box::new([0; WORDS]), count: 0, lengths }
    }

    /// Adds an outcome, and tells every fold of it.
    #[inline]
    pub(super) fn push<'a>(&mut self, bit: bool, folds: impl Iterator<Item = &'a mut Folds>) {
        let place = self.count % KEPT;
        let word = &mut self.bits[place / 64];
        *word = *word & !(1 << (place % 64)) | u64::from(bit) << (place % 64);
        // After that: what a stretch of no length loses is the new bit itself.
        let mut oldest = [0; MAX_TABLES];
        for (old, length) in oldest.iter_mut().zip(self.lengths) {
            let place = self.count.wrapping_sub(length) % KEPT;
            *old = (self.bits[place / 64] >> (place % 64)) as u32 & 1;
        }
        for fold in folds {
            fold.push(u32::from(bit), &oldest);
        }
        self.count += 1;
    }
}

/// Stretch of history of each table, folded into a fixed number of bits by exclusive or, updated
/// bit by bit (Michaud, "A PPM-like, tag-based branch predictor", JILP 7, 2005, Sec 3).
#[derive(Clone, Debug)]
pub(super) struct Folds {
    pub(super) values: [u32; MAX_TABLES],
    /// Position of the oldest bit of each stretch.
    leaves: [u32; MAX_TABLES],
    width: u32,
}

impl Folds {
    /// Into `width` bits (1..=31).
    pub(super) fn new(lengths: [usize; MAX_TABLES], width: u32) -> Folds {
        let leaves = lengths.map(|length| 1 << (length as u32 % width));
        Folds { values: [0; MAX_TABLES], leaves, width }
    }

    #[inline]
    fn push(&mut self, new: u32, oldest: &[u32; MAX_TABLES]) {
        let mask = (1 << self.width) - 1;
        let leaves = self.leaves.iter().zip(oldest);
        for (value, (leaves, old)) in self.values.iter_mut().zip(leaves) {
            let longer = *value << 1 | new;
            let shorter = longer ^ (leaves & old.wrapping_neg());
            *value = (shorter ^ shorter >> self.width) & mask;
        }
    }
}

/// Returns lengths in geometric progression (Seznec and Michaud, JILP 8, 2006, Sec 3), each greater
/// than the one before it.
pub(crate) fn geometric(tables: usize, shortest: usize, longest: usize) -> [usize; MAX_TABLES] {
    let mut lengths = [0; MAX_TABLES];
    let ratio = longest as f64 / shortest as f64;
    let mut last = 0;
    for (n, length) in lengths.iter_mut().take(tables).enumerate() {
        let share = if tables > 1 { n as f64 / (tables - 1) as f64 } else { 0.0 };
        let exact = (shortest as f64 * ratio.powf(share)).round() as usize;
        last = exact.max(last + 1);
        *length = last;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition: bit `age` of a stretch is at place `age` modulo the width.
    #[test]
    fn a_fold_is_the_exclusive_or_of_its_stretch() {
        let lengths = geometric(5, 3, 400);
        let mut history = History::new(lengths);
        let mut folds = [Folds::new(lengths, 11), Folds::new(lengths, 7)];
        let (mut seen, mut state) = (Vec::new(), 1u64);
        for _ in 0..3000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seen.push(state >> 63 != 0);
            history.push(state >> 63 != 0, folds.iter_mut());
        }
        for fold in &folds {
            for (n, length) in lengths.into_iter().enumerate().take(5) {
                let stretch = seen.iter().rev().take(length).enumerate();
                let expected = stretch.fold(0, |value, (age, &bit)| {
                    value ^ u32::from(bit) << (age as u32 % fold.width)
                });
                assert_eq!(fold.values[n], expected, "{length} into {}", fold.width);
            }
        }
    }

    #[test]
    fn lengths_grow_from_the_shortest_to_the_longest() {
        assert_eq!(geometric(4, 5, 135)[..5], [5, 15, 45, 135, 0]);
        assert_eq!(geometric(4, 1, 4)[..4], [1, 2, 3, 4]);
    }
}
