//! Every kernel entry in the same place: what all other policies are compared with.

use alloc::vec::Vec;

use halfwink_units::Time;

use super::{Action, Event, Offload, Pending, Place};
use crate::{Policy, Snapshot};

/// Never or always moves; there is nothing to decide, so it costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    place: Place,
    pending: Pending,
}

impl Fixed {
    /// A core without help: everything runs where it began.
    #[must_use]
    pub fn never() -> Fixed {
        Fixed { place: Place::Here, pending: None }
    }

    /// A core that runs user code alone.
    #[must_use]
    pub fn always() -> Fixed {
        Fixed { place: Place::OsCore, pending: None }
    }
}

impl Policy for Fixed {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        if let Event::Enter(_) = event {
            self.pending = Some(Action { place: self.place, decision_cycles: 0 });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        Vec::new()
    }
}

impl Offload for Fixed {}
