//! Puts each halted core into one idle state at once, whatever the stay: what AgileWatts does in
//! place of C1 (Yahya 2022).

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// Enters one state in each halt, leaves it at the interrupt.
#[derive(Clone, Copy, Debug)]
pub struct DeepRest {
    state: u8,
    resting: bool,
    pending: Pending,
}

impl DeepRest {
    /// A policy for one core, whose table has the state at this place.
    #[must_use]
    pub fn new(state: u8) -> DeepRest {
        DeepRest { state, resting: false, pending: None }
    }
}

impl Policy for DeepRest {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match event {
            Event::IdleBegin => {
                self.resting = true;
                self.pending = Some(Action::Rest { state: self.state });
            }
            Event::IdleEnd { .. } if core::mem::take(&mut self.resting) => {
                self.pending = Some(Action::Wake);
            }
            _ => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("resting", self.resting.into())]
    }
}

impl Gating for DeepRest {}
