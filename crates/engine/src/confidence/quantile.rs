use super::{is_look, merge, Estimate, Goal, BATCHES};

/// Bits of a sample's mantissa that choose its bucket: 64 for each factor of two, 1.6 % wide.
const BUCKET_BITS: u32 = 6;
/// The least value that is told from zero, as a power of two: in seconds, a picosecond.
const LEAST: i32 = -40;
/// The first power of two that is too much.
const MOST: i32 = 40;
/// The first bucket's place among all there could be.
const BASE: u64 = ((1023 + LEAST) as u64) << BUCKET_BITS;
const BUCKETS: usize = ((MOST - LEAST) as usize) << BUCKET_BITS;

/// Counts of values of at least zero, in buckets of 1.6 % width between 2^-40 and 2^40.
///
/// Not the engine's histogram: that one counts whole picoseconds, and does not look within a
/// bucket, so the quantiles of batches would come in steps.
#[derive(Clone, Debug)]
struct Buckets(Vec<u32>);

impl Buckets {
    fn new() -> Buckets {
        Buckets(vec![0; BUCKETS])
    }

    #[inline]
    fn count(&mut self, value: f64) {
        self.0[Buckets::place(value)] += 1;
    }

    #[inline]
    fn place(value: f64) -> usize {
        // The exponent and the first bits of the mantissa, as they lie in memory.
        let place = (value.max(0.0).to_bits() >> (52 - BUCKET_BITS)).saturating_sub(BASE);
        (place as usize).min(BUCKETS - 1)
    }

    /// Lower limit of a bucket; the first one begins at zero.
    fn limit(bucket: usize) -> f64 {
        if bucket == 0 {
            return 0.0;
        }
        f64::from_bits((BASE + bucket as u64) << (52 - BUCKET_BITS))
    }

    fn add(&mut self, other: &Buckets) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
    }

    /// Returns the number of samples below a value, by linear interpolation within its bucket.
    fn below(&self, value: f64) -> f64 {
        let bucket = Buckets::place(value);
        let (from, to) = (Buckets::limit(bucket), Buckets::limit(bucket + 1));
        let full: u64 = self.0[..bucket].iter().map(|&n| u64::from(n)).sum();
        full as f64 + f64::from(self.0[bucket]) * ((value - from) / (to - from)).clamp(0.0, 1.0)
    }

    /// The quantile of all counts, on a line within its bucket; NaN if there are none.
    fn quantile(&self, quantile: f64) -> f64 {
        let total: u64 = self.0.iter().map(|&n| u64::from(n)).sum();
        let wanted = quantile * total as f64;
        let mut below = 0.0;
        for (bucket, &count) in self.0.iter().enumerate().filter(|(_, &count)| count > 0) {
            let count = f64::from(count);
            if below + count >= wanted {
                let (from, to) = (Buckets::limit(bucket), Buckets::limit(bucket + 1));
                return from + (to - from) * ((wanted - below) / count).clamp(0.0, 1.0);
            }
            below += count;
        }
        f64::NAN
    }
}

/// A quantile of values of at least zero, until it is known well enough.
///
/// Batches say how well the share of samples below the estimate is known; the quantiles of all
/// samples at both ends of that share's interval are the ends of the quantile's. So batches may be
/// short: their own quantiles, which are biased then, are not asked. Takes about 1.3 MB.
#[derive(Clone, Debug)]
pub struct QuantileEstimator {
    goal: Goal,
    quantile: f64,
    /// Intervals in a full batch.
    size: u64,
    open: Slice,
    batches: Vec<Slice>,
    /// Samples of all batches together.
    all: Slice,
    done: bool,
}

#[derive(Clone, Debug)]
struct Slice {
    buckets: Buckets,
    intervals: u64,
    samples: u64,
}

impl Slice {
    fn new() -> Slice {
        Slice { buckets: Buckets::new(), intervals: 0, samples: 0 }
    }

    fn add(&mut self, other: &Slice) {
        self.buckets.add(&other.buckets);
        self.intervals += other.intervals;
        self.samples += other.samples;
    }
}

impl QuantileEstimator {
    /// Has seen nothing yet; `quantile` from 0 to 1.
    #[must_use]
    pub fn new(quantile: f64, goal: Goal) -> Self {
        let (open, all, batches) = (Slice::new(), Slice::new(), Vec::new());
        QuantileEstimator { goal, quantile, size: 1, open, batches, all, done: false }
    }

    /// Adds the next sample, an interval of its own.
    pub fn push(&mut self, value: f64) {
        self.record(value);
        self.end_interval();
    }

    /// Adds a sample of the present interval.
    #[inline]
    pub fn record(&mut self, value: f64) {
        self.open.buckets.count(value);
        self.open.samples += 1;
    }

    /// Ends the present interval.
    pub fn end_interval(&mut self) {
        self.open.intervals += 1;
        if self.batches.len() == 2 * BATCHES {
            self.size *= 2;
            merge(&mut self.batches, Slice::add);
        }
        if self.open.intervals < self.size {
            return;
        }
        let full = std::mem::replace(&mut self.open, Slice::new());
        self.all.add(&full);
        self.batches.push(full);
        if is_look(self.batches.len()) {
            let (quantile, half_width, apart) = self.spread();
            self.done = apart && half_width <= self.goal.relative * quantile;
        }
    }

    /// Returns whether the quantile has reached its goal.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns the estimate from all full batches up to now.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let (mean, half_width, _) = self.spread();
        Estimate { mean, half_width, samples: self.all.samples }
    }

    /// The quantile, its half width, and whether batches seem independent.
    fn spread(&self) -> (f64, f64, bool) {
        let found = self.all.buckets.quantile(self.quantile);
        let size = self.all.samples as f64 / self.batches.len() as f64;
        let deviations = self.batches.iter().map(|batch| {
            (batch.buckets.below(found) - self.quantile * batch.samples as f64) / size
        });
        let (share, apart) = self.goal.half_width(deviations);
        let (low, high) = (self.quantile - share, self.quantile + share);
        if !(low > 0.0 && high < 1.0) {
            return (found, f64::INFINITY, false);
        }
        let [low, high] = [low, high].map(|share| self.all.buckets.quantile(share));
        (found, (high - found).max(found - low), apart)
    }
}
