//! Loads the lines after each one that missed (Smith 1982, Sec 2.1): knows nothing of requests.

use alloc::vec;

use halfwink_units::{LineAddr, Time};

use super::{Action, Event, Preheat};
use crate::{Policy, Snapshot};

/// Policy that loads the next lines after a miss.
#[derive(Clone, Debug)]
pub struct NextLine {
    /// Number of lines.
    degree: u16,
    /// Distance of the first line: 1 for the very next.
    distance: u16,
    asked: Option<Action>,
    fetches: i64,
}

impl NextLine {
    /// Creates a policy that loads `degree` lines, the first at `distance`; both at least 1.
    #[must_use]
    pub fn new(degree: u16, distance: u16) -> NextLine {
        let (degree, distance) = (degree.max(1), distance.max(1));
        NextLine { degree, distance, asked: None, fetches: 0 }
    }
}

impl Policy for NextLine {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        if let Event::Missed { line, .. } = *event {
            let Some(first) = line.0.checked_add(u64::from(self.distance)) else { return };
            self.fetches += 1;
            self.asked = Some(Action::Fetch { first: LineAddr(first), lines: self.degree });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asked.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("fetches", self.fetches)]
    }
}

impl Preheat for NextLine {}
