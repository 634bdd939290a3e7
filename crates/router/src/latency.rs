//! Latencies, counted: the hot loop records millions a second.

use halfwink_units::Time;

/// Sub-buckets of a factor of two, as a power of two: buckets are 3 % wide.
const FINE: u32 = 5;
const BUCKETS: usize = 1 << 10;

/// Counts of latencies with exact number, sum and maximum; quantiles within 3 %.
#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: Vec<u32>,
    count: u64,
    sum: u128,
    max: Time,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { buckets: vec![0; BUCKETS], count: 0, sum: 0, max: Time::ZERO }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Time) {
        self.buckets[bucket(latency.0 / 1_000)] += 1;
        self.count += 1;
        self.sum += u128::from(latency.0);
        self.max = self.max.max(latency);
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        for (a, b) in self.buckets.iter_mut().zip(&other.buckets) {
            *a += b;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn clear(&mut self) {
        self.buckets.fill(0);
        *self = Latencies { buckets: core::mem::take(&mut self.buckets), ..Latencies::empty() };
    }

    const fn empty() -> Latencies {
        Latencies { buckets: Vec::new(), count: 0, sum: 0, max: Time::ZERO }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, in microseconds; `None` of nothing.
    #[must_use]
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 * 1e-6)
    }

    /// Longest, in microseconds; `None` of nothing.
    #[must_use]
    pub fn max_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max.as_ns() * 1e-3)
    }

    /// What a share (0 to 1) of all do not exceed, in microseconds; `None` of nothing.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (n, &count) in self.buckets.iter().enumerate() {
            seen += u64::from(count);
            if seen >= wanted {
                return Some((upper(n) as f64 * 1e-3).min(self.max.as_ns() * 1e-3));
            }
        }
        None
    }
}

fn bucket(ns: u64) -> usize {
    let bits = 64 - (ns >> FINE).leading_zeros();
    let shift = bits.saturating_sub(1);
    let octave = if bits == 0 { 0 } else { (u64::from(bits)) << FINE };
    let fine = if bits == 0 { ns } else { (ns >> shift) & ((1 << FINE) - 1) };
    ((octave + fine) as usize).min(BUCKETS - 1)
}

/// The first time past a bucket, in nanoseconds.
fn upper(bucket: usize) -> u64 {
    let (octave, fine) = (bucket as u64 >> FINE, bucket as u64 & ((1 << FINE) - 1));
    if octave == 0 {
        return fine + 1;
    }
    ((1 << FINE) + fine + 1) << (octave - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        let mut last = 0;
        for ns in (0..200_000).step_by(7) {
            let n = bucket(ns);
            assert!(n >= last, "{ns}");
            assert!(upper(n) > ns && (upper(n) - ns) as f64 <= 1.0 + ns as f64 / 31.0, "{ns}");
            last = n;
        }
    }

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
