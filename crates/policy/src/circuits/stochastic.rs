//! From demand to shares of time: every host sends all the time, and receives all the time.
//!
//! Sinkhorn 1964: rows and columns are scaled by turns until all sum to one. Where that does not
//! converge (some demands cannot be scaled, such as that of two hosts for one alone) what is
//! missing is filled in (Liu 2015, Solstice, QuickStuff). Shares are integers, so that sums are
//! exact and a decomposition leaves nothing over.

use alloc::vec;
use alloc::vec::Vec;

/// A share of one: all the time.
pub const ONE: u64 = 1 << 40;

/// Rounds of scaling. Dense demands of 64 hosts converge to 1e-9 in about ten; the others never do.
const ROUNDS: u32 = 32;
/// Factor that keeps every sum of rounded shares at or below one.
const BELOW_ONE: f64 = 1.0 - 1e-11;

/// Makes matrices of one size doubly stochastic.
#[derive(Clone, Debug)]
pub struct Balancer {
    hosts: usize,
    scaled: Vec<f64>,
    sums: Vec<f64>,
    /// Missing sums of rows and columns.
    rows: Vec<u64>,
    columns: Vec<u64>,
}

impl Balancer {
    /// Creates a balancer for matrices of `hosts` rows and columns.
    #[must_use]
    pub fn new(hosts: usize) -> Balancer {
        Balancer {
            hosts,
            scaled: vec![0.0; hosts * hosts],
            sums: vec![0.0; hosts],
            rows: vec![0; hosts],
            columns: vec![0; hosts],
        }
    }

    /// Shares of time for a demand in bytes, by rows of senders: every row and every column of
    /// `shares` sums to [`ONE`]. Without any demand, all others have equal shares.
    pub fn shares(&mut self, demand: &[u64], shares: &mut [u64]) {
        let hosts = self.hosts;
        let none = demand.iter().all(|&bytes| bytes == 0);
        for (n, (scaled, &bytes)) in self.scaled.iter_mut().zip(demand).enumerate() {
            let uniform = if n / hosts == n % hosts { 0.0 } else { 1.0 };
            *scaled = if none { uniform } else { bytes as f64 };
        }
        self.scale();
        for (share, &scaled) in shares.iter_mut().zip(&self.scaled) {
            // `as` rounds down.
            *share = (scaled * ONE as f64 * BELOW_ONE) as u64;
        }
        self.fill(shares, ONE);
    }

    /// Scales by turns; at the end no row and no column is above one.
    fn scale(&mut self) {
        for _ in 0..ROUNDS {
            self.scale_rows();
            self.sum_columns();
            let error = self.sums.iter().map(|&sum| (sum - 1.0).max(1.0 - sum));
            if error.fold(0.0, f64::max) < 1e-12 {
                break;
            }
            for row in self.scaled.chunks_exact_mut(self.hosts) {
                for (value, &sum) in row.iter_mut().zip(&self.sums) {
                    *value *= reciprocal(sum);
                }
            }
        }
        self.scale_rows();
        self.sum_columns();
        let most = self.sums.iter().fold(1.0, |most: f64, &sum| most.max(sum));
        self.scaled.iter_mut().for_each(|value| *value /= most);
    }

    fn scale_rows(&mut self) {
        for row in self.scaled.chunks_exact_mut(self.hosts) {
            let factor = reciprocal(row.iter().sum());
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }

    fn sum_columns(&mut self) {
        self.sums.fill(0.0);
        for row in self.scaled.chunks_exact(self.hosts) {
            self.sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    }

    /// Raises entries until every row and column sums to `total`, which none may be above: those
    /// that are not zero first, then a host's with itself, then any (Liu 2015, Algorithm 2).
    pub fn fill(&mut self, matrix: &mut [u64], total: u64) {
        let hosts = self.hosts;
        self.columns.fill(total);
        for (row, lack) in matrix.chunks_exact(hosts).zip(&mut self.rows) {
            *lack = total - row.iter().sum::<u64>();
            self.columns.iter_mut().zip(row).for_each(|(lack, value)| *lack -= value);
        }
        for pass in 0..3 {
            for (from, row) in matrix.chunks_exact_mut(hosts).enumerate() {
                for (to, value) in row.iter_mut().enumerate() {
                    let may = match pass {
                        0 => *value > 0,
                        1 => from == to,
                        _ => true,
                    };
                    let more = self.rows[from].min(self.columns[to]);
                    if may && more > 0 {
                        *value += more;
                        self.rows[from] -= more;
                        self.columns[to] -= more;
                    }
                }
            }
        }
    }
}

fn reciprocal(sum: f64) -> f64 {
    if sum > 0.0 {
        1.0 / sum
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(hosts: usize, demand: &[u64]) -> Vec<u64> {
        let mut shares = vec![0; demand.len()];
        Balancer::new(hosts).shares(demand, &mut shares);
        shares
    }

    #[test]
    fn two_by_two_by_hand() {
        // Sinkhorn keeps the cross ratio: (1 x 1) / (1 x 4), so a / (1 - a) = sqrt(1 / 4).
        let found = shares(2, &[1, 4, 1, 1]);
        let third = ONE as f64 / 3.0;
        assert!((found[0] as f64 - third).abs() < 1e-9 * ONE as f64, "{found:?}");
        assert!((found[1] as f64 - 2.0 * third).abs() < 1e-9 * ONE as f64, "{found:?}");
    }

    #[test]
    fn what_cannot_be_scaled_is_filled() {
        // Both others want host 2 alone: half its time for each, and the rest of their own is idle.
        let found = shares(3, &[0, 0, 7, 0, 0, 7, 0, 0, 0]);
        assert!(found[2] > ONE / 2 - 100 && found[5] > ONE / 2 - 100, "{found:?}");
        assert_eq!(found[2] + found[5], ONE);
    }

    #[test]
    fn without_demand_all_others_are_equal() {
        let found = shares(4, &[0; 16]);
        let third = ONE / 3;
        assert!(found.iter().enumerate().all(|(n, &share)| match n / 4 == n % 4 {
            true => share < 100,
            false => share.abs_diff(third) < 100,
        }));
    }

    proptest! {
        #[test]
        fn rows_and_columns_sum_to_one(
            hosts in 1usize..12,
            seed in any::<u64>(),
            zeros in 0u32..4,
        ) {
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 24
            };
            let demand: Vec<u64> = (0..hosts * hosts)
                .map(|_| if next() % 4 < u64::from(zeros) { 0 } else { next() })
                .collect();
            let found = shares(hosts, &demand);
            for n in 0..hosts {
                let row: u64 = found[n * hosts..][..hosts].iter().sum();
                let column: u64 = found.iter().skip(n).step_by(hosts).sum();
                prop_assert_eq!((row, column), (ONE, ONE));
            }
        }
    }
}
