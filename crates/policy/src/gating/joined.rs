//! Two policies on one core: the first decides while the core waits for memory, the second while
//! the operating system has halted it.

use halfwink_units::Time;

use super::{Action, Estimate, Event, Gating, GatingPolicy};
use crate::{Policy, Snapshot};

/// A policy for stalls beside one for halts.
///
/// Tokens and responses go to the policy of stalls alone, which keeps account of them during halts
/// too. What ends a wait goes to the policy that decided in it.
pub struct Joined {
    stalls: GatingPolicy,
    halts: GatingPolicy,
    /// True if the present wait, or the last, is a halt.
    is_halted: bool,
}

impl Joined {
    /// Joins two policies of one core.
    #[must_use]
    pub fn new(stalls: GatingPolicy, halts: GatingPolicy) -> Joined {
        Joined { stalls, halts, is_halted: false }
    }

    fn deciding(&mut self) -> &mut GatingPolicy {
        if self.is_halted {
            &mut self.halts
        } else {
            &mut self.stalls
        }
    }
}

impl Policy for Joined {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match event {
            Event::StallBegin => self.is_halted = false,
            Event::IdleBegin => self.is_halted = true,
            _ => {}
        }
        match event {
            Event::Token(_) | Event::Response { .. } => self.stalls.on_event(now, event),
            _ => self.deciding().on_event(now, event),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.deciding().on_timer(now);
    }

    fn next_timer(&self) -> Option<Time> {
        if self.is_halted {
            self.halts.next_timer()
        } else {
            self.stalls.next_timer()
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.deciding().poll_action()
    }

    fn snapshot(&self) -> Snapshot {
        let mut all = self.stalls.snapshot();
        all.extend(self.halts.snapshot());
        all
    }
}

impl Gating for Joined {
    fn hears(&self) -> Option<Estimate> {
        self.stalls.hears()
    }
}
