//! Events and actions of block I/Os that end, between a world and its policy.

use alloc::boxed::Box;
use alloc::string::String;

use halfwink_units::Time;

use super::completing::Resting;
use crate::scaling::Rest;
use crate::{below, Host, Log, Policy};

/// A policy for all completions of a device.
pub trait Completion: Policy<Event = Event, Action = Action> + Send {
    /// Returns the CPU that the device's completions are signalled to.
    fn hears(&self) -> Hears {
        Hears::One
    }

    /// Returns the queues between issuers and device.
    fn queues(&self) -> Queues {
        Queues::One
    }

    /// Returns the interval at which it needs [`Event::Used`] of every CPU; `None` if it does not.
    fn period(&self) -> Option<Time> {
        None
    }

    /// Returns whether it needs [`Event::Poll`]; otherwise a world may omit it.
    fn hears_polls(&self) -> bool {
        false
    }
}

impl<C: Completion + ?Sized> Completion for Box<C> {
    fn hears(&self) -> Hears {
        (**self).hears()
    }

    fn queues(&self) -> Queues {
        (**self).queues()
    }

    fn period(&self) -> Option<Time> {
        (**self).period()
    }

    fn hears_polls(&self) -> bool {
        (**self).hears_polls()
    }
}

impl<C: Completion, L: Log<Event, Action> + Send> Completion for Host<C, L> {
    fn hears(&self) -> Hears {
        self.policy().hears()
    }

    fn queues(&self) -> Queues {
        self.policy().queues()
    }

    fn period(&self) -> Option<Time> {
        self.policy().period()
    }

    fn hears_polls(&self) -> bool {
        self.policy().hears_polls()
    }
}

/// A boxed completion policy.
pub type CompletionPolicy = Box<dyn Completion>;

/// CPU that the device's completions are signalled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// One CPU takes all interrupts of the device.
    One,
    /// The CPU that issued is interrupted (MSI-X).
    Issuer,
    /// No interrupts: who issued asks its queue.
    Polled,
}

/// Request queues between those who issue and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// One for the device.
    One,
    /// One for each CPU.
    EachCpu,
}

/// An I/O of which the device is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Done {
    /// Tag of the I/O: no other one in flight has it.
    pub io: u32,
    /// The CPU that issued it.
    pub issuer: u16,
    /// The CPU that hears of it.
    pub heard: u16,
    /// I/Os of which that CPU will hear next: the device is done with them, too.
    pub waiting: u32,
    /// Since it was issued.
    #[cfg_attr(feature = "serde", serde(rename = "took_ps"))]
    pub took: Time,
}

/// Events for a completion policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// The first phase took note of an I/O: where is the second?
    Done(Done),
    /// A CPU was busy for so much of the time since this was last told. `of` is not zero.
    Used {
        /// Number of the CPU.
        cpu: u16,
        /// Time that it was busy, in any unit.
        busy: u32,
        /// All time, in the same.
        of: u32,
    },
    /// A CPU that completes takes what was given to it, and looks at it before or after. Told of
    /// none, too.
    Poll {
        /// Number of the CPU.
        cpu: u16,
        /// I/Os that it takes.
        taken: u32,
        /// I/Os that wait there when it looks.
        waiting: u32,
    },
    /// A CPU that completes found nothing and asks how to rest.
    Empty {
        /// Number of the CPU.
        cpu: u16,
    },
}

/// Actions of a completion policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// Answer to [`Event::Done`]: who hears completes it, at once.
    Here {
        /// Tag of the I/O.
        io: u32,
    },
    /// Answer to [`Event::Done`]: it is put into the deferred queue, and this CPU is interrupted to
    /// complete it, even if that is the one that hears.
    Give {
        /// Tag of the I/O.
        io: u32,
        /// CPU that completes it.
        cpu: u16,
    },
    /// Lets a CPU rest, in answer to [`Event::Empty`].
    Rest {
        /// Number of the CPU.
        cpu: u16,
        /// Kind and depth of the rest.
        rest: Rest,
    },
}

impl Event {
    /// Returns whether an action answers this question; false of events that are none.
    #[must_use]
    pub fn is_answered_by(&self, action: &Action) -> bool {
        match (self, *action) {
            (Event::Done(done), Action::Here { io } | Action::Give { io, .. }) => done.io == io,
            (&Event::Empty { cpu: asked }, Action::Rest { cpu, .. }) => asked == cpu,
            _ => false,
        }
    }
}

impl Action {
    /// Checks that a machine of so many CPUs can follow.
    ///
    /// # Errors
    /// The value found and the values allowed.
    pub fn check(&self, cpus: u16) -> Result<(), String> {
        match *self {
            Action::Here { .. } => Ok(()),
            Action::Give { cpu, .. } | Action::Rest { cpu, .. } => {
                below("CPU", cpu.into(), cpus.into())
            }
        }
    }
}

/// Place of the second phase of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On the CPU that hears.
    Here,
    /// On this CPU.
    On(u16),
}

/// Places second phases. A policy is one with a way to rest: [`Completing`].
pub trait Mapping: Clone + Send {
    /// Returns the place where this I/O is completed.
    fn place(&mut self, done: &Done) -> Where;

    /// A CPU was busy for so many thousandths of a [`period`](Mapping::period).
    fn used(&mut self, _cpu: u16, _permille: u32) {}

    /// Returns the interval at which it needs the use of CPUs.
    fn period(&self) -> Option<Time> {
        None
    }

    /// Returns the CPU that completions are signalled to.
    fn hears(&self) -> Hears {
        Hears::One
    }

    /// Returns the queues above the device.
    fn queues(&self) -> Queues {
        Queues::One
    }

    /// Returns the way in which a CPU rests if no other policy decides it.
    fn rests(&self) -> Resting {
        Resting::Interrupt
    }

    /// The state that decisions depend on.
    fn snapshot(&self) -> crate::Snapshot {
        crate::Snapshot::new()
    }
}
