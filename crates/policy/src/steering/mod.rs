//! Which machine of a hybrid server serves a request, and which of them sleep (Niccolini 2012,
//! ch. 3). One policy object decides for one pair: a small machine and a big one.
//!
//! ```text
//!   Arrive ──▶ Send(Small | Big) ──▶ queue ──▶ workers ──▶ Finish
//!                                      machine: on ─Sleep▶ going down ▶ asleep
//!                                               ▲────── waking ◀─Wake─────┘
//! ```
//!
//! Both machines are on at the start; what a policy wants asleep then, it asks for before the first
//! event. A machine that sleeps keeps what was sent to it: that waits, or stands still, until it is
//! awake again. Nobody wakes a machine but the policy.

mod dream_weaver;
mod fixed;
mod hal;
mod knight_shift;
mod machines;
mod octopus_man;
mod pair;
mod progressive_backup;
mod queue;
mod shortest;
mod sleep_timer;
mod threshold;

use alloc::boxed::Box;

pub use dream_weaver::{DreamWeaver, DreamWeaverParameters};
pub use fixed::{Always, AlwaysOn};
pub use hal::{Hal, HalParameters};
pub use knight_shift::{KnightShift, KnightShiftParameters};
pub use octopus_man::{OctopusMan, OctopusManParameters};
pub use progressive_backup::{ProgressiveBackup, ProgressiveBackupParameters};
pub use shortest::{Server, Shortest, ShortestParameters};
pub use sleep_timer::{SleepTimer, SleepTimerParameters};
pub use threshold::{Count, Threshold, ThresholdParameters};

use halfwink_units::Time;

use crate::{Host, Log, Policy};

/// A policy for one pair of machines.
pub trait Steering: Policy<Event = Event, Action = Action> + Send {}

impl<S: Steering + ?Sized> Steering for Box<S> {}

impl<S: Steering, L: Log<Event, Action> + Send> Steering for Host<S, L> {}

/// A boxed steering policy.
pub type SteeringPolicy = Box<dyn Steering>;

/// One of the two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Side {
    /// The small one: slow, drawing little.
    Small,
    /// The big one: fast, drawing much.
    Big,
}

impl Side {
    /// Both, the small one first.
    pub const BOTH: [Side; 2] = [Side::Small, Side::Big];

    /// Returns the other machine.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Small => Side::Big,
            Side::Big => Side::Small,
        }
    }
}

/// Events from the server to its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// A request came. The answer is one [`Action::Send`], at once.
    Arrive,
    /// A request that was sent to this machine is done there, or was given up.
    Finish {
        /// Machine that served it.
        side: Side,
        /// Time since the request arrived.
        #[cfg_attr(feature = "serde", serde(rename = "latency_ps"))]
        latency: Time,
    },
    /// A machine that was asked to wake serves now.
    Awake {
        /// Machine whose state changed.
        side: Side,
    },
    /// A machine that was asked to sleep sleeps now. Not told if it was asked to wake meanwhile.
    Asleep {
        /// Machine whose state changed.
        side: Side,
    },
    /// A machine cannot be reached, or did not wake in time. What it had finishes, and comes anew.
    Lost {
        /// Machine whose state changed.
        side: Side,
    },
    /// A lost machine is back, and on.
    Back {
        /// Machine whose state changed.
        side: Side,
    },
}

/// Actions that a steering policy requests of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// Answer to [`Event::Arrive`]: this machine serves the request, from now on.
    Send {
        /// Machine that serves it.
        side: Side,
    },
    /// The machine wakes up. If it is going down, it does so after that.
    Wake {
        /// Machine to wake.
        side: Side,
    },
    /// The machine goes down now. What it has in service stands still until it is awake again: a
    /// policy that wants it drained first waits for the last [`Event::Finish`].
    Sleep {
        /// Machine to send to sleep.
        side: Side,
    },
}
