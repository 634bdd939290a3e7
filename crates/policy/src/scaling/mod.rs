//! How many cores forward packets, at which frequency, and how the others wait (Niccolini 2012,
//! ch. 4). One policy object decides for the whole router: its poll loops tell it what they find in
//! their receive queues.
//!
//! ```text
//!            packets wait                       none waits
//!   poll ──▶ Poll { waiting } ──▶ take a batch   Empty ──▶ Rest: spin, halt, sleep for a time
//!                 │
//!                 └──▶ Wake / Park a core, Move an entry of the redirect table, SetStep
//! ```
//!
//! A queue belongs to one core for ever; what changes is which queue an entry of the receive
//! side's redirect table names.

mod fixed;
mod power_save;
mod queue;
mod table;

use alloc::boxed::Box;

pub use fixed::{Napi, Polling};
pub use power_save::{PowerSave, PowerSaveParameters, Rung};
pub use table::{RedirectTable, ENTRIES};

use halfwink_units::Time;

use crate::Policy;

/// A policy for all cores of a router.
pub trait Scaling: Policy<Event = Event, Action = Action> + Send {
    /// Whether it listens to [`Event::Poll`] of this core. A world may spare itself telling others.
    fn hears_polls(&self, _core: u8) -> bool {
        false
    }

    /// Whether its answer to [`Event::Empty`] is [`Rest::Spin`] for ever, and it moves and parks
    /// nothing. A world may spare itself asking.
    fn always_spins(&self) -> bool {
        false
    }
}

/// Any scaling policy.
pub type ScalingPolicy = Box<dyn Scaling>;

/// What the poll loops tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// A core takes a batch from its receive queue, and looks at it before or after.
    Poll {
        /// The core.
        core: u8,
        /// Packets that wait there.
        waiting: u32,
    },
    /// A core found nothing and asks how to rest.
    Empty {
        /// The core.
        core: u8,
    },
}

/// What a scaling policy can ask of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// The core takes part: when it has nothing to do it rests as asked.
    Wake {
        /// The core.
        core: u8,
    },
    /// The core gets nothing any more: it drains its queue, then sleeps as deep as it can.
    Park {
        /// The core.
        core: u8,
    },
    /// All cores run at this P-state; zero is the slowest. They share one rail.
    SetStep {
        /// The P-state.
        step: u8,
    },
    /// An entry of the redirect table names another queue.
    Move {
        /// The entry.
        entry: u8,
        /// The core of the queue.
        to: u8,
        /// What arrives there may be served only once its old queue is drained to this point.
        in_order: bool,
    },
    /// Answer to [`Event::Empty`].
    Rest {
        /// The core.
        core: u8,
        /// How.
        rest: Rest,
    },
}

/// How a core without packets waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Rest {
    /// Asks its queue again and again.
    Spin,
    /// Goes into this state at once, until its queue interrupts it.
    Halt(Depth),
    /// Halts in C1 and is promoted to this state after a while, until its queue interrupts it.
    Nap(Depth),
    /// Sleeps for a time, deaf to its queue.
    Sleep {
        /// How long.
        span: Time,
        /// How deep.
        depth: Depth,
    },
}

/// C-states of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Depth {
    /// Clock off.
    C1,
    /// Private caches off, too. Entered from C1 after a while.
    C3,
    /// Core off. Entered from C1 after a while.
    C6,
}
