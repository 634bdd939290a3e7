//! What is loaded into cold caches before a request comes (Gottschlag 2016).
//!
//! ```text
//!              Announced, Arrived, Idle, Lost, Dumped, Built, Loaded, Closed
//!   machine  ────────────────────────────────────────────────────────────────▶  policy
//!            ◀────────────────────────────────────────────────────────────────
//!              Wake, Estimate .. Dump, Intersect, Subtract, Load, Hold, Forget
//! ```
//!
//! A machine that slept deeply has cold caches. A network whose arbiter plans every packet tells
//! the receiver what comes before it comes; the policy wakes the machine, and has the lines loaded
//! that such requests were seen to use.
//!
//! **Sets of lines are big and stay in the world**: a policy says what is done with the set of a
//! service, and allocates nothing. What a world makes of its dumps is [`estimate::Estimate`]. A
//! world wakes by itself when a packet comes to a machine that sleeps.

mod ahead;
pub mod announce;
pub mod arbiter;
pub mod churn;
pub mod estimate;
mod interface;
pub mod lines;
mod next_line;
mod no_preheat;
mod preheater;
pub mod regions;
mod replayer;
pub mod rle;
mod service;
pub mod set_file;
mod sham_request;
mod stash;
mod stride;
mod wake_only;

pub use estimate::{Dump, Estimate, WorkingSet};
pub use interface::{Action, Event, Hears, Order, Preheat, PreheatPolicy, Recorded, SetId};
pub use lines::{LineSet, Run};
pub use next_line::NextLine;
pub use no_preheat::NoPreheat;
pub use preheater::{Begin, Late, Ports, Preheater, PreheaterParameters, Sets};
pub use replayer::{Replayer, ReplayerParameters, Trigger};
pub use sham_request::ShamRequest;
pub use stash::Stash;
pub use stride::{Stride, StrideParameters};
pub use wake_only::WakeOnly;
