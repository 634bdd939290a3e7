//! When a simulation has run long enough: means and quantiles with their confidence intervals, and
//! a rule that stops at a wanted one.
//!
//! Successive observations of a queue depend on each other, so their plain variance says too little.
//! Observations are gathered into batches in the order of time, 32 to 64 of them: when there are
//! 64, neighbours are merged and batches become twice as long (batch means with growing batches;
//! Law and Carson, "A sequential procedure for determining the length of a steady-state simulation",
//! Operations Research 27, 1979). The half width is Student's t times the standard error of the
//! batches. Correlation left between neighbouring batches widens it, as in ASAP3 (Steiger and
//! others, ACM TOMACS 15, 2005): by `sqrt((1 + r) / (1 - r))` for a first-order process. While that
//! correlation is more than chance would give, nothing is done, however narrow the interval.
//!
//! A batch may hold any number of samples: where time is cut into intervals, each with so many
//! samples, the mean is the ratio of two sums and its variance that of the residuals. So samples
//! that depend on each other *within* an interval, as requests of servers under one power cap do,
//! need not be told apart.
//!
//! Nothing here removes a start that is not typical: leave it out before.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Batches that suffice; at twice as many, neighbours are merged.
const BATCHES: usize = 32;
/// Chance that batches that are independent pass for correlated.
const SIGNIFICANCE: f64 = 0.1;

/// What is known of a mean or a quantile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean, or the quantile, in the unit of the samples. NaN without samples.
    pub mean: f64,
    /// Half the width of its confidence interval; infinite before there are enough batches.
    pub half_width: f64,
    /// How many samples.
    pub samples: u64,
}

impl Estimate {
    /// Half width over mean.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.half_width / self.mean.abs()
    }

    /// Whether two estimates agree: they differ by no more than both half widths together as
    /// independent errors.
    #[must_use]
    pub fn agrees(&self, other: &Estimate) -> bool {
        (self.mean - other.mean).abs() <= self.half_width.hypot(other.half_width)
    }
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
struct Goal {
    relative: f64,
    confidence: f64,
}

impl Goal {
    /// Half width of a mean of batches from their deviations from it, and whether neighbours seem
    /// independent.
    fn half_width(self, deviations: impl Iterator<Item = f64>) -> (f64, bool) {
        let (mut count, mut squares, mut products, mut last) = (0_usize, 0.0, 0.0, 0.0);
        for deviation in deviations {
            squares += deviation * deviation;
            products += deviation * last;
            last = deviation;
            count += 1;
        }
        // A batch without samples has no deviation but NaN.
        if count < BATCHES || !squares.is_finite() {
            return (f64::INFINITY, false);
        }
        let n = count as f64;
        let r = if squares > 0.0 { (products / squares).clamp(0.0, 0.99) } else { 0.0 };
        let limit = normal(1.0 - SIGNIFICANCE) / n.sqrt();
        let error = (squares / (n * (n - 1.0))).sqrt() * ((1.0 + r) / (1.0 - r)).sqrt();
        (student(self.confidence, n - 1.0) * error, r <= limit)
    }
}

/// Whether to look at so many batches. Each look is a chance to stop for a variance that is small by
/// accident, so there are few: two for each doubling of the run.
const fn is_look(batches: usize) -> bool {
    batches == BATCHES * 3 / 2 || batches == BATCHES * 2
}

/// Quantile of the normal distribution.
fn normal(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// Two-sided quantile of Student's t.
fn student(confidence: f64, freedom: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, freedom).expect("more than one batch");
    t.inverse_cdf(0.5 + confidence / 2.0)
}

/// A mean, until it is known well enough.
///
/// ```
/// use halfwink_server::confidence::Estimator;
///
/// let mut mean = Estimator::new(0.05, 0.95);
/// let mut n = 0_u64;
/// while !mean.is_done() {
///     n = (n + 7) % 10;
///     mean.push(n as f64);
/// }
/// assert!((mean.estimate().mean - 4.5).abs() < 0.2);
/// ```
#[derive(Clone, Debug)]
pub struct Estimator {
    goal: Goal,
    /// Pushes in a full batch.
    size: u64,
    open: Sums,
    batches: Vec<Sums>,
    done: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    sum: f64,
    samples: u64,
    pushes: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.sum += other.sum;
        self.samples += other.samples;
        self.pushes += other.pushes;
    }
}

impl Estimator {
    /// Wants a half width of at most `target_relative_half_width` of the mean, at `confidence` (0.95).
    #[must_use]
    pub fn new(target_relative_half_width: f64, confidence: f64) -> Estimator {
        let goal = Goal { relative: target_relative_half_width, confidence };
        Estimator { goal, size: 1, open: Sums::default(), batches: Vec::new(), done: false }
    }

    /// Adds the next sample.
    pub fn push(&mut self, value: f64) {
        self.push_many(value, 1);
    }

    /// Adds the next interval: the sum of its samples, and how many they are.
    pub fn push_many(&mut self, sum: f64, samples: u64) {
        self.open.add(&Sums { sum, samples, pushes: 1 });
        if self.batches.len() == 2 * BATCHES {
            self.size *= 2;
            merge(&mut self.batches, Sums::add);
        }
        if self.open.pushes < self.size {
            return;
        }
        self.batches.push(std::mem::take(&mut self.open));
        if is_look(self.batches.len()) {
            let (half_width, apart) = self.spread();
            self.done = apart && half_width <= self.goal.relative * self.mean().abs();
        }
    }

    /// Whether the mean is known as well as was wanted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// What is known by now.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let samples = self.all().samples;
        Estimate { mean: self.mean(), half_width: self.spread().0, samples }
    }

    fn all(&self) -> Sums {
        let mut all = self.open;
        self.batches.iter().for_each(|batch| all.add(batch));
        all
    }

    fn mean(&self) -> f64 {
        let all = self.all();
        all.sum / all.samples as f64
    }

    fn spread(&self) -> (f64, bool) {
        let mut all = Sums::default();
        self.batches.iter().for_each(|batch| all.add(batch));
        let mean = all.sum / all.samples as f64;
        let size = all.samples as f64 / self.batches.len() as f64;
        self.goal.half_width(self.batches.iter().map(|b| (b.sum - mean * b.samples as f64) / size))
    }
}

/// Makes one of every two neighbours.
fn merge<T>(batches: &mut Vec<T>, add: impl Fn(&mut T, &T)) {
    let mut all = std::mem::take(batches).into_iter();
    while let Some(mut first) = all.next() {
        if let Some(second) = all.next() {
            add(&mut first, &second);
        }
        batches.push(first);
    }
}

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
/// Not the engine's histogram: that one counts whole picoseconds, and does not look within a bucket,
/// so the quantiles of batches would come in steps.
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

    /// How many are below a value, in its bucket on a line.
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
    /// All batches together.
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
    /// Wants `quantile` (0.95) within `target_relative_half_width` of itself, at `confidence`.
    #[must_use]
    pub fn new(quantile: f64, target_relative_half_width: f64, confidence: f64) -> Self {
        let goal = Goal { relative: target_relative_half_width, confidence };
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

    /// Whether the quantile is known as well as was wanted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// What is known by now, of the intervals in full batches.
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
