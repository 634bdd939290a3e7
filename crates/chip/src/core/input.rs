//! What a core is made of.

use halfwink_policy::gating::GatingPolicy;
use halfwink_units::Time;

use super::thread::Thread;
use crate::gate_spec::GateSpec;
use crate::segregated::Segregated;
use crate::timeline::Timeline;

/// Inputs from which a core is built, besides the machine.
pub(crate) struct CoreInput<'a> {
    /// `None`: a core that waits for threads of others.
    pub(crate) thread: Option<Thread>,
    /// Whether its threads may go to other cores.
    pub(crate) shares: bool,
    pub(crate) policy: GatingPolicy,
    /// Policy of its second level.
    pub(crate) segregated: Option<&'a Segregated<'a>>,
    /// Inputs of the followers.
    pub(crate) followers: Vec<FollowerInput>,
    pub(crate) start: Time,
    pub(crate) timeline: Option<Timeline>,
}

/// A follower's policy of one core, with what sleeping costs.
pub(crate) struct FollowerInput {
    pub(crate) policy: GatingPolicy,
    pub(crate) spec: GateSpec,
}
