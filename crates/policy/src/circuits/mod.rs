//! Which circuits an optical switch sets up next, and for how long (Strong 2013, ch. 4), and
//! whether a host may send on the one that it has ([`host`]).
//!
//! ```text
//!             bytes that wait, from whom to whom
//!   hosts ────────────── Demand ──────────────▶ ┌──────────┐
//!   switch ─ Next: its circuits come down ────▶ │ schedule │
//!          ◀─ Join, Join, ..., Day { length } ─ └──────────┘
//! ```
//!
//! A switch may have several planes: each joins an input to one output at a time, and takes its own
//! turns. What was joined since the last `Day` of a plane is its next matching.
//!
//! | policy | knows demand | source |
//! |---|---|---|
//! | [`Turns`] | no | Strong 2013, Sec 4.4.1; RotorNet; Opera |
//! | [`Week`] | plans a week | Strong 2013, Sec 4.1; Solstice |
//! | [`Needed`] | before each day | Strong 2013, ch. 5; Helios, Hedera |
//! | [`Still`] | no | - |

mod asking;
mod assignment;
mod estimate;
pub mod host;
mod interface;
mod needed;
mod slices;
mod still;
mod stochastic;
pub mod sync;
mod turns;
mod week;

pub use assignment::Assignment;
pub use estimate::Estimator;
pub use host::Tokens;
pub use interface::{Action, Circuits, CircuitsPolicy, Event, NOBODY};
pub use needed::{Choose, Needed};
pub use slices::Slicer;
pub use still::Still;
pub use stochastic::{Balancer, ONE};
pub use turns::Turns;
pub use week::{Plan, Week, WeekParameters};
