//! Reasons why a run of flows ends early.

use halfwink_engine::{Imbalance, Interrupted};
use halfwink_units::Time;

/// Reason why a run ends early.
#[derive(Debug, thiserror::Error)]
pub enum FlowsError {
    /// The run was stopped from outside.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The ledger does not balance.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// An invariant of the run was violated.
    #[error("{0}: a mistake of halfwink")]
    Broken(RacksBroken),
    /// A flow is between servers that are not there, or of no bytes.
    #[error("flow {flow}: {message}")]
    Flow {
        /// Number of the flow.
        flow: u32,
        /// Message with the value found and the values allowed.
        message: String,
    },
    /// The policy asked for something that cannot be.
    #[error("plane {plane}, slot {slot}: {message}")]
    Schedule {
        /// Number of the plane.
        plane: u8,
        /// Number of the slot.
        slot: u32,
        /// Message in one line.
        message: String,
    },
}

/// A violated invariant, which holds under any faults: an error of this crate.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RacksBroken {
    /// Bytes of flows that began neither arrived nor are on their way.
    #[error("{0} bytes were sent, {1} arrived or are on their way")]
    Unbalanced(f64, f64),
    /// A flow ended before its server could have sent it.
    #[error("flow {0} took {1}, its server needs {2} to send it")]
    TooFast(u32, Time, Time),
    /// A piece is on a circuit that is not up.
    #[error("flow {0} is sent on plane {1} by rack {2}, which has no circuit there")]
    Dark(u32, u8, u16),
    /// No event will ever come, although flows have all the resources that they need.
    #[error("flow {0} can be sent and is not, for ever")]
    Stranded(u32),
}

impl From<RacksBroken> for FlowsError {
    fn from(broken: RacksBroken) -> FlowsError {
        FlowsError::Broken(broken)
    }
}
