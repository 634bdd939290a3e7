//! Servers that never decide: what hybrids are compared with.

use halfwink_units::Time;

use super::pair::Pair;
use super::queue::Queue;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Everything goes to one machine, always on; the other one sleeps for ever. With the big one, it
/// is a server of today.
#[derive(Clone, Debug)]
pub struct Always {
    side: Side,
    pair: Pair,
    queue: Queue,
}

impl Always {
    /// This machine alone.
    #[must_use]
    pub fn new(side: Side) -> Always {
        let mut always = Always { side, pair: Pair::NEW, queue: Queue::NEW };
        always.rest();
        always
    }

    /// The other machine sleeps once it has nothing to do: it served only while this one was lost.
    fn rest(&mut self) {
        let other = self.side.other();
        let needed = self.pair.of(self.side).lost || self.pair.of(other).load > 0;
        if !needed && self.pair.sleep(other) {
            self.queue.push(Action::Sleep { side: other });
        }
    }
}

impl Policy for Always {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, _now: Time, event: &Event) {
        self.pair.note(event);
        match event {
            Event::Arrive => {
                let side = self.pair.send(self.side);
                self.queue.push(Action::Send { side });
                if side != self.side && self.pair.wake(side) {
                    self.queue.push(Action::Wake { side });
                }
            }
            Event::Asleep { .. } | Event::Lost { .. } => {}
            Event::Finish { .. } | Event::Awake { .. } | Event::Back { .. } => self.rest(),
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.queue.pop()
    }

    fn snapshot(&self) -> Snapshot {
        self.pair.snapshot()
    }
}

impl Steering for Always {}

/// Both machines always on, chosen by the threshold rule: the thesis' worst case for power, and
/// the best one for delay.
#[derive(Clone, Debug)]
pub struct AlwaysOn {
    threshold: u32,
    pair: Pair,
    queue: Queue,
}

impl AlwaysOn {
    /// Up to `threshold` unfinished requests go to the small machine, others to the big one.
    #[must_use]
    pub fn new(threshold: u32) -> AlwaysOn {
        AlwaysOn { threshold, pair: Pair::NEW, queue: Queue::NEW }
    }
}

impl Policy for AlwaysOn {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, _now: Time, event: &Event) {
        self.pair.note(event);
        if *event == Event::Arrive {
            let small = self.pair.of(Side::Small).load < self.threshold;
            let side = self.pair.send(if small { Side::Small } else { Side::Big });
            self.queue.push(Action::Send { side });
        }
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.queue.pop()
    }

    fn snapshot(&self) -> Snapshot {
        self.pair.snapshot()
    }
}

impl Steering for AlwaysOn {}
