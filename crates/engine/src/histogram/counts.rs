use halfwink_units::LogScale;

/// Whole numbers, counted on a [`LogScale`]: what all histograms are made of.
///
/// Grows with the largest number; one number is counted in a few nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct LogCounts<const FINE: u32> {
    counts: Vec<u64>,
    total: u64,
}

impl<const FINE: u32> LogCounts<FINE> {
    /// Adds a value to its bucket.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = LogScale::<FINE>::bucket(value);
        if bucket >= self.counts.len() {
            self.grow(bucket);
        }
        self.counts[bucket] += 1;
        self.total += 1;
    }

    /// Rarely, and with room to spare: whole octaves.
    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.counts.resize(((bucket >> FINE) + 1) << FINE, 0);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &LogCounts<FINE>) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.total += other.total;
    }

    /// Forgets all, but keeps its room.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// Returns the number of values counted.
    #[inline]
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Buckets that hold any, in order: the least and the greatest number of each, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let limits = |bucket| (LogScale::<FINE>::lowest(bucket), LogScale::<FINE>::highest(bucket));
        let filled = self.counts.iter().enumerate().filter(|(_, &count)| count > 0);
        filled.map(move |(bucket, &count)| {
            let (low, high) = limits(bucket);
            (low, high, count)
        })
    }

    /// The greatest number of the bucket in which a share (0 to 1) of all ends; `None` if empty.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        // At least the first number of all.
        let wanted = ((self.total as f64 * share.min(1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        bucket.map(LogScale::<FINE>::highest)
    }
}
