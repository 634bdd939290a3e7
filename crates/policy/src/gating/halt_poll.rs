//! Polls for a while before a halt, as Linux' haltpoll governor does in guests: a virtual machine
//! that halts costs an exit to its host.
//!
//! ```text
//!  halted -> limit 0? --------------------> C1 -- interrupt --> grow or shrink the limit, run
//!              '----> poll -- limit over --^
//!                       '---- interrupt --> run
//! ```
//!
//! Follows `drivers/cpuidle/governors/haltpoll.c` of Linux 6.1 (`haltpoll_select`,
//! `adjust_poll_limit`). It knows two states, polling and C1, and the tick is never stopped.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// State of [`Action::Rest`] that polls.
const POLL: u8 = 0;
/// State that stops the clock: C1.
const HALT: u8 = 1;

/// Parameters of the governor, by the names of Linux' module parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaltPollParameters {
    /// Longest time of polling (`guest_halt_poll_ns`).
    pub most: Time,
    /// Factor by which the limit grows (`guest_halt_poll_grow`).
    pub grow: u32,
    /// Least limit above zero (`guest_halt_poll_grow_start`).
    pub grow_start: Time,
    /// Divisor by which the limit shrinks; 0 means to zero at once (`guest_halt_poll_shrink`).
    pub shrink: u32,
    /// True if the limit may shrink (`guest_halt_poll_allow_shrink`).
    pub shrinks: bool,
}

impl HaltPollParameters {
    /// Linux' defaults: up to 200 us, from 50 us on, doubled and halved.
    pub const LINUX: HaltPollParameters = HaltPollParameters {
        most: Time::ns(200_000),
        grow: 2,
        grow_start: Time::ns(50_000),
        shrink: 2,
        shrinks: true,
    };
}

/// The governor of one core.
#[derive(Clone, Copy, Debug)]
pub struct HaltPoll {
    parameters: HaltPollParameters,
    /// Present limit of polling; a core begins with none.
    limit: Time,
    /// State of the present rest, and the time at which it began.
    rest: Option<(u8, Time)>,
    pending: Pending,
}

impl HaltPoll {
    /// A governor that has seen no halt yet.
    #[must_use]
    pub fn new(parameters: HaltPollParameters) -> HaltPoll {
        HaltPoll { parameters, limit: Time::ZERO, rest: None, pending: None }
    }

    fn enter(&mut self, now: Time, state: u8) {
        self.rest = Some((state, now));
        self.pending = Some(Action::Rest { state });
    }

    /// Implements `adjust_poll_limit`, after a stay of so long in a halt.
    fn adjust(&mut self, stay: Time) {
        let p = &self.parameters;
        if stay > self.limit && stay <= p.most {
            let grown = Time(self.limit.0.saturating_mul(u64::from(p.grow)));
            self.limit = grown.max(p.grow_start).min(p.most);
        } else if stay > p.most && p.shrinks {
            let shrunk = Time(self.limit.0.checked_div(u64::from(p.shrink)).unwrap_or(0));
            self.limit = if shrunk < p.grow_start { Time::ZERO } else { shrunk };
        }
    }
}

impl Policy for HaltPoll {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match event {
            Event::IdleBegin if self.limit == Time::ZERO => self.enter(now, HALT),
            Event::IdleBegin => self.enter(now, POLL),
            Event::IdleEnd { .. } => {
                if let Some((HALT, began)) = self.rest.take() {
                    self.adjust(now.saturating_sub(began));
                }
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.next_timer().is_some_and(|at| at <= now) {
            self.enter(now, HALT);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        match self.rest {
            Some((POLL, began)) => Some(began.saturating_add(self.limit)),
            _ => None,
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let state = self.rest.map_or(-1, |(state, _)| i64::from(state));
        vec![("state", state), ("limit_ps", self.limit.0 as i64)]
    }
}

impl Gating for HaltPoll {}
