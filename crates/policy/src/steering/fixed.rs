//! Servers that never decide: what hybrids are compared with.

use halfwink_units::Time;

use super::machines::Machines;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Everything goes to one machine, always on; the other one sleeps for ever. With the big one, it
/// is a server of today.
#[derive(Clone, Debug)]
pub struct Always {
    side: Side,
    machines: Machines,
}

impl Always {
    /// Uses this machine alone.
    #[must_use]
    pub fn new(side: Side) -> Always {
        let mut always = Always { side, machines: Machines::NEW };
        always.machines.rest(side.other());
        always
    }
}

impl Policy for Always {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, _now: Time, event: &Event) {
        self.machines.note(event);
        match event {
            Event::Arrive => {
                self.machines.send(self.side);
            }
            Event::Asleep { .. } | Event::Lost { .. } => {}
            // It served only while this one was lost.
            Event::Finish { .. } | Event::Awake { .. } | Event::Back { .. } => {
                self.machines.rest(self.side.other());
            }
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        self.machines.snapshot()
    }
}

impl Steering for Always {}

/// Both machines always on, chosen by the threshold rule: the thesis' worst case for power, and
/// the best one for delay.
#[derive(Clone, Debug)]
pub struct AlwaysOn {
    threshold: u32,
    machines: Machines,
}

impl AlwaysOn {
    /// Sends to the small machine up to `threshold` unfinished requests, and the others to the big
    /// one.
    #[must_use]
    pub fn new(threshold: u32) -> AlwaysOn {
        AlwaysOn { threshold, machines: Machines::NEW }
    }
}

impl Policy for AlwaysOn {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, _now: Time, event: &Event) {
        self.machines.note(event);
        if *event == Event::Arrive {
            let small = self.machines.of(Side::Small).load < self.threshold;
            self.machines.queue(if small { Side::Small } else { Side::Big });
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        self.machines.snapshot()
    }
}

impl Steering for AlwaysOn {}
