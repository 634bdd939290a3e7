//! When a simulation has run long enough: means and quantiles with their confidence intervals, and
//! a rule that stops at a wanted one.
//!
//! Successive observations of a queue depend on each other, so their plain variance says too
//! little. Observations are gathered into batches in the order of time, 32 to 64 of them: when
//! there are 64, neighbours are merged and batches become twice as long (batch means with growing
//! batches; Law and Carson, "A sequential procedure for determining the length of a steady-state
//! simulation", Operations Research 27, 1979). The half width is Student's t times the standard
//! error of the batches. Correlation left between neighbouring batches widens it, as in ASAP3
//! (Steiger and others, ACM TOMACS 15, 2005): by `sqrt((1 + r) / (1 - r))` for a first-order
//! process. While that correlation is more than chance would give, nothing is done, however narrow
//! the interval.
//!
//! A batch may hold any number of samples: where time is cut into intervals, each with so many
//! samples, the mean is the ratio of two sums and its variance that of the residuals. So samples
//! that depend on each other *within* an interval, as requests of servers under one power cap do,
//! need not be told apart.
//!
//! Nothing here removes a start that is not typical: leave it out before.
//!
//! Every world uses it in one of two ways. A run that may end early gives a [`Goal`] to a
//! [`Watch`], tells it of each interval, and stops when [`Watch::is_done`]. A run of given length
//! cuts itself into slices (64 or more; fewer than 32 give no interval), tells the same watch or an
//! [`Estimator`] of each slice, with a goal of [`Goal::NONE`], and reads the [`Estimate`]s at its
//! end:
//!
//! ```
//! use halfwink_engine::confidence::{Estimator, Goal};
//!
//! // Joules for each instruction, from slices of a run: the ratio of two sums.
//! let mut energy = Estimator::new(Goal::NONE);
//! for slice in 0..64_u32 {
//!     let (joules, instructions) = (1e-6 * f64::from(100 + slice * 7 % 5), 1000);
//!     energy.push_many(joules, instructions);
//! }
//! let found = energy.estimate();
//! let (low, high) = found.interval().expect("64 slices are enough");
//! assert!(low < found.mean && found.mean < high && found.relative() < 0.01);
//! ```

mod mean;
mod pieces;
mod quantile;
mod slots;
mod watch;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

pub use mean::Estimator;
pub use pieces::{Piece, Pieces};
pub use quantile::QuantileEstimator;
pub use slots::Slots;
pub use watch::{Precision, Watch};

/// Batches that suffice; at twice as many, neighbours are merged.
const BATCHES: usize = 32;
/// Chance that batches that are independent pass for correlated.
const SIGNIFICANCE: f64 = 0.1;

/// Estimate of a mean or a quantile, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean, or the quantile, in the unit of the samples. NaN without samples.
    pub mean: f64,
    /// Half the width of its confidence interval; infinite before there are enough batches.
    pub half_width: f64,
    /// Number of samples used.
    pub samples: u64,
}

impl Estimate {
    /// Both ends of the confidence interval; `None` where there are too few batches to say.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        let known = self.mean.is_finite() && self.half_width.is_finite();
        known.then_some((self.mean - self.half_width, self.mean + self.half_width))
    }

    /// Converts to another unit, `factor` of which make one of the present unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { mean: factor * self.mean, half_width: factor * self.half_width, ..self }
    }

    /// Half width over mean.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.half_width / self.mean.abs()
    }
}

/// Precision that an estimate must reach before a run may end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Half width of the confidence interval over the value, at most.
    pub relative: f64,
    /// Confidence of the interval (0.95).
    pub confidence: f64,
}

impl Goal {
    /// Never ends a run; intervals of 95 % are told all the same.
    pub const NONE: Goal = Goal { relative: f64::NEG_INFINITY, confidence: 0.95 };

    /// Half width of a mean of batches from their deviations from it, and whether neighbours seem
    /// independent. Four batches taken as one must not say that it is wider: they would if batches
    /// were too short for their correlation to show.
    fn half_width(self, deviations: impl Iterator<Item = f64>) -> (f64, bool) {
        let deviations: Vec<f64> = deviations.collect();
        // A batch without samples has no deviation but NaN.
        if deviations.len() < BATCHES || deviations.iter().any(|d| !d.is_finite()) {
            return (f64::INFINITY, false);
        }
        let fours: Vec<f64> =
            deviations.chunks_exact(4).map(|four| four.iter().sum::<f64>() / 4.0).collect();
        let (own, apart) = self.of_batches(&deviations);
        (own.max(self.of_batches(&fours).0), apart)
    }

    fn of_batches(self, deviations: &[f64]) -> (f64, bool) {
        let n = deviations.len() as f64;
        let squares: f64 = deviations.iter().map(|d| d * d).sum();
        let products: f64 = deviations.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let r = if squares > 0.0 { (products / squares).clamp(0.0, 0.99) } else { 0.0 };
        let limit = normal(1.0 - SIGNIFICANCE) / n.sqrt();
        let error = (squares / (n * (n - 1.0))).sqrt() * ((1.0 + r) / (1.0 - r)).sqrt();
        (student(self.confidence, n - 1.0) * error, r <= limit)
    }
}

/// Returns whether the goal is checked at this number of batches. Each check is a chance to stop
/// for a variance that is small by accident, so there are few: two for each doubling of the run.
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
