//! Sets of window slots, in as many words as a window needs.

/// Bits of a word of a set.
const BITS: usize = u64::BITS as usize;

/// A set of slots 0 to 64 `W` - 1, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotSet<const W: usize>([u64; W]);

impl<const W: usize> SlotSet<W> {
    pub(super) const EMPTY: SlotSet<W> = SlotSet([0; W]);

    #[inline]
    pub(super) fn insert(&mut self, n: usize) {
        self.0[n / BITS % W] |= 1 << (n % BITS);
    }

    #[inline]
    pub(super) fn remove(&mut self, n: usize) {
        self.0[n / BITS % W] &= !(1 << (n % BITS));
    }

    #[inline]
    pub(super) fn contains(&self, n: usize) -> bool {
        self.0[n / BITS % W] >> (n % BITS) & 1 != 0
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }

    /// Takes all of `other`.
    #[inline]
    pub(super) fn absorb(&mut self, other: &mut SlotSet<W>) {
        for (word, taken) in self.0.iter_mut().zip(&mut other.0) {
            *word |= std::mem::take(taken);
        }
    }

    /// The first one from `start` on, round to it again. Slots are given out round and round: seen
    /// from the oldest operation's, the first is the oldest.
    #[inline]
    pub(super) fn first_from(&self, start: usize) -> Option<usize> {
        let (first, bit) = (start / BITS % W, start % BITS);
        let above = self.0[first] & u64::MAX << bit;
        if above != 0 {
            return Some(first * BITS + above.trailing_zeros() as usize);
        }
        // Its lower bits are the end of the round.
        for step in 1..=W {
            let word = (first + step) % W;
            if self.0[word] != 0 {
                return Some(word * BITS + self.0[word].trailing_zeros() as usize);
            }
        }
        None
    }

    /// Numbers of the slots, lowest first.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(n, mut word)| {
            std::iter::from_fn(move || {
                (word != 0).then(|| {
                    let bit = word.trailing_zeros() as usize;
                    word &= word - 1;
                    n * BITS + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_oldest_is_found_round_the_end(
            members in prop::collection::vec(0..512usize, 0..20),
            start in 0..512usize,
        ) {
            let mut set = SlotSet::<8>::EMPTY;
            members.iter().for_each(|&n| set.insert(n));
            let expected = members.iter().copied().min_by_key(|n| (n + 512 - start) % 512);
            prop_assert_eq!(set.first_from(start), expected);
            prop_assert_eq!(set.is_empty(), members.is_empty());
            let mut sorted = members.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), sorted);
            members.iter().for_each(|&n| set.remove(n));
            prop_assert!(set.is_empty());
        }
    }
}
