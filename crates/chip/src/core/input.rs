//! What a core is made of.

use halfwink_policy::gating::{AlwaysOn, GatingPolicy};
use halfwink_units::Time;

use super::thread::Thread;
use crate::chip::Options;
use crate::gate_spec::GateSpec;
use crate::machine::Machine;
use crate::segregated::Segregated;
use crate::timeline::Timeline;

/// Inputs from which a core is built, besides the machine.
pub(crate) struct CoreInput<'a> {
    /// `None`: a core that waits for threads of others.
    pub(crate) thread: Option<Thread>,
    /// Whether its threads may go to other cores.
    pub(crate) shares: bool,
    pub(crate) policies: Policies,
    /// Policy of its second level.
    pub(crate) segregated: Option<&'a Segregated<'a>>,
    /// Inputs of the followers.
    pub(crate) followers: Vec<FollowerInput>,
    pub(crate) start: Time,
    pub(crate) timeline: Option<Timeline>,
}

/// The gating policies of a core.
pub(crate) struct Policies {
    pub(crate) core: GatingPolicy,
    /// Policies of its units, where these are gated and the core is not.
    pub(crate) units: Vec<GatingPolicy>,
}

impl Policies {
    pub(crate) fn of(machine: &Machine, options: &Options<'_>, core: usize) -> Policies {
        let units = machine.unit_domains().len();
        if units == 0 {
            return Policies { core: (options.policy)(core), units: Vec::new() };
        }
        let unit = |n: usize| (options.policy)(core * units + n);
        Policies { core: Box::new(AlwaysOn), units: (0..units).map(unit).collect() }
    }
}

/// A follower's policy of one core, with what sleeping costs.
pub(crate) struct FollowerInput {
    pub(crate) policy: GatingPolicy,
    pub(crate) spec: GateSpec,
}
