//! Runs that end when their results are known well enough.

use halfwink_units::Time;

use crate::confidence::{Estimate, Estimator, QuantileEstimator};

/// How well mean delay, its 99th percentile and power are to be known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Half width of their confidence intervals over themselves, at most.
    pub relative: f64,
    /// Confidence of the intervals (0.95).
    pub confidence: f64,
}

/// How well they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Mean delay, in seconds.
    pub mean_s: Estimate,
    /// Its 99th percentile, in seconds.
    pub p99_s: Estimate,
    /// Power, in watts.
    pub power_w: Estimate,
    /// Whether that is as well as was wanted.
    pub reached: bool,
}

/// Looks at a run as it goes on.
pub(crate) struct Watch {
    mean: Estimator,
    p99: QuantileEstimator,
    /// Joules over nanoseconds.
    power: Estimator,
    last: Option<Time>,
}

impl Watch {
    /// Requests between two looks.
    pub(crate) const INTERVAL: u64 = 1000;
    /// With so many unfinished requests, more come than are served.
    pub(crate) const HOPELESS: usize = 200_000;

    pub(crate) fn new(goal: Goal) -> Watch {
        let Goal { relative, confidence } = goal;
        Watch {
            mean: Estimator::new(relative, confidence),
            p99: QuantileEstimator::new(0.99, relative, confidence),
            power: Estimator::new(relative, confidence),
            last: None,
        }
    }

    /// What happened since the last look. The first interval has no known length, and is left out.
    pub(crate) fn interval(&mut self, now: Time, energy_j: f64, sojourns: &[f64]) {
        let Some(last) = self.last.replace(now) else { return };
        self.mean.push_many(sojourns.iter().sum(), sojourns.len() as u64);
        sojourns.iter().for_each(|s| self.p99.record(*s));
        self.p99.end_interval();
        self.power.push_many(energy_j, (now - last).as_ns() as u64);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.mean.is_done() && self.p99.is_done() && self.power.is_done()
    }

    pub(crate) fn precision(&self) -> Precision {
        let power = self.power.estimate();
        Precision {
            mean_s: self.mean.estimate(),
            p99_s: self.p99.estimate(),
            power_w: Estimate {
                mean: 1e9 * power.mean,
                half_width: 1e9 * power.half_width,
                ..power
            },
            reached: self.is_done(),
        }
    }
}
