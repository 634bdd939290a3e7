//! The matching of most weight, by shortest augmenting paths with potentials (Kuhn 1955, Jonker and
//! Volgenant 1987): what Helios and Hedera find with Edmonds' algorithm, which in a graph of
//! senders and receivers comes to the same.

use alloc::vec;
use alloc::vec::Vec;

use super::NOBODY;

/// Weights are cut to this, so that sums of as many as there are hosts fit.
const MOST: u64 = 1 << 44;

/// Finds matchings in matrices of one size. Takes time by the third power of it.
#[derive(Clone, Debug)]
pub struct Assignment {
    hosts: usize,
    /// Prices of senders and receivers; the last receiver is none.
    senders: Vec<i64>,
    receivers: Vec<i64>,
    /// Sender of each receiver.
    from: Vec<u16>,
    /// State of the search: least cost to reach a receiver, the receiver before it, and whether
    /// that is final.
    least: Vec<i64>,
    before: Vec<u16>,
    is_final: Vec<bool>,
}

impl Assignment {
    /// Creates a solver for matrices of `hosts` rows and columns.
    #[must_use]
    pub fn new(hosts: usize) -> Assignment {
        Assignment {
            hosts,
            senders: vec![0; hosts],
            receivers: vec![0; hosts + 1],
            from: vec![NOBODY; hosts + 1],
            least: vec![0; hosts + 1],
            before: vec![NOBODY; hosts + 1],
            is_final: vec![false; hosts + 1],
        }
    }

    /// Writes the receiver of each sender into `to`, so that the sum of the `weights` of all pairs
    /// is maximal. A sender whose weights are all 0 gets [`NOBODY`] and costs no time. Weights are
    /// by rows of senders.
    pub fn solve(&mut self, weights: &[u64], to: &mut [u16]) {
        self.senders.fill(0);
        self.receivers.fill(0);
        self.from.fill(NOBODY);
        for (sender, row) in weights.chunks_exact(self.hosts).enumerate() {
            if row.iter().any(|&weight| weight > 0) {
                self.place(weights, sender);
            }
        }
        to.fill(NOBODY);
        for (receiver, &sender) in self.from[..self.hosts].iter().enumerate() {
            if sender != NOBODY {
                to[usize::from(sender)] = receiver as u16;
            }
        }
    }

    /// A place for one note for each receiver, between two calls.
    pub(super) fn receivers(&mut self) -> &mut [bool] {
        &mut self.is_final[..self.hosts]
    }

    /// Gives one more sender a receiver, moving others where that is cheaper.
    fn place(&mut self, weights: &[u64], sender: usize) {
        let none = self.hosts;
        self.from[none] = sender as u16;
        self.least.fill(i64::MAX);
        self.is_final.fill(false);
        let mut at = none;
        while self.from[at] != NOBODY {
            self.is_final[at] = true;
            let row = usize::from(self.from[at]);
            let (mut step, mut next) = (i64::MAX, none);
            for to in 0..self.hosts {
                if self.is_final[to] {
                    continue;
                }
                let cost = -(weights[row * self.hosts + to].min(MOST) as i64);
                let reduced = cost - self.senders[row] - self.receivers[to];
                if reduced < self.least[to] {
                    (self.least[to], self.before[to]) = (reduced, at as u16);
                }
                // Of equal ones a free one: the search ends there.
                let is_free = || self.from[to] == NOBODY && self.from[next] != NOBODY;
                if self.least[to] < step || self.least[to] == step && is_free() {
                    (step, next) = (self.least[to], to);
                }
            }
            self.raise(step);
            at = next;
        }
        while at != none {
            let before = usize::from(self.before[at]);
            self.from[at] = self.from[before];
            at = before;
        }
    }

    fn raise(&mut self, step: i64) {
        for to in 0..=self.hosts {
            if self.is_final[to] {
                self.senders[usize::from(self.from[to])] += step;
                self.receivers[to] -= step;
            } else if to < self.hosts {
                self.least[to] -= step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weight(hosts: usize, weights: &[u64], to: &[u16]) -> u64 {
        let pairs = to.iter().enumerate().filter(|(_, &to)| to != NOBODY);
        pairs.map(|(from, &to)| weights[from * hosts + usize::from(to)]).sum()
    }

    /// Finds the largest sum by trying all matchings.
    fn most(hosts: usize, weights: &[u64], row: usize, taken: u32) -> u64 {
        (0..hosts)
            .filter(|to| taken & (1 << to) == 0)
            .map(|to| weights[row * hosts + to] + most(hosts, weights, row + 1, taken | 1 << to))
            .max()
            .unwrap_or(0)
    }

    /// Half of them nothing: demands are sparse.
    fn weights() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 0u64..50]
    }

    #[test]
    fn sender_without_demand_has_no_receiver() {
        let mut to = [0; 3];
        Assignment::new(3).solve(&[0, 7, 0, 0, 0, 0, 5, 0, 0], &mut to);
        assert_eq!(to, [1, NOBODY, 0]);
    }

    #[test]
    fn the_heaviest_pair_is_left_where_two_others_weigh_more() {
        let mut to = [0; 2];
        Assignment::new(2).solve(&[10, 9, 8, 0], &mut to);
        assert_eq!(to, [1, 0]);
    }

    proptest! {
        #[test]
        fn as_good_as_the_best_of_all(
            (hosts, weights) in (1usize..7)
                .prop_flat_map(|n| (Just(n), prop::collection::vec(weights(), n * n)))
        ) {
            let mut to = vec![0; hosts];
            Assignment::new(hosts).solve(&weights, &mut to);
            let mut receivers: Vec<u16> = to.iter().copied().filter(|&r| r != NOBODY).collect();
            receivers.sort_unstable();
            let count = receivers.len();
            receivers.dedup();
            prop_assert_eq!(receivers.len(), count, "a receiver of two senders");
            prop_assert_eq!(weight(hosts, &weights, &to), most(hosts, &weights, 0, 0));
        }
    }
}
