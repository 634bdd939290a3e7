/// A log-linear scale of whole numbers, for histograms: every factor of two has `2^FINE` buckets of
/// equal width. So buckets are narrower than `2^-FINE` of what is in them: 0.8 % for 7, 3 % for 5,
/// 25 % for 2. Numbers below `2^(FINE + 1)` have a bucket each.
///
/// ```
/// use halfwink_units::LogScale;
///
/// let bucket = LogScale::<2>::bucket(100);
/// assert_eq!((LogScale::<2>::lowest(bucket), LogScale::<2>::highest(bucket)), (96, 111));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LogScale<const FINE: u32>;

impl<const FINE: u32> LogScale<FINE> {
    /// Buckets that all numbers have together.
    pub const BUCKETS: usize = (65 - FINE as usize) << FINE;

    /// The bucket of a number.
    #[inline]
    #[must_use]
    pub const fn bucket(value: u64) -> usize {
        // Bits beside the finest: 0 of numbers before the first octave, which has no jump to it.
        let octave = u64::BITS - (value >> FINE).leading_zeros();
        let fine = (value >> octave.saturating_sub(1)) & ((1 << FINE) - 1);
        ((octave as usize) << FINE) + fine as usize
    }

    /// The least number of a bucket.
    #[must_use]
    pub const fn lowest(bucket: usize) -> u64 {
        let fine = bucket as u64 & ((1 << FINE) - 1);
        match bucket >> FINE {
            0 => fine,
            octave => ((1 << FINE) + fine) << (octave - 1),
        }
    }

    /// The greatest number of a bucket.
    #[must_use]
    pub const fn highest(bucket: usize) -> u64 {
        let width = 1 << (bucket >> FINE).saturating_sub(1);
        Self::lowest(bucket) + (width - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::LogScale;

    fn check<const FINE: u32>() {
        let all = LogScale::<FINE>::BUCKETS;
        assert_eq!(LogScale::<FINE>::bucket(0), 0);
        assert_eq!(LogScale::<FINE>::bucket(u64::MAX), all - 1);
        for bucket in 0..all {
            let (low, high) = (LogScale::<FINE>::lowest(bucket), LogScale::<FINE>::highest(bucket));
            for value in [low, low + (high - low) / 3, high] {
                assert_eq!(LogScale::<FINE>::bucket(value), bucket, "{value} at {FINE}");
            }
            assert!((high - low) as f64 <= low as f64 / f64::from(1 << FINE), "{low} to {high}");
            if bucket + 1 < all {
                assert_eq!(LogScale::<FINE>::lowest(bucket + 1), high + 1);
            }
        }
    }

    #[test]
    fn buckets_follow_one_another_and_are_as_narrow_as_said() {
        check::<0>();
        check::<2>();
        check::<5>();
        check::<7>();
    }
}
