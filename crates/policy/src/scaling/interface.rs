//! Events and actions of a router, between its poll loops and a policy.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use halfwink_units::Time;

use super::ENTRIES;
use crate::{below, Host, Log, Policy};

/// A policy for all cores of a router.
pub trait Scaling: Policy<Event = Event, Action = Action> + Send {
    /// Returns whether it needs [`Event::Poll`] of this core; otherwise a world may omit it.
    fn hears_polls(&self, _core: u8) -> bool {
        false
    }

    /// Returns its answer to every [`Event::Empty`], if that never changes and it requests nothing
    /// else. A world may then omit these events.
    fn always_rests(&self) -> Option<Rest> {
        None
    }

    /// Returns whether it requests only rests, without timers, and those of a core depend on that
    /// core's events alone. A world may then play one core ahead of another: time is in order for
    /// each core, not between cores.
    fn is_apart(&self) -> bool {
        false
    }
}

impl<S: Scaling + ?Sized> Scaling for Box<S> {
    fn hears_polls(&self, core: u8) -> bool {
        (**self).hears_polls(core)
    }

    fn always_rests(&self) -> Option<Rest> {
        (**self).always_rests()
    }

    fn is_apart(&self) -> bool {
        (**self).is_apart()
    }
}

/// Events that a policy does not need are not in its log either: a logged run takes the same
/// shortcuts as one without a log. Only its cores are not played apart, so that its log is in the
/// order of time.
impl<S: Scaling, L: Log<Event, Action> + Send> Scaling for Host<S, L> {
    fn hears_polls(&self, core: u8) -> bool {
        self.policy().hears_polls(core)
    }

    fn always_rests(&self) -> Option<Rest> {
        self.policy().always_rests()
    }

    fn is_apart(&self) -> bool {
        self.policy().is_apart() && !self.is_ordered()
    }
}

/// A boxed scaling policy.
pub type ScalingPolicy = Box<dyn Scaling>;

/// Events from the poll loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// A core takes a batch from its receive queue, and looks at it before or after. Told of empty
    /// queues, too.
    Poll {
        /// Number of the core.
        core: u8,
        /// Packets that it takes.
        taken: u32,
        /// Packets that wait there when it looks.
        waiting: u32,
    },
    /// A core found nothing and asks how to rest.
    Empty {
        /// Number of the core.
        core: u8,
    },
}

/// Actions that a scaling policy requests of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// The core takes part: when it has nothing to do it rests as asked.
    Wake {
        /// Number of the core.
        core: u8,
    },
    /// The core gets nothing any more: it drains its queue, then sleeps as deep as it can.
    Park {
        /// Number of the core.
        core: u8,
    },
    /// All cores run at this P-state; zero is the slowest. They share one rail.
    SetStep {
        /// Number of the P-state.
        step: u8,
    },
    /// A core would run at this P-state; zero is the slowest. Where cores share a rail it follows
    /// the most demanding one that takes part.
    Wish {
        /// Number of the core.
        core: u8,
        /// Number of the P-state.
        step: u8,
    },
    /// An entry of the redirect table names another queue.
    Move {
        /// Which, as the hash's lowest bits number them.
        entry: u8,
        /// The core of the queue.
        to: u8,
        /// Serves packets that arrive there only once the old queue is drained to this point.
        in_order: bool,
    },
    /// Lets a core rest, in answer to [`Event::Empty`].
    Rest {
        /// Number of the core.
        core: u8,
        /// Kind and depth of the rest.
        rest: Rest,
    },
}

impl Action {
    /// Checks that a router of so many cores and P-states can follow.
    ///
    /// # Errors
    /// The value found and the values allowed.
    pub fn check(&self, cores: u8, steps: u8) -> Result<(), String> {
        let core = |core: u8| below("core", core.into(), cores.into());
        let step = |step: u8| below("P-state", step.into(), steps.into());
        match *self {
            Action::Wake { core: n } | Action::Park { core: n } => core(n),
            Action::SetStep { step: n } => step(n),
            Action::Wish { core: n, step: m } => core(n).and_then(|()| step(m)),
            Action::Move { entry, to, .. } => {
                below("entry", entry.into(), ENTRIES).and_then(|()| core(to))
            }
            Action::Rest { core: n, rest } => match rest {
                Rest::Pause { span } | Rest::HaltFor { span, .. } | Rest::Sleep { span, .. }
                    if span < SHORTEST =>
                {
                    Err(format!("requested a rest of {span}, expected {SHORTEST} at least"))
                }
                _ => core(n),
            },
        }
    }
}

/// Shortest rest that can be requested: time has to move on.
const SHORTEST: Time = Time(1);

/// Way in which a core without packets waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Rest {
    /// Asks its queue again and again.
    Spin,
    /// Asks its queue so many times more; if none finds anything, [`Event::Empty`] is told at the
    /// last of them.
    Again {
        /// Number of polls, 1 at least.
        polls: u32,
    },
    /// Stays awake in a delay loop for a time, deaf to its queue.
    Pause {
        /// Length of the pause.
        #[cfg_attr(feature = "serde", serde(rename = "span_ps"))]
        span: Time,
    },
    /// Goes into this state at once, until its queue interrupts it.
    Halt(Depth),
    /// Goes into this state at once, until its queue interrupts it or so much time is over.
    HaltFor {
        /// Longest duration of the sleep.
        #[cfg_attr(feature = "serde", serde(rename = "span_ps"))]
        span: Time,
        /// Depth of the idle state.
        depth: Depth,
    },
    /// Halts in C1 and is promoted to this state after a while, until its queue interrupts it.
    Nap(Depth),
    /// Sleeps for a time, deaf to its queue.
    Sleep {
        /// Length of the sleep.
        #[cfg_attr(feature = "serde", serde(rename = "span_ps"))]
        span: Time,
        /// Depth of the idle state.
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
    /// The clock is off.
    C1,
    /// Private caches off, too. Entered from C1 after a while.
    C3,
    /// Core off. Entered from C1 after a while.
    C6,
}
