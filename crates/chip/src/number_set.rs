//! A set of numbers that lie close together, such as those of lines or words in memory.

/// Numbers in groups of 64, a bit each; open addressing by group.
#[derive(Clone, Debug)]
pub(crate) struct NumberSet {
    /// Groups that hold members, and [`EMPTY`].
    groups: Box<[u64]>,
    members: Box<[u64]>,
    held: usize,
}

/// Numbers of a group, as a power of two: as many as a mask has bits.
const GROUP_SHIFT: u32 = u64::BITS.ilog2();
/// No group: groups of 64-bit numbers have smaller ones.
const EMPTY: u64 = u64::MAX;

impl Default for NumberSet {
    fn default() -> NumberSet {
        NumberSet { groups: vec![EMPTY; 64].into(), members: vec![0; 64].into(), held: 0 }
    }
}

impl NumberSet {
    /// Adds a number, unless it is a member.
    pub(crate) fn add(&mut self, number: u64) {
        self.add_all(number >> GROUP_SHIFT, bit(number));
    }

    /// Adds all numbers of a group, numbered as 64 to a group, that a mask names.
    pub(crate) fn add_all(&mut self, group: u64, members: u64) {
        if members == 0 {
            return;
        }
        if 2 * (self.held + 1) > self.groups.len() {
            self.grow();
        }
        let place = self.place(group);
        self.held += usize::from(self.groups[place] == EMPTY);
        self.groups[place] = group;
        self.members[place] |= members;
    }

    fn grow(&mut self) {
        let places = 2 * self.groups.len();
        let groups = std::mem::replace(&mut self.groups, vec![EMPTY; places].into());
        let members = std::mem::replace(&mut self.members, vec![0; places].into());
        for (&group, &mask) in groups.iter().zip(&members).filter(|(&group, _)| group != EMPTY) {
            let place = self.place(group);
            (self.groups[place], self.members[place]) = (group, mask);
        }
    }

    /// Returns the place of a group, present or not: at most half of all places are taken.
    #[inline]
    fn place(&self, group: u64) -> usize {
        let mask = self.groups.len() - 1;
        // Fibonacci hashing (Knuth, TAOCP 3, Sec 6.4).
        let mut place = (group.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.groups[place] != group && self.groups[place] != EMPTY {
            place = (place + 1) & mask;
        }
        place
    }

    /// Returns whether a number is a member.
    #[inline]
    pub(crate) fn has(&self, number: u64) -> bool {
        // An empty place has no members.
        self.members[self.place(number >> GROUP_SHIFT)] & bit(number) != 0
    }

    /// Returns whether there is no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % u64::from(u64::BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::NumberSet;

    proptest! {
        #[test]
        fn members_are_those_that_were_added(
            near in prop::collection::vec(0..5_000u64, 0..400),
            far in prop::collection::vec(any::<u64>(), 0..200),
            asked in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut set = NumberSet::default();
            prop_assert!(set.is_empty());
            let all: BTreeSet<u64> = near.into_iter().chain(far).collect();
            all.iter().for_each(|&number| set.add(number));
            prop_assert_eq!(set.is_empty(), all.is_empty());
            for number in (0..5_000).chain(asked).chain(all.iter().copied()) {
                prop_assert_eq!(set.has(number), all.contains(&number), "{}", number);
            }
        }
    }

    #[test]
    fn groups_are_added_whole() {
        let mut set = NumberSet::default();
        set.add_all(7, u64::MAX);
        set.add_all(9, 0b101);
        set.add_all(11, 0);
        let members: Vec<u64> = (0..1_000).filter(|&number| set.has(number)).collect();
        let expected: Vec<u64> = (7 * 64..8 * 64).chain([9 * 64, 9 * 64 + 2]).collect();
        assert_eq!(members, expected);
    }
}
