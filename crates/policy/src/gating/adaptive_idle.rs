//! Powers a core down while it has nothing to do, unless it will soon have something again (Mogul
//! 2007, Sec 5.6 and 6.2: proposed, not built).
//!
//! The next idle time is expected to be as long as the last ones, weighed by age. One that is
//! expected to be too short to pay for powering down, or for the delay of waking up, is waited out;
//! if it turns out longer than it was worth after all, the core is powered down late, so that a
//! wrong guess costs at most as much again.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Costs, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// Share of the newest idle time in the expectation: one eighth (assumption).
const NEWEST: u64 = 8;

/// Gates halted cores if that is worth it.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveIdle {
    /// Shortest idle time that pays.
    worth: Time,
    /// Expected idle time; none until the first idle time has ended.
    expected: Option<Time>,
    gated: bool,
    timer: Option<Time>,
    pending: Pending,
}

impl AdaptiveIdle {
    /// A policy for one core with these costs.
    #[must_use]
    pub fn new(costs: Costs) -> AdaptiveIdle {
        AdaptiveIdle {
            worth: costs.entry + costs.break_even + costs.wake_up + costs.restore,
            expected: None,
            gated: false,
            timer: None,
            pending: None,
        }
    }

    fn gate(&mut self) {
        self.timer = None;
        self.gated = true;
        self.pending = Some(Action::Gate);
    }

    fn learn(&mut self, idle: Time) {
        self.expected = Some(match self.expected {
            Some(Time(before)) => Time(before - before / NEWEST + idle.0 / NEWEST),
            None => idle,
        });
    }
}

impl Policy for AdaptiveIdle {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::IdleBegin if self.expected.is_some_and(|expected| expected < self.worth) => {
                self.timer = Some(now.saturating_add(self.worth));
            }
            Event::IdleBegin => self.gate(),
            Event::IdleEnd { began } => {
                self.learn(now.saturating_sub(began));
                self.timer = None;
                if core::mem::take(&mut self.gated) {
                    self.pending = Some(Action::Wake);
                }
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.timer.is_some_and(|at| at <= now) {
            self.gate();
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![
            ("expected_ps", self.expected.map_or(-1, |time| time.0 as i64)),
            ("gated", self.gated.into()),
        ]
    }
}

impl Gating for AdaptiveIdle {}
