//! How long a core was idle: exactly, and as a kernel recorded it that kept a histogram by powers
//! of two (Mogul 2007, Sec 7.3).

use halfwink_units::Time;
use serde::{Deserialize, Serialize};

/// Event that ends a recorded idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamps {
    /// The return of the halt instruction: every interrupt ends a period, and since its handler
    /// runs before the halt returns, its time counts as idle.
    Halt,
    /// The idle thread's own entry and exit: interrupts on top of it end nothing and count as idle.
    Thread,
    /// Interrupts end a period and their time does not count.
    Exact,
}

/// Idle periods of one core.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleRecord {
    cycles_per_ns: f64,
    buckets: [u64; 64],
    /// Sum of the periods.
    pub exact: Time,
    /// Number of recorded periods.
    pub periods: u64,
}

impl IdleRecord {
    /// Creates an empty record; periods are counted in cycles of this clock.
    #[must_use]
    pub fn new(clock_ghz: f64) -> IdleRecord {
        IdleRecord { cycles_per_ns: clock_ghz, buckets: [0; 64], exact: Time(0), periods: 0 }
    }

    /// Adds an idle period.
    pub fn add(&mut self, period: Time) {
        let cycles = (period.as_ns() * self.cycles_per_ns) as u64;
        if cycles == 0 {
            return;
        }
        self.buckets[cycles.ilog2() as usize] += 1;
        self.periods += 1;
        self.exact += period;
    }

    /// Idle time in seconds as read off the histogram, each period at the lower bound of its bucket
    /// (E4.4: sum of counts times 2^k). Low by up to a factor of two.
    #[must_use]
    pub fn lower_bound_s(&self) -> f64 {
        let cycles = |(k, &count): (usize, &u64)| count as f64 * (1u64 << k) as f64;
        self.buckets.iter().enumerate().map(cycles).sum::<f64>() / self.cycles_per_ns * 1e-9
    }
}

/// Returns the share of the true idle time that the lower bounds keep: 1 / (2 ln 2) for any
/// distribution that is spread evenly over logarithms (E4.5).
#[must_use]
pub fn expected_factor() -> f64 {
    0.5 / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::random::Draws;

    fn factor(periods: impl Iterator<Item = f64>) -> f64 {
        let mut record = IdleRecord::new(3.0);
        let mut sum_s = 0.0;
        for ns in periods {
            let period = Time::from_ns(ns);
            sum_s += period.as_s();
            record.add(period);
        }
        assert!((record.exact.as_s() - sum_s).abs() < 1e-9);
        record.lower_bound_s() / sum_s
    }

    #[test]
    fn a_constant_millisecond_keeps_seven_tenths() {
        // 3.0 M cycles fall into the bucket of 2^21.
        let found = factor(std::iter::repeat_n(1e6, 100));
        assert!((found - 0.699).abs() < 0.001, "{found}");
        assert!((factor(std::iter::repeat_n(4e6, 100)) - 0.699).abs() < 0.001);
    }

    #[test]
    fn smooth_distributions_keep_one_over_two_ln_two() {
        let mut draws = Draws::new(1, "idle");
        let exponential: Vec<f64> = (0..200_000).map(|_| draws.exponential(50_000.0)).collect();
        let lognormal: Vec<f64> = (0..200_000).map(|_| draws.lognormal(50_000.0, 1.0)).collect();
        for periods in [exponential, lognormal] {
            let found = factor(periods.into_iter());
            assert!((found - expected_factor()).abs() < 0.01, "{found}");
        }
        assert!((expected_factor() - 0.7213).abs() < 1e-4);
    }
}
