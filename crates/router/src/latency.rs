//! Latencies, counted: the hot loop records millions a second.

use halfwink_engine::LogCounts;
use halfwink_units::Time;

/// Buckets of latencies are 3 % wide, from a nanosecond on.
pub(crate) const FINE: u32 = 5;

/// Counts of latencies with exact number, sum and maximum; quantiles within 3 %.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    counts: LogCounts<FINE>,
    sum: u128,
    max: Time,
}

impl Latencies {
    #[inline]
    pub(crate) fn record(&mut self, latency: Time) {
        self.counts.record(latency.0 / 1_000);
        self.sum += u128::from(latency.0);
        self.max = self.max.max(latency);
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        self.counts.add(&other.counts);
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn clear(&mut self) {
        self.counts.clear();
        (self.sum, self.max) = (0, Time::ZERO);
    }

    /// Returns the histogram of nanoseconds.
    pub(crate) fn counts(&self) -> &LogCounts<FINE> {
        &self.counts
    }

    /// Returns the sum of all latencies.
    pub(crate) fn total(&self) -> Time {
        Time(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// Returns the number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.total()
    }

    /// Mean, in microseconds; `None` of nothing.
    #[must_use]
    pub fn mean_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64 * 1e-6)
    }

    /// Longest, in microseconds; `None` of nothing.
    #[must_use]
    pub fn max_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.max.as_ns() * 1e-3)
    }

    /// Returns the value that a share (0 to 1) of all latencies does not exceed, in microseconds;
    /// `None` if there are none.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        // Nanoseconds were cut off: the first time past the bucket is what none exceeds.
        let past = self.counts.quantile(share)? + 1;
        Some((past as f64 * 1e-3).min(self.max.as_ns() * 1e-3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_mean_and_maximum() {
        let mut all = Latencies::default();
        (1..=1000).for_each(|n| all.record(Time::ns(1_000 * n)));
        assert_eq!(all.mean_us(), Some(500.5));
        assert_eq!(all.max_us(), Some(1000.0));
        let p99 = all.quantile_us(0.99).unwrap();
        assert!((990.0..1000.1).contains(&p99), "{p99}");
        all.clear();
        assert_eq!((all.mean_us(), all.quantile_us(0.5)), (None, None));
    }
}
