//! The baseline: a core that is never gated.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Gating};
use crate::{Policy, Snapshot};

/// Policy that never gates.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysOn;

impl Policy for AlwaysOn {
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

impl Gating for AlwaysOn {}
