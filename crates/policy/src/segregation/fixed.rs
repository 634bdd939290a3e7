//! One rule for ever: static splits, static insertion, and the baseline that has neither.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Rule, Segregation};
use crate::{Policy, Snapshot};

/// Sets its rule once.
#[derive(Clone, Debug)]
pub struct Fixed {
    rule: Rule,
    pending: bool,
}

impl Fixed {
    /// Creates a policy with a constant rule.
    #[must_use]
    pub fn new(rule: Rule) -> Fixed {
        Fixed { rule, pending: false }
    }
}

impl Policy for Fixed {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        self.pending |= matches!(event, Event::Begin { .. });
    }

    fn poll_action(&mut self) -> Option<Action> {
        core::mem::take(&mut self.pending).then_some(Action::Set(self.rule))
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl Segregation for Fixed {}
