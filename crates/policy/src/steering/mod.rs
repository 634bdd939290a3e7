//! Which machine of an ordered set serves a request, and which of them sleep. One policy object
//! decides for one set; most policies for a pair, a small machine and a big one (Niccolini 2012,
//! ch. 3).
//!
//! ```text
//!   Arrive ──▶ Send(machine)     ──▶ queue ──▶ workers ──▶ Finish
//!                                      machine: on ─Sleep▶ going down ▶ asleep
//!                                               ▲────── waking ◀─Wake─────┘
//! ```
//!
//! All machines are on at the start; what a policy wants asleep then, it asks for before the first
//! event. A machine that sleeps keeps what was sent to it: that waits, or stands still, until it is
//! awake again. Nobody wakes a machine but the policy.

mod dream_weaver;
mod fixed;
mod hal;
mod interface;
mod knight_shift;
mod machines;
mod octopus_man;
mod pair;
mod progressive;
mod progressive_backup;
mod queue;
mod rest;
mod shortest;
mod sleep_timer;
mod split;
mod threshold;

pub use dream_weaver::{DreamWeaver, DreamWeaverParameters};
pub use fixed::{Always, AlwaysOn};
pub use hal::{Hal, HalParameters};
pub use interface::{Action, Event, Side, Steering, SteeringPolicy, ASLEEP, LEVELS};
pub use knight_shift::{KnightShift, KnightShiftParameters};
pub use octopus_man::{OctopusMan, OctopusManParameters};
pub use progressive::{Member, Progressive, ProgressiveParameters};
pub use progressive_backup::{ProgressiveBackup, ProgressiveBackupParameters};
pub use rest::{Budget, Rest};
pub use shortest::{Server, Shortest, ShortestParameters};
pub use sleep_timer::{LevelCost, SleepTimer, SleepTimerParameters};
pub use split::{Split, SplitParameters};
pub use threshold::{Count, Threshold, ThresholdParameters};
