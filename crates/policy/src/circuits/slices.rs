//! A doubly stochastic matrix is a weighted sum of matchings (Birkhoff 1946, von Neumann 1953).
//!
//! Any matching of positive entries would do; here they are found by thresholds of powers of two,
//! from above (Liu 2015, Solstice, BigSlice), so that heavy slices come first and few are needed.

use alloc::vec;
use alloc::vec::Vec;

use super::NOBODY;

/// Cuts matrices of one size into matchings.
#[derive(Clone, Debug)]
pub struct Slicer {
    hosts: usize,
    rest: Vec<u64>,
    threshold: u64,
    /// Words of a row of bits.
    words: usize,
    /// Entries at or above the threshold, a bit each.
    open: Vec<u64>,
    /// The matching so far: for each sender its receiver, for each receiver its sender.
    to: Vec<u16>,
    from: Vec<u16>,
    /// State of the search: receivers seen, the senders that reached them, senders left to search.
    seen: Vec<u64>,
    reached_by: Vec<u16>,
    queue: Vec<u16>,
}

impl Slicer {
    /// Creates a slicer for matrices of `hosts` rows and columns.
    #[must_use]
    pub fn new(hosts: usize) -> Slicer {
        let words = hosts.div_ceil(64);
        Slicer {
            hosts,
            rest: vec![0; hosts * hosts],
            threshold: 0,
            words,
            open: vec![0; hosts * words],
            to: vec![NOBODY; hosts],
            from: vec![NOBODY; hosts],
            seen: vec![0; words],
            reached_by: vec![NOBODY; hosts],
            queue: vec![NOBODY; hosts],
        }
    }

    /// Begins with a matrix whose rows and columns all sum to the same.
    pub fn load(&mut self, matrix: &[u64]) {
        self.rest.copy_from_slice(matrix);
        let most = self.rest.iter().copied().max().unwrap_or(0);
        self.threshold = most.checked_ilog2().map_or(0, |log| 1 << log);
        self.to.fill(NOBODY);
        self.from.fill(NOBODY);
        self.open_entries();
    }

    /// Takes the next slice off and returns its weight; `None` once nothing is left. Within a
    /// factor of two, weights fall.
    #[must_use]
    pub fn slice(&mut self) -> Option<u64> {
        self.slice_of(0)
    }

    /// Returns the next slice, but `None` as soon as all that are left weigh less than `least`.
    #[must_use]
    pub fn slice_of(&mut self, least: u64) -> Option<u64> {
        while self.threshold > 0 {
            if self.complete() {
                return Some(self.take());
            }
            // No matching has all its entries at the threshold or above, now or later.
            if self.threshold <= least {
                break;
            }
            self.threshold /= 2;
            self.open_entries();
        }
        None
    }

    /// The last slice: for each sender its receiver.
    #[must_use]
    pub fn matching(&self) -> &[u16] {
        &self.reached_by
    }

    fn open_entries(&mut self) {
        let rows = self.rest.chunks_exact(self.hosts);
        for (row, open) in rows.zip(self.open.chunks_exact_mut(self.words)) {
            for (values, word) in row.chunks(64).zip(open) {
                *word = values
                    .iter()
                    .enumerate()
                    .fold(0, |bits, (n, &v)| bits | u64::from(v >= self.threshold) << n);
            }
        }
    }

    /// Takes the whole matching off, as often as its least entry allows.
    fn take(&mut self) -> u64 {
        let hosts = self.hosts;
        let entry = |from: usize, to: u16| from * hosts + usize::from(to);
        let least = |(from, &to): (usize, &u16)| self.rest[entry(from, to)];
        let weight = self.to.iter().enumerate().map(least).min().unwrap_or(0);
        // The search is over: its table of senders holds the result.
        self.reached_by.copy_from_slice(&self.to);
        for from in 0..hosts {
            let to = self.to[from];
            let rest = &mut self.rest[entry(from, to)];
            *rest -= weight;
            if *rest < self.threshold {
                let column = usize::from(to);
                self.open[from * self.words + column / 64] &= !(1 << (column % 64));
                (self.to[from], self.from[column]) = (NOBODY, NOBODY);
            }
        }
        weight
    }

    /// Completes the matching with open entries, if that is possible.
    fn complete(&mut self) -> bool {
        (0..self.hosts).all(|from| self.to[from] != NOBODY || self.augment(from as u16))
    }

    /// Looks for a path from a free sender to a free receiver, breadth first, and turns it over.
    fn augment(&mut self, free: u16) -> bool {
        self.seen.fill(0);
        self.queue[0] = free;
        let (mut head, mut tail) = (0, 1);
        while head < tail {
            let from = self.queue[head];
            head += 1;
            for word in 0..self.words {
                let open = self.open[usize::from(from) * self.words + word];
                let mut new = open & !self.seen[word];
                self.seen[word] |= new;
                while new != 0 {
                    let to = word * 64 + new.trailing_zeros() as usize;
                    new &= new - 1;
                    self.reached_by[to] = from;
                    match self.from[to] {
                        NOBODY => {
                            self.turn_over(to, free);
                            return true;
                        }
                        taken => {
                            self.queue[tail] = taken;
                            tail += 1;
                        }
                    }
                }
            }
        }
        false
    }

    fn turn_over(&mut self, mut to: usize, free: u16) {
        loop {
            let from = self.reached_by[to];
            let before = core::mem::replace(&mut self.to[usize::from(from)], to as u16);
            self.from[to] = from;
            if from == free {
                return;
            }
            to = usize::from(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Balancer, ONE};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_by_three_by_hand() {
        // 5 x (0 1 2) + 3 x (1 2 0) + 1 x (2 0 1), heaviest first.
        let mut slicer = Slicer::new(3);
        slicer.load(&[5, 3, 1, 1, 5, 3, 3, 1, 5]);
        let mut found = Vec::new();
        while let Some(weight) = slicer.slice() {
            found.push((weight, slicer.matching().to_vec()));
        }
        assert_eq!(found, [(5, vec![0, 1, 2]), (3, vec![1, 2, 0]), (1, vec![2, 0, 1])]);
    }

    proptest! {
        #[test]
        fn slices_are_matchings_and_sum_to_the_matrix(hosts in 1usize..80, seed in any::<u64>()) {
            let mut state = seed | 1;
            let demand: Vec<u64> = (0..hosts * hosts)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if state >> 62 == 0 { 0 } else { state >> 40 }
                })
                .collect();
            let mut shares = vec![0; hosts * hosts];
            Balancer::new(hosts).shares(&demand, &mut shares);
            let mut slicer = Slicer::new(hosts);
            slicer.load(&shares);
            let mut total = 0;
            while let Some(weight) = slicer.slice() {
                let mut receivers = vec![false; hosts];
                for (from, &to) in slicer.matching().iter().enumerate() {
                    prop_assert!(!core::mem::replace(&mut receivers[usize::from(to)], true));
                    let left = &mut shares[from * hosts + usize::from(to)];
                    prop_assert!(*left >= weight);
                    *left -= weight;
                }
                prop_assert!(weight > 0);
                total += weight;
            }
            prop_assert_eq!(total, ONE);
            prop_assert!(shares.iter().all(|&share| share == 0));
        }
    }
}
