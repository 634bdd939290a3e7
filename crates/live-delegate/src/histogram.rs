//! Durations in buckets of a quarter of a power of two: small enough to lie in shared memory by the
//! dozen, written by one thread without locks.

use core::sync::atomic::{AtomicU32, Ordering};

/// Buckets: 32 powers of two, four in each.
pub const BUCKETS: usize = 128;

/// The bucket of a duration.
#[inline]
#[must_use]
pub fn bucket(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros() as usize;
    let quarter = (ns >> (power - 2)) as usize & 3;
    ((power - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// The shortest duration of a bucket, in nanoseconds.
#[must_use]
pub fn lower_bound_ns(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    (4 + quarter) << (power - 2)
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
    Some((lower_bound_ns(found) + lower_bound_ns(found + 1)) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_a_quarter_of_an_octave() {
        for ns in (0..5_000).chain([1 << 20, (1 << 31) - 1]) {
            let b = bucket(ns);
            assert!(lower_bound_ns(b) <= ns && ns < lower_bound_ns(b + 1), "{ns} in {b}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles() {
        let mut counts = [0; BUCKETS];
        assert_eq!(quantile_ns(&counts, 0.5), None);
        (0..100).for_each(|n| counts[bucket(if n < 90 { 100 } else { 10_000 })] += 1);
        // 100 lies in 96..112, 10,000 in 8,192..10,240.
        assert_eq!(quantile_ns(&counts, 0.5), Some(104));
        assert_eq!(quantile_ns(&counts, 0.9), Some(104));
        assert_eq!(quantile_ns(&counts, 0.99), Some(9_216));
    }
}
