//! All cores at one frequency, for ever: the two stacks that PowerSave is compared with.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Depth, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// Click as it comes: every core asks its queue again and again (Niccolini 2012, Sec 4.2).
#[derive(Clone, Debug, Default)]
pub struct Polling(Still);

/// NAPI-Click: an interrupt starts polling, an empty queue ends it (Niccolini 2012, Sec 4.2).
#[derive(Clone, Debug)]
pub struct Napi {
    depth: Depth,
    still: Still,
}

/// Policy that decides only how to rest.
#[derive(Clone, Debug, Default)]
struct Still {
    pending: Option<Action>,
}

impl Still {
    fn answer(&mut self, event: &Event, rest: Rest) {
        if let Event::Empty { core } = *event {
            self.pending = Some(Action::Rest { core, rest });
        }
    }
}

impl Polling {
    /// Creates a policy that never rests.
    #[must_use]
    pub fn new() -> Polling {
        Polling::default()
    }
}

impl Napi {
    /// Rests in this state between bursts; the published one in C1 (assumption: it does not say).
    #[must_use]
    pub fn new(depth: Depth) -> Napi {
        Napi { depth, still: Still::default() }
    }
}

impl Policy for Polling {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        self.0.answer(event, Rest::Spin);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.0.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl Policy for Napi {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        self.still.answer(event, Rest::Nap(self.depth));
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.still.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl Scaling for Polling {
    fn always_rests(&self) -> Option<Rest> {
        Some(Rest::Spin)
    }

    fn is_apart(&self) -> bool {
        true
    }
}

impl Scaling for Napi {
    fn always_rests(&self) -> Option<Rest> {
        Some(Rest::Nap(self.depth))
    }

    fn is_apart(&self) -> bool {
        true
    }
}
