//! Caches are cold when a request comes: the baseline. Who hears nothing does nothing.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Preheat};
use crate::{Policy, Snapshot};

/// Policy without any action.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPreheat;

impl Policy for NoPreheat {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, _event: &Event) {}

    fn poll_action(&mut self) -> Option<Action> {
        None
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl Preheat for NoPreheat {}
