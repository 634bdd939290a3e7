//! How a chip is run: whose policies it hears.

use halfwink_policy::gating::GatingPolicy;
use halfwink_policy::offload::OffloadPolicy;
use halfwink_policy::wake_up::{Central, WakeUpPolicy};
use halfwink_units::Time;

use crate::segregated::Segregated;

/// Options of a run.
pub struct Options<'a> {
    /// Makes the gating policy of each core; OS cores come behind the others. Where units are gated
    /// in place of cores, it makes that of each unit: the units of a core follow one another.
    pub policy: &'a dyn Fn(usize) -> GatingPolicy,
    /// Makes the policy that decides where kernel entries of a task run. Without one they run where
    /// they are, and the machine needs no OS cores.
    pub offload: Option<&'a dyn Fn(usize) -> OffloadPolicy>,
    /// Policies of the second levels of the cores with work of their own. Without one they are
    /// plain caches.
    pub segregated: Option<Segregated<'a>>,
    /// Cores carry retention cells, which leak a little while they are on.
    pub retention: bool,
    /// Hosts the central wake-up controller of a machine that has one, for who wants to log it.
    pub wake_up: Option<&'a dyn Fn(Central) -> WakeUpPolicy>,
    /// Part of the run whose states are kept for a picture.
    pub timeline: Option<(Time, Time)>,
}

impl<'a> Options<'a> {
    /// Gating by these policies, and nothing else.
    #[must_use]
    pub fn new(policy: &'a dyn Fn(usize) -> GatingPolicy) -> Options<'a> {
        Options {
            policy,
            offload: None,
            segregated: None,
            retention: false,
            wake_up: None,
            timeline: None,
        }
    }
}
