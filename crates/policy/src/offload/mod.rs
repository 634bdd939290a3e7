//! Which kernel entries move to another core: the decisions of operating-system offload (Nellans
//! 2014, ch. 4; Mogul 2007).
//!
//! One policy object decides for one user core. The world tells it each change from user to kernel
//! mode with what a processor sees at that moment, and each return with the number of instructions
//! in between; it answers every entry with one [`Action`]. Nested interrupts lengthen the
//! invocation that they arrive in (Nellans 2014, Sec 4.6.2), so the world does not tell of them.
//!
//! ```text
//!            Enter                            Exit { instructions }
//!  USER ─────────────▶ decide ─▶ kernel runs ─────────────────────▶ USER
//!                        │            │                learns
//!                        ▼            ▼
//!              Action { place,    here, or on the OS core; moving there
//!              decision_cycles }  and back is the world's to charge
//! ```

mod astate;
mod delegation;
mod fixed;
mod interface;
mod like_os;
mod per_call;
mod predicted;
mod predictor;
mod table;
mod threshold;

pub use astate::Registers;
pub use delegation::{Delegation, DelegationKind, DelegationParameters};
pub use fixed::Fixed;
use interface::Pending;
pub use interface::{
    Action, Cause, Event, KernelEntry, Offload, OffloadPolicy, Place, HARDWARE_CYCLES,
    SOFTWARE_CYCLES, STATIC_CHECK_CYCLES,
};
pub use like_os::{LikeOs, LikeOsParameters};
pub use per_call::{CallProfile, CallRule, PerCall, Work, ENOUGH_WORK_BYTES};
pub use predicted::{Predicted, PredictedParameters};
pub use predictor::{Parameters, Prediction, Predictor, Source};
pub use table::Organisation;
pub use threshold::{
    Counts, Feedback, FeedbackParameters, Margin, Sample, Threshold, Traits, GRID_INSTRUCTIONS,
};
