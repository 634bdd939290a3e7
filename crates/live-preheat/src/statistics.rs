//! What is said of measured times: quantiles with intervals that assume nothing of how times are
//! spread, and a test of pairs.

use serde::Serialize;

/// A quantile of a sample, with the order statistics around it that hold the true one with 95 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantile {
    /// Estimate of the quantile.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Quantile `p` (0 to 1) of a sample in ascending order; zeroes of none.
#[must_use]
pub fn quantile(sorted: &[f64], p: f64) -> Quantile {
    let n = sorted.len();
    if n == 0 {
        return Quantile::default();
    }
    // How many of n lie below the true quantile is binomial; its normal approximation.
    let (mean, spread) = (n as f64 * p, 1.96 * (n as f64 * p * (1.0 - p)).sqrt());
    let at = |rank: f64| sorted[(rank.max(0.0) as usize).min(n - 1)];
    Quantile {
        value: at((mean - 0.5).round()),
        low: at((mean - spread).floor() - 1.0),
        high: at((mean + spread).ceil()),
    }
}

/// Probability of as many pairs, or more, with `a` below `b` if it were a coin's choice (one-sided
/// sign test). Pairs that are equal do not count.
#[must_use]
pub fn sign_test(a: &[f64], b: &[f64]) -> f64 {
    let differ = a.iter().zip(b).filter(|(a, b)| a != b);
    let (mut below, mut n) = (0u32, 0u32);
    for (a, b) in differ {
        n += 1;
        below += u32::from(a < b);
    }
    // Sum of the upper tail of the binomial distribution, from logarithms of its terms.
    let mut log_term = -f64::from(n) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=n {
        if k >= below {
            tail += log_term.exp();
        }
        log_term += (f64::from(n - k) / f64::from(k + 1)).max(f64::MIN_POSITIVE).ln();
    }
    tail.min(1.0)
}

/// Quantiles of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of times.
    pub n: usize,
    /// Median of the times.
    pub p50: Quantile,
    /// 90th percentile of the times.
    pub p90: Quantile,
    /// 99th percentile of the times.
    pub p99: Quantile,
}

impl Summary {
    /// Computes the quantiles of times in any order.
    #[must_use]
    pub fn of(times: &[f64]) -> Summary {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |p| quantile(&sorted, p);
        Summary { n: sorted.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_hundred() {
        let times: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let summary = Summary::of(&times);
        assert_eq!((summary.n, summary.p50.value, summary.p90.value), (100, 51.0, 91.0));
        // Tables of order statistics have the 40th and the 61st for the median.
        assert_eq!((summary.p50.low, summary.p50.high), (40.0, 61.0));
        assert_eq!(summary.p99.high, 100.0);
        assert_eq!(Summary::of(&[]).p50, Quantile::default());
        assert_eq!(Summary::of(&[3.0]).p99.value, 3.0);
    }

    #[test]
    fn sign_test_gives_the_binomial_tail() {
        let (a, b) = ([1.0; 10], [2.0; 10]);
        assert!((sign_test(&a, &b) - 1.0 / 1024.0).abs() < 1e-9);
        assert!((sign_test(&b, &a) - 1.0).abs() < 1e-9);
        // 8 of 10: (45 + 10 + 1) / 1024.
        let mut mixed = b;
        mixed[0] = 0.0;
        mixed[1] = 0.0;
        assert!((sign_test(&a, &mixed) - 56.0 / 1024.0).abs() < 1e-9);
        assert!((sign_test(&a, &a) - 1.0).abs() < 1e-9);
        let many: Vec<f64> = (0..4000).map(f64::from).collect();
        let more: Vec<f64> = many.iter().map(|x| x + 1.0).collect();
        assert!(sign_test(&many, &more) < 1e-300);
    }
}
