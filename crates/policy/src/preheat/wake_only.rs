//! Wakes the machine before the request comes, and loads nothing (anticipatory wake-up: Zhu 2015).

use alloc::vec;

use halfwink_units::Time;

use super::ahead::Ahead;
use super::{Action, Event, Preheat};
use crate::{Policy, Snapshot};

/// Wakes ahead of announced requests.
#[derive(Clone, Debug)]
pub struct WakeOnly {
    ahead: Ahead,
    is_waking: bool,
    wakes: i64,
}

impl WakeOnly {
    /// Wakes `lead` before a request is due; at once if `None`.
    #[must_use]
    pub fn new(lead: Option<Time>) -> WakeOnly {
        WakeOnly { ahead: Ahead::new(lead.unwrap_or(Time::NEVER)), is_waking: false, wakes: 0 }
    }

    fn wake(&mut self) {
        self.wakes += 1;
        self.is_waking = true;
    }
}

impl Policy for WakeOnly {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        if let Event::Announced { service, due } = *event {
            if self.ahead.announce(now, service, due) {
                self.wake();
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        while self.ahead.take(now).is_some() {
            self.wake();
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.ahead.next()
    }

    fn poll_action(&mut self) -> Option<Action> {
        core::mem::take(&mut self.is_waking).then_some(Action::Wake)
    }

    fn snapshot(&self) -> Snapshot {
        vec![("wakes", self.wakes)]
    }
}

impl Preheat for WakeOnly {}
