use halfwink_units::Time;

use super::{Estimate, Estimator, Goal, QuantileEstimator};

/// Estimates of the three results that all worlds have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Mean latency, in seconds.
    pub mean_s: Estimate,
    /// 99th percentile of the latency, in seconds.
    pub p99_s: Estimate,
    /// Mean power, in watts.
    pub power_w: Estimate,
    /// Tells whether all three estimates reached their goals.
    pub reached: bool,
}

/// Looks at mean latency, its 99th percentile and power as a run goes on, interval by interval.
#[derive(Clone, Debug)]
pub struct Watch {
    mean: Estimator,
    p99: QuantileEstimator,
    /// Joules over nanoseconds: time is what its samples are.
    power: Estimator,
    last: Option<Time>,
}

impl Watch {
    /// Has seen nothing yet. The first interval begins at `start`; if that is not known, the first
    /// interval is left out, since it has no length.
    #[must_use]
    pub fn new(goal: Goal, start: Option<Time>) -> Watch {
        let mean = Estimator::new(goal);
        Watch { power: mean.clone(), mean, p99: QuantileEstimator::new(0.99, goal), last: start }
    }

    /// Records the interval since the last call: the energy used, in joules, and the latencies of
    /// completed requests, in seconds.
    pub fn interval(&mut self, now: Time, energy_j: f64, latencies_s: &[f64]) {
        let Some(last) = self.last.replace(now) else { return };
        debug_assert!(last <= now, "intervals are told in the order of time");
        self.mean.push_many(latencies_s.iter().sum(), latencies_s.len() as u64);
        latencies_s.iter().for_each(|&latency| self.p99.record(latency));
        self.p99.end_interval();
        self.power.push_many(energy_j, (now - last).as_ns() as u64);
    }

    /// Returns whether all three estimates have reached their goals.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.mean.is_done() && self.p99.is_done() && self.power.is_done()
    }

    /// Returns the estimates up to now.
    #[must_use]
    pub fn precision(&self) -> Precision {
        Precision {
            mean_s: self.mean.estimate(),
            p99_s: self.p99.estimate(),
            power_w: self.power.estimate().times(1e9),
            reached: self.is_done(),
        }
    }
}
