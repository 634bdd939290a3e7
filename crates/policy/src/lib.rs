//! Every decision about when to sleep and where to run, as a pure state machine.
//!
//! ```text
//!              events, with their time
//!   world  ───────────────────────────▶  policy
//!          ◀───────────────────────────
//!              actions, next timer
//! ```
//!
//! A [`Policy`] has no clock, no I/O, no randomness of its own and no threads, and allocates
//! nothing after construction. So the same object runs in a simulation and in a live program, and a
//! recorded event log, replayed, gives the same actions.
//!
//! To add one: a file beside its family, a line in the registry of `halfwink-study`, a snapshot
//! test of its decisions, a docs page.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod circuits;
pub mod completion;
pub mod gating;
mod host;
mod log;
pub mod offload;
pub mod preheat;
pub mod record;
mod replay;
pub mod scaling;
pub mod segregation;
pub mod steering;
pub mod switching;
pub mod wake_up;

pub use host::{drive, Decision, Host, StuckTimer};
pub use log::{Input, Line, Lines, Log, NoLog};
pub use replay::{replay, Difference, Replay, Summary};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use halfwink_units::Time;

/// A decision maker.
///
/// The world calls [`Policy::on_event`] and [`Policy::on_timer`] in the order of time, and after
/// each call takes all actions with [`Policy::poll_action`], then asks for the next timer.
pub trait Policy {
    /// Events that the world delivers.
    type Event;
    /// Actions that the policy requests.
    type Action;

    /// Handles an event at `now`.
    fn on_event(&mut self, now: Time, event: &Self::Event);

    /// Handles an event at `now`, and hands every action that follows to `act`.
    ///
    /// A boxed policy is called once for both, in place of once for the event and once for each
    /// action and for their end: half the time of an idle governor's decision.
    fn deliver(&mut self, now: Time, event: &Self::Event, act: &mut dyn FnMut(Self::Action)) {
        self.on_event(now, event);
        while let Some(action) = self.poll_action() {
            act(action);
        }
    }

    /// The time that [`Policy::next_timer`] named has come.
    fn on_timer(&mut self, _now: Time) {}

    /// Returns the deadline of its timer; `None` if it is off, as for a policy without timers. It
    /// is asked again after every call.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// The next action that the policy asks for.
    fn poll_action(&mut self) -> Option<Self::Action>;

    /// The state that decisions depend on, for logs and live views: names and numbers.
    fn snapshot(&self) -> Snapshot;
}

/// Checks a number that a world uses as a place in a list.
///
/// # Errors
/// The number, and how many there are.
pub fn below(what: &str, found: usize, count: usize) -> Result<(), String> {
    if found < count {
        return Ok(());
    }
    Err(format!("named the {what} {found}, expected one below {count}"))
}

/// Names and values of a policy's state.
pub type Snapshot = Vec<(&'static str, i64)>;

macro_rules! forward_policy {
    ($($to:ty),*) => {$(
        impl<P: Policy + ?Sized> Policy for $to {
            type Event = P::Event;
            type Action = P::Action;

            fn on_event(&mut self, now: Time, event: &Self::Event) {
                (**self).on_event(now, event);
            }

            fn deliver(
                &mut self,
                now: Time,
                event: &Self::Event,
                act: &mut dyn FnMut(Self::Action),
            ) {
                (**self).deliver(now, event, act);
            }

            fn on_timer(&mut self, now: Time) {
                (**self).on_timer(now);
            }

            fn next_timer(&self) -> Option<Time> {
                (**self).next_timer()
            }

            fn poll_action(&mut self) -> Option<Self::Action> {
                (**self).poll_action()
            }

            fn snapshot(&self) -> Snapshot {
                (**self).snapshot()
            }
        }
    )*};
}

forward_policy!(alloc::boxed::Box<P>, &mut P);
