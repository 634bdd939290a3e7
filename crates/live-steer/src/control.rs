//! Where the policy lives, with the log of all that it was told and asked for.

use halfwink_policy::steering::{Action, Event, SteeringPolicy};
use halfwink_policy::Snapshot;
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

/// One line of the event log: what the policy was told, and what it asked for then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Picoseconds since the proxy's start.
    pub now_ps: u64,
    /// The event; none for its timer, or for its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Event>,
    /// What it asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Action>,
}

/// The policy and its log.
pub struct Control {
    policy: SteeringPolicy,
    log: Vec<Line>,
    room: usize,
    last: Time,
}

impl Control {
    /// Takes a policy; keeps so many lines of a log.
    #[must_use]
    pub fn new(policy: SteeringPolicy, log_lines: usize) -> Control {
        Control { policy, log: Vec::new(), room: log_lines, last: Time::ZERO }
    }

    /// Never earlier than before: events are in the order in which they are told.
    pub fn at(&mut self, now: Time) -> Time {
        self.last = self.last.max(now);
        self.last
    }

    /// What it asks for at its start.
    pub fn start(&mut self, asked: &mut Vec<Action>) {
        self.take(None, asked);
    }

    /// Tells the policy; what it asks for goes to `asked`, which is empty before.
    #[inline]
    pub fn tell(&mut self, now: Time, event: Event, asked: &mut Vec<Action>) {
        let now = self.at(now);
        self.policy.on_event(now, &event);
        self.take(Some(event), asked);
    }

    /// When the timer is to ring.
    #[inline]
    #[must_use]
    pub fn next_timer(&self) -> Option<Time> {
        self.policy.next_timer()
    }

    /// Lets it ring if its time has come: whether it has.
    pub fn ring(&mut self, now: Time, asked: &mut Vec<Action>) -> bool {
        let now = self.at(now);
        let due = self.policy.next_timer().is_some_and(|at| at <= now);
        if due {
            self.policy.on_timer(now);
            self.take(None, asked);
        }
        due
    }

    /// Another policy from now on; the log begins anew.
    pub fn replace(&mut self, policy: SteeringPolicy, log_lines: usize) {
        self.policy = policy;
        self.log.clear();
        self.room = log_lines;
    }

    /// The log so far.
    #[must_use]
    pub fn log(&self) -> &[Line] {
        &self.log
    }

    /// The policy's state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.policy.snapshot()
    }

    #[inline]
    fn take(&mut self, told: Option<Event>, asked: &mut Vec<Action>) {
        while let Some(action) = self.policy.poll_action() {
            asked.push(action);
        }
        if self.room > 0 {
            self.room -= 1;
            self.log.push(Line { now_ps: self.last.0, told, asked: asked.clone() });
        }
    }
}

/// Tells a fresh policy what a log says; the first line, from 0, at which it asks for something
/// else, with what it asks for.
#[must_use]
pub fn replay(lines: &[Line], mut policy: SteeringPolicy) -> Option<(usize, Vec<Action>)> {
    for (n, line) in lines.iter().enumerate() {
        let now = Time(line.now_ps);
        match &line.told {
            Some(event) => policy.on_event(now, event),
            // The first line is what it asked for at its start.
            None if n == 0 => {}
            None => policy.on_timer(now),
        }
        let asked: Vec<Action> = std::iter::from_fn(|| policy.poll_action()).collect();
        if asked != line.asked {
            return Some((n, asked));
        }
    }
    None
}
