//! Circuits that stay, and none at all: what the others are compared with.

use alloc::vec;

use halfwink_units::Time;

use super::asking::Asking;
use super::{Action, Circuits, Event};
use crate::{Policy, Snapshot};

/// One matching for ever, or a packet switch.
#[derive(Clone, Debug)]
pub struct Still {
    asking: Asking,
    has_circuits: bool,
}

impl Still {
    /// Each host sends to the one so many places after it, on every plane.
    #[must_use]
    pub fn ring(hosts: u16, shift: u16) -> Still {
        let mut asking = Asking::new(hosts);
        for (host, to) in (0..hosts).zip(&mut asking.to) {
            // Both are below 65,536, so the sum fits.
            *to = ((u32::from(host) + u32::from(shift)) % u32::from(hosts)) as u16;
        }
        Still { asking, has_circuits: true }
    }

    /// No circuits: all packets go through a packet switch.
    #[must_use]
    pub fn packets(hosts: u16) -> Still {
        Still { asking: Asking::new(hosts), has_circuits: false }
    }
}

impl Circuits for Still {
    fn has_circuits(&self) -> bool {
        self.has_circuits
    }
}

impl Policy for Still {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match *event {
            Event::Next { plane, .. } if self.has_circuits => self.asking.ask(plane, Time::NEVER),
            _ => self.asking.hear(event),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asking.poll()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("lost", self.asking.lost_count())]
    }
}
