// SPDX-License-Identifier: GPL-2.0-or-later
//! When requests are due.

use crate::random::Random;

/// Time between arrivals of an open load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Gaps of constant length.
    Constant,
    /// Exponentially distributed: a Poisson process.
    Exponential,
}

/// Due times of an open load, in ns from its start. They do not depend on when responses come, so
/// a slow server is not spared.
#[derive(Clone, Debug)]
pub struct Schedule {
    gaps: Gaps,
    mean_ns: f64,
    random: Random,
    next_ns: f64,
}

impl Schedule {
    /// `rate` requests per second.
    pub fn new(rate: u64, gaps: Gaps, random: Random) -> Schedule {
        let mut schedule = Schedule { gaps, mean_ns: 1e9 / rate as f64, random, next_ns: 0.0 };
        schedule.advance();
        schedule
    }

    /// Returns the time at which the next request is due.
    pub fn peek(&self) -> u64 {
        self.next_ns as u64
    }

    /// Takes the next request off.
    pub fn take(&mut self) -> u64 {
        let due = self.peek();
        self.advance();
        due
    }

    fn advance(&mut self) {
        self.next_ns += match self.gaps {
            Gaps::Constant => self.mean_ns,
            Gaps::Exponential => -self.mean_ns * self.random.unit().ln(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_constant_rate_are_equal() {
        let mut schedule = Schedule::new(1_000, Gaps::Constant, Random::new(0));
        assert_eq!((schedule.take(), schedule.take()), (1_000_000, 2_000_000));
        assert_eq!(schedule.peek(), 3_000_000);
    }

    #[test]
    fn exponential_gaps_have_the_mean_and_spread() {
        let mut schedule = Schedule::new(10_000, Gaps::Exponential, Random::new(42));
        let due: Vec<u64> = (0..100_000).map(|_| schedule.take()).collect();
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e5 - 1.0).abs() < 0.02, "mean {mean}");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.03,
            "an exponential's deviation is its mean"
        );
    }

    #[test]
    fn schedule_of_equal_seed_is_equal() {
        let times = |seed| {
            let mut s = Schedule::new(100, Gaps::Exponential, Random::new(seed));
            [s.take(), s.take(), s.take()]
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
