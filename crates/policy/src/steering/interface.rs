//! Events and actions of a pair of machines or a fleet, between a world and its policy.

use alloc::boxed::Box;

use halfwink_units::Time;

use crate::{Host, Log, Policy};

/// A policy for one pair of machines.
pub trait Steering: Policy<Event = Event, Action = Action> + Send {}

impl<S: Steering + ?Sized> Steering for Box<S> {}

impl<S: Steering, L: Log<Event, Action> + Send> Steering for Host<S, L> {}

/// A boxed steering policy.
pub type SteeringPolicy = Box<dyn Steering>;

/// A machine of the ordered set that a policy decides for. A pair has names for its two places;
/// other sets count theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Side {
    /// The small one of a pair: slow, drawing little.
    Small,
    /// The big one of a pair: fast, drawing much.
    Big,
    /// The machine at this place of a set that is no pair, from 0.
    Place(u8),
}

impl Side {
    /// Both machines of a pair, the small one first.
    pub const BOTH: [Side; 2] = [Side::Small, Side::Big];

    /// Returns the place of the machine in its set, from 0.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Side::Small => 0,
            Side::Big => 1,
            Side::Place(place) => place as usize,
        }
    }

    /// Returns the place of a machine of a pair, 0 or 1, without a check of its bounds.
    #[inline]
    #[must_use]
    pub const fn index_in_pair(self) -> usize {
        debug_assert!(self.index() < 2, "no machine of a pair");
        !matches!(self, Side::Small | Side::Place(0)) as usize
    }

    /// Returns the other machine of a pair.
    #[inline]
    #[must_use]
    pub fn other(self) -> Side {
        debug_assert!(self.index() < 2, "{self:?} is no machine of a pair");
        if self == Side::Small {
            Side::Big
        } else {
            Side::Small
        }
    }
}

/// Levels of sleep that a machine has at most.
pub const LEVELS: usize = 4;

/// Names of the levels of sleep in ledgers and metrics, the first level first.
pub const ASLEEP: [&str; LEVELS] = ["asleep", "asleep-2", "asleep-3", "asleep-4"];

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

impl Event {
    /// Returns the machine that this happened to; none for a request that came.
    #[inline]
    #[must_use]
    pub fn side(&self) -> Option<Side> {
        match *self {
            Event::Arrive => None,
            Event::Finish { side, .. }
            | Event::Awake { side }
            | Event::Asleep { side }
            | Event::Lost { side }
            | Event::Back { side } => Some(side),
        }
    }
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
    /// The machine goes down now; one that sleeps, to its next deeper level of sleep, if it has
    /// one: it is [`Event::Asleep`] again once it is there. What it has in service stands still
    /// until it is awake again: a policy that wants it drained first waits for the last
    /// [`Event::Finish`].
    Sleep {
        /// Machine to send to sleep.
        side: Side,
    },
}
