//! Knows each stall's start and end; the most that any memory-access gating can save.
//!
//! Strong 2013, Sec 2.4: gates at the start and wakes exactly in time, if and only if the stall is
//! long enough to pay. It never delays anything, so its run is the always-on run with other energy,
//! and it can decide when a stall is over.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Costs, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// Gates every stall and every halt that pays.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    costs: Costs,
    pending: Pending,
}

impl Oracle {
    /// A policy for a core with these costs.
    #[must_use]
    pub fn new(costs: Costs) -> Oracle {
        Oracle { costs, pending: None }
    }
}

impl Policy for Oracle {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        if let Event::StallEnd { began } | Event::IdleEnd { began } = *event {
            if self.costs.pays(began, now) {
                let wake = self.costs.wake_start(now);
                self.pending = Some(Action::Hindsight { gate: began, wake });
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl Gating for Oracle {}
