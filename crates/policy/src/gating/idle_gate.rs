//! Gates only while the operating system has halted the core: what a deep C-state does.
//!
//! Beside the memory-access policies it shows how much of their saving is there without them.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// Gates halted cores, wakes them at the interrupt.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdleGate {
    gated: bool,
    pending: Pending,
}

impl IdleGate {
    /// A policy for one core.
    #[must_use]
    pub fn new() -> IdleGate {
        IdleGate::default()
    }
}

impl Policy for IdleGate {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match event {
            Event::IdleBegin => {
                self.gated = true;
                self.pending = Some(Action::Gate);
            }
            Event::IdleEnd { .. } if self.gated => {
                self.gated = false;
                self.pending = Some(Action::Wake);
            }
            _ => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("gated", self.gated.into())]
    }
}

impl Gating for IdleGate {}
