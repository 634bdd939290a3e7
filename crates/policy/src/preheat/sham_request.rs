//! Plays a request of no effect to the server before the announced one comes: what an operator can
//! do without any of this, where requests without effects exist and a connection is open.

use alloc::collections::VecDeque;
use alloc::vec;

use halfwink_units::Time;

use super::ahead::Ahead;
use super::{Action, Event, Late, Preheat};
use crate::{Policy, Snapshot};

/// Services that can have a sham request played at once.
const ROOM: usize = 64;

/// Plays sham requests ahead of announced ones.
#[derive(Clone, Debug)]
pub struct ShamRequest {
    ahead: Ahead,
    late: Late,
    /// Services whose sham requests run.
    playing: vec::Vec<u16>,
    asked: VecDeque<Action>,
    shams: i64,
    held: i64,
}

impl ShamRequest {
    /// Plays sham requests `lead` before a request is due, at once if `None`. A request that comes
    /// meanwhile is held, or stops the sham one, or competes with it.
    #[must_use]
    pub fn new(lead: Option<Time>, late: Late) -> ShamRequest {
        ShamRequest {
            ahead: Ahead::new(lead.unwrap_or(Time::NEVER)),
            late,
            playing: vec::Vec::with_capacity(ROOM),
            asked: VecDeque::with_capacity(2 * ROOM + 2),
            shams: 0,
            held: 0,
        }
    }

    fn play(&mut self, service: u16) {
        if self.playing.contains(&service) || self.playing.len() == ROOM {
            return;
        }
        self.playing.push(service);
        self.shams += 1;
        self.asked.extend([Action::Wake, Action::Sham { service }]);
    }
}

impl Policy for ShamRequest {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Announced { service, due } if self.ahead.announce(now, service, due) => {
                self.play(service);
            }
            Event::Arrived { port: service } if self.playing.contains(&service) => {
                match self.late {
                    Late::Wait => {
                        self.held += 1;
                        self.asked.push_back(Action::Hold { service });
                    }
                    Late::Skip => self.asked.push_back(Action::Stop { service }),
                    Late::Concurrent => {}
                }
            }
            Event::Loaded { service } => self.playing.retain(|&playing| playing != service),
            _ => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        while let Some(service) = self.ahead.take(now) {
            self.play(service);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.ahead.next()
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asked.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("shams", self.shams), ("playing", self.playing.len() as i64), ("held", self.held)]
    }
}

impl Preheat for ShamRequest {}
