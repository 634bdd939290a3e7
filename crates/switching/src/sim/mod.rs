//! A program on cores that switch: discrete events in total order.

mod calls;
mod core;
mod program;
pub(crate) mod random;
mod result;
mod sleep;
mod slices;
mod supply;
mod world;

use halfwink_engine::{Imbalance, Interrupted, RunControl};
use halfwink_policy::offload::OffloadPolicy;
use halfwink_policy::StuckTimer;
use halfwink_units::Time;

use crate::model::{Model, ModelError};
use crate::profile::Workload;
pub use result::{CallCount, CoreResult, Run};
pub use sleep::SleepPolicy;

/// Which kernel runs: what it moves, and where interrupts go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The stock kernel.
    Unmod,
    /// Interrupts on an OS core, threads on application cores, no switching.
    Bound,
    /// A kernel that moves calls by this version of the mechanism.
    Switching(String),
}

impl Kernel {
    /// `unmod`, `bound`, or the name of a version.
    #[must_use]
    pub fn named(name: &str) -> Kernel {
        match name {
            "unmod" => Kernel::Unmod,
            "bound" => Kernel::Bound,
            version => Kernel::Switching(version.to_owned()),
        }
    }
}

/// Reason why a run fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The run names an unknown part of the model.
    Model(ModelError),
    /// The ledger does not balance: an error in this crate.
    Books(Imbalance),
    /// A policy's timer rings for ever.
    StuckTimer(StuckTimer),
    /// The run was asked to stop.
    Interrupted(Interrupted),
}

/// Policies of one core.
pub struct CorePolicies {
    /// Which of the calls made on it move.
    pub offload: OffloadPolicy,
    /// Decides whether the core powers down when idle.
    pub sleep: SleepPolicy,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Model(error) => error.fmt(f),
            RunError::Books(error) => error.fmt(f),
            RunError::StuckTimer(error) => error.fmt(f),
            RunError::Interrupted(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

impl From<ModelError> for RunError {
    fn from(error: ModelError) -> RunError {
        RunError::Model(error)
    }
}

impl From<StuckTimer> for RunError {
    fn from(error: StuckTimer) -> RunError {
        RunError::StuckTimer(error)
    }
}

impl From<Interrupted> for RunError {
    fn from(error: Interrupted) -> RunError {
        RunError::Interrupted(error)
    }
}

/// A span of nanoseconds; nothing in a run takes longer than the longest run, and sums of such
/// spans stay far from the end of time.
fn span(ns: f64) -> Time {
    Time::from_ns(ns.min(1e12))
}

/// Runs a workload on a configuration with a kernel. The same seed gives the same run.
///
/// # Errors
/// If the configuration or the version is not there, or a switching kernel has no OS core.
pub fn run(
    model: &Model,
    workload: &Workload,
    configuration: &str,
    kernel: &Kernel,
    seed: u64,
) -> Result<Run, RunError> {
    let policies = policies(model, workload, configuration, kernel)?;
    run_with(model, workload, configuration, kernel, seed, policies, &RunControl::new())
}

/// Runs with policies such as [`policies`] makes, so that a caller can log them, until it ends or
/// is asked to stop.
///
/// # Errors
/// See [`run`].
pub fn run_with(
    model: &Model,
    workload: &Workload,
    configuration: &str,
    kernel: &Kernel,
    seed: u64,
    policies: Vec<CorePolicies>,
    control: &RunControl,
) -> Result<Run, RunError> {
    let mut world = world::World::new(model, workload, configuration, kernel, seed, policies)?;
    world.play(control)?;
    world.result().map_err(RunError::Books)
}

/// Fresh policies of all cores, application cores first.
///
/// # Errors
/// If there is no such configuration.
pub fn policies(
    model: &Model,
    workload: &Workload,
    configuration: &str,
    kernel: &Kernel,
) -> Result<Vec<CorePolicies>, ModelError> {
    world::policies(model, workload, configuration, kernel)
}
