//! Any completion policy, with another's way to rest.

use halfwink_units::Time;

use super::{Action, Completion, Event, Hears, Queues};
use crate::scaling::{self, Rest, ScalingPolicy};
use crate::{Policy, Snapshot};

/// Completes as one policy says, rests as a scaling policy says: its cores are CPUs, its packets
/// I/Os, and nothing else is heard of it.
pub struct Rested<C: Completion> {
    completes: C,
    rests: ScalingPolicy,
    answer: Option<Action>,
}

impl<C: Completion> Rested<C> {
    /// Combines a completion policy with a policy of rest. The latter has numbers for 256 cores:
    /// there are no more CPUs.
    #[must_use]
    pub fn new(completes: C, rests: ScalingPolicy) -> Rested<C> {
        let mut rested = Rested { completes, rests, answer: None };
        rested.attend(None);
        rested
    }

    /// Takes what the scaling policy asks for; the answer to this CPU, if it is a rest.
    fn attend(&mut self, asked: Option<u16>) -> Option<Rest> {
        let mut answer = None;
        while let Some(action) = self.rests.poll_action() {
            if let scaling::Action::Rest { core, rest } = action {
                debug_assert_eq!(Some(u16::from(core)), asked, "a rest nobody asked for");
                answer = Some(rest);
            }
        }
        answer
    }
}

impl<C: Completion> Policy for Rested<C> {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { cpu, taken, waiting } => {
                let core = cpu as u8;
                self.rests.on_event(now, &scaling::Event::Poll { core, taken, waiting });
                self.attend(None);
            }
            Event::Empty { cpu } => {
                self.rests.on_event(now, &scaling::Event::Empty { core: cpu as u8 });
                match self.attend(Some(cpu)) {
                    Some(rest) => self.answer = Some(Action::Rest { cpu, rest }),
                    None => self.completes.on_event(now, event),
                }
            }
            Event::Done(_) | Event::Used { .. } => self.completes.on_event(now, event),
        }
    }

    /// Both may have a timer: each is rung when its own has come.
    fn on_timer(&mut self, now: Time) {
        if self.rests.next_timer().is_some_and(|at| at <= now) {
            self.rests.on_timer(now);
            self.attend(None);
        }
        if self.completes.next_timer().is_some_and(|at| at <= now) {
            self.completes.on_timer(now);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        match (self.completes.next_timer(), self.rests.next_timer()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.answer.take().or_else(|| self.completes.poll_action())
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = self.completes.snapshot();
        state.extend(self.rests.snapshot());
        state
    }
}

impl<C: Completion> Completion for Rested<C> {
    fn hears(&self) -> Hears {
        self.completes.hears()
    }

    fn queues(&self) -> Queues {
        self.completes.queues()
    }

    fn period(&self) -> Option<Time> {
        self.completes.period()
    }

    fn hears_polls(&self) -> bool {
        true
    }
}
