//! Durations in buckets of a quarter of a power of two: small enough to lie in shared memory by the
//! dozen, written by one thread without locks.

use core::sync::atomic::{AtomicU32, Ordering};

use halfwink_units::LogScale;

/// Four buckets for each power of two.
type Scale = LogScale<2>;

/// Buckets: the last one holds all from 7.5 s on.
pub const BUCKETS: usize = 128;

/// The bucket of a duration.
#[inline]
fn bucket(ns: u64) -> usize {
    Scale::bucket(ns).min(BUCKETS - 1)
}

/// A histogram that one thread writes and others may read.
#[repr(transparent)]
#[derive(Debug)]
pub struct Histogram(pub [AtomicU32; BUCKETS]);

impl Histogram {
    /// Counts a duration. Counts stop at their largest value.
    #[inline]
    pub fn add(&self, ns: u64) {
        let count = &self.0[bucket(ns)];
        count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }

    /// Adds its counts to a sum.
    pub fn sum_into(&self, sum: &mut [u64; BUCKETS]) {
        for (to, from) in sum.iter_mut().zip(&self.0) {
            *to += u64::from(from.load(Ordering::Relaxed));
        }
    }
}

/// The value that `share` (0 to 1) of the durations do not exceed: the middle of its bucket, in
/// nanoseconds. `None` of an empty histogram.
#[must_use]
pub fn quantile_ns(counts: &[u64; BUCKETS], share: f64) -> Option<u64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let rank = ((total as f64 * share).ceil() as u64).clamp(1, total);
    let mut seen = 0;
    let found = counts.iter().position(|&n| {
        seen += n;
        seen >= rank
    })?;
    Some((Scale::lowest(found) + Scale::lowest(found + 1)) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_the_scale_is_in_the_last_bucket() {
        assert_eq!(Scale::lowest(BUCKETS - 1), 7 << 30, "7.5 s");
        assert_eq!([bucket(0), bucket(7), bucket(u64::MAX)], [0, 7, BUCKETS - 1]);
    }

    #[test]
    fn quantile_is_the_middle_of_its_bucket() {
        let mut counts = [0; BUCKETS];
        assert_eq!(quantile_ns(&counts, 0.5), None);
        (0..100).for_each(|n| counts[bucket(if n < 90 { 100 } else { 10_000 })] += 1);
        // 100 lies in 96..112, 10,000 in 8,192..10,240.
        assert_eq!(quantile_ns(&counts, 0.5), Some(104));
        assert_eq!(quantile_ns(&counts, 0.9), Some(104));
        assert_eq!(quantile_ns(&counts, 0.99), Some(9_216));
    }
}
