//! World: many servers under one power cap, as `BigHouse` plays it.
//!
//! `BigHouse` (Meisner, Wu and Wenisch, "BigHouse: a simulation infrastructure for data center
//! systems", ISPASS 2012; github.com/meisner/BigHouse) is the stochastic queueing simulator of the
//! field. Its reference experiment, `PowerCappingExperiment`, read from its source:
//!
//! * **Requests.** Each server has its own arrivals. Gaps and sizes are drawn independently, on
//!   the straight lines between the points of two empirical distribution functions; what these
//!   lack to 1 is the last value. Gaps are scaled so that cores are loaded to 0.5, with means that
//!   count every step at its upper end and leave out what is missing: the load that is played is
//!   0.49.
//! * **Server.** One socket of four cores, one queue, first come, first served. Cores are all
//!   alike, so which one serves does not matter, nor would the socket.
//! * **Power.** 51.4 W (four halted cores of 1.6 W, socket 1 W, memory 25 W, disk 9 W, other 10 W)
//!   and 41.6 W more at full use (cores 25.6 W, memory 10 W, disk 1 W, other 5 W), by the share of
//!   cores that work. It does not follow frequency.
//! * **Cap.** Each second, 65 W for each server less 59 W are shared out by use: a server gets its
//!   51.4 W and its share. The statistic "cap" is the mean over servers of what one draws beyond
//!   what it gets, at that moment. Speed is the cube root of what is above 75 W over 25 W, between
//!   0.5 and 1; below 75 W it is 0.5, so servers at less than full use run at half speed.
//! * **Speed.** At speed `s` the factor `f = 0.1 + 0.9 / s` is how much longer a request ought to
//!   take. But its finish is planned at `left / f` from now: a slow server finishes *sooner*. At
//!   each epoch, what was done so far is counted as `time / f` and the rest is planned anew. So at
//!   half speed a request takes 0.53 of its time, and the mean response is below the mean size.
//!   That is [`Rule::Published`]; [`Rule::Slower`] plans `left * f`.
//! * **Statistics.** Mean within 5 % at 95 %; for the 0.95 quantile, `1.96 q^2 / sqrt(n)` must be
//!   below 5 % of the *mean*, which says nothing of the quantile's error. Samples are thinned until
//!   5,000 of them pass a runs test (lags 4 and 3). Each statistic drops 5,000 samples and
//!   calibrates on 5,000 more; for caps, one a second, that alone is 10,000 s.
//!
//! Here, responses and caps are gathered by epoch and judged by [`crate::confidence`], which also
//! sees that requests under one cap depend on each other. Watts and joules are modelled.
//!
//! * `server.rs`: one server between two epochs, without an event queue.
//! * `budget.rs`: who gets how much, and how fast that is.
//! * `sampler.rs`: random times.
//! * `world.rs`: epochs, statistics, books.

mod budget;
#[cfg(test)]
mod oracle;
mod sampler;
mod server;
mod world;

pub use budget::{Budget, Rule};
pub use sampler::Sampler;
pub use world::{run, Outcome};

use halfwink_engine::{Imbalance, Interrupted};
use halfwink_units::Time;

use halfwink_engine::Cdf;

/// Servers, what comes to them, and their cap.
#[derive(Clone, Debug)]
pub struct Capping {
    /// Number of servers.
    pub servers: usize,
    /// Number of cores of each server.
    pub cores: usize,
    /// Time between requests to a server.
    pub gaps: Sampler,
    /// Time that a request takes at full speed.
    pub sizes: Sampler,
    /// Time between two looks at the cap, and the interval of all statistics.
    pub epoch: Time,
    /// Power of a server without work, in watts.
    pub idle_w: f64,
    /// Additional power of a server when all cores work, in watts.
    pub dynamic_w: f64,
    /// Cap on the power; `None` runs all servers at full speed.
    pub budget: Option<Budget>,
}

/// Load to which `BigHouse`'s experiments scale arrivals.
const LOAD: f64 = 0.5;
/// Cores of its servers.
const CORES: usize = 4;

impl Capping {
    /// `BigHouse`'s `PowerCappingExperiment`, with distributions in milliseconds.
    #[must_use]
    pub fn bighouse(gaps: &Cdf, sizes: &Cdf, servers: usize, rule: Rule) -> Capping {
        let scale = gaps.bighouse_scale(sizes, CORES as u32, LOAD);
        Capping {
            servers,
            cores: CORES,
            gaps: Sampler::empirical(gaps, 1e-3 * scale),
            sizes: Sampler::empirical(sizes, 1e-3),
            epoch: Time::ns(1_000_000_000),
            idle_w: 51.4,
            dynamic_w: 41.6,
            budget: Some(Budget::bighouse(rule)),
        }
    }
}

/// Condition that ends a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Half width over mean that is wanted of the mean and the 0.95 quantile of response and cap.
    pub accuracy: f64,
    /// Confidence of these intervals, between 0 and 1.
    pub confidence: f64,
    /// Epochs left out at the start.
    pub warm_up: u64,
    /// Epochs to play after that, whatever the confidence.
    pub epochs: Option<u64>,
    /// Epochs after which to give up.
    pub most: u64,
}

impl Default for Stop {
    /// 5 % at 95 %, as `BigHouse`, after 100 epochs.
    fn default() -> Stop {
        Stop { accuracy: 0.05, confidence: 0.95, warm_up: 100, epochs: None, most: 1_000_000 }
    }
}

/// Reason why a simulation fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CappingError {
    /// A setting is out of range.
    #[error("{name}: expected {expected}, found {found}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Values that are allowed.
        expected: &'static str,
        /// Value that was found.
        found: f64,
    },
    /// Queues grow without limit.
    #[error(
        "{waiting} requests wait at {servers} servers after {seconds} s: more come than are served"
    )]
    Overload {
        /// Number of requests in queues.
        waiting: usize,
        /// Number of servers.
        servers: usize,
        /// Simulated time, in seconds.
        seconds: f64,
    },
    /// The run was stopped from outside.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The books do not balance: a mistake in this crate.
    #[error(transparent)]
    Books(#[from] Imbalance),
}
