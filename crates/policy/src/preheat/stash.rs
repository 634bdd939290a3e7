//! The network card writes packets into the last-level cache rather than into memory (Intel's Data
//! Direct I/O, Arm's cache stashing): what hardware gives without knowing any request.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Preheat};
use crate::{Policy, Snapshot};

/// Policy that places packets in the last-level cache.
#[derive(Clone, Copy, Debug)]
pub struct Stash {
    most: u16,
    asked: Option<Action>,
    placed: i64,
}

impl Stash {
    /// Places at most `most` lines of each packet, from its first: headers, or all of it.
    #[must_use]
    pub fn new(most: u16) -> Stash {
        Stash { most, asked: None, placed: 0 }
    }
}

impl Policy for Stash {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        if let Event::Received { first, lines } = *event {
            let lines = lines.min(self.most);
            self.placed += i64::from(lines);
            self.asked = (lines > 0).then_some(Action::Place { first, lines });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asked.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("placed", self.placed)]
    }
}

impl Preheat for Stash {}
