//! A described server of today, and what a technique decides of it, by slots.

pub mod machine;
mod plan;

use halfwink_policy::gating::GatingPolicy;
use halfwink_policy::scaling::ScalingPolicy;

pub use machine::Machine;
pub use plan::{Announce, Dispatch, Input, Plan};

use crate::{Choice, Slot};

/// An idle policy, and the idle states that it chooses from.
pub enum Idler {
    /// A gating policy: a core that it does not gate rests in one state, a gated one in another.
    Gate {
        /// The policy.
        policy: GatingPolicy,
        /// State of a halted core that is not gated.
        halted: usize,
        /// State of a gated core.
        gated: usize,
        /// States that the policy's `Rest` names by their place here, from the shallowest; both of
        /// the above are among them.
        rests: Vec<usize>,
    },
    /// An idle governor of Linux as the router plays it: one core, whose queue is empty.
    Rest {
        /// The policy.
        policy: ScalingPolicy,
        /// States behind `C1`, `C3` and `C6`.
        depths: [usize; 3],
    },
}

impl Idler {
    /// Creates a gating policy that chooses between two states.
    #[must_use]
    pub fn gate(policy: GatingPolicy, halted: usize, gated: usize) -> Idler {
        Idler::Gate { policy, halted, gated, rests: vec![halted, gated] }
    }
}

/// Makes the idle policy of a core.
pub type MakeIdler<'a> = &'a dyn Fn(usize) -> Idler;

/// A technique of the node.
#[derive(Clone, Copy)]
pub struct NodePart {
    /// Slots that it takes.
    pub slots: &'static [Slot],
    /// States of the machine that it needs, of cores and of packages.
    pub needs: (&'static [&'static str], Option<&'static str>),
    /// The idle policy of a core, if it takes that slot.
    pub idle: Option<fn(&Choice, &Machine) -> Idler>,
    /// What it changes of the other slots.
    pub change: fn(&Choice, &mut Plan),
}
