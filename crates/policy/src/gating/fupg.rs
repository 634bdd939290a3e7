//! Functional-unit gating: cuts the supply of an execution unit that has been idle for a while,
//! whatever it waits for (Strong 2013, Sec 2.4).
//!
//! It knows nothing of memory: a unit that was idle for long enough is gated, and the next
//! operation that needs it waits for it to wake. A guard bounds the harm to the core: once
//! operations have waited for their share of a window, no unit is gated until the next one begins.
//!
//! Each unit has a controller. It hears of its own unit by [`Event::IdleBegin`] and
//! [`Event::IdleEnd`], and of the harm to the core, whichever unit it comes from, by
//! [`Event::StallEnd`]: so the controllers of a core agree on when no unit is gated.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// Constants of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FupgParameters {
    /// Idle time before the unit is gated (5 ns).
    pub idle: Time,
    /// Span over which the harm is bounded (10 us).
    pub window: Time,
    /// Time that operations may wait for units in a window (2 % of it).
    pub budget: Time,
}

/// The controller of one execution unit.
#[derive(Clone, Copy, Debug)]
pub struct Fupg {
    parameters: FupgParameters,
    /// The window ends here.
    window_end: Time,
    /// Time that operations waited for a unit in this window.
    waited: Time,
    gated: bool,
    /// Time at which the unit is gated, if it is idle until then.
    timer: Option<Time>,
    pending: Pending,
}

impl Fupg {
    /// A controller at the beginning of a window.
    #[must_use]
    pub fn new(parameters: FupgParameters) -> Fupg {
        Fupg {
            parameters,
            window_end: parameters.window,
            waited: Time::ZERO,
            gated: false,
            timer: None,
            pending: None,
        }
    }

    fn roll(&mut self, now: Time) {
        if now >= self.window_end {
            let windows = now.0 / self.parameters.window.0.max(1) + 1;
            self.window_end = self.parameters.window * windows;
            self.waited = Time::ZERO;
        }
    }

    fn is_barred(&self) -> bool {
        self.waited > self.parameters.budget
    }
}

impl Policy for Fupg {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::IdleBegin => self.timer = Some(now + self.parameters.idle),
            Event::IdleEnd { .. } => {
                self.timer = None;
                if core::mem::take(&mut self.gated) {
                    self.pending = Some(Action::Wake);
                }
            }
            Event::StallEnd { began } => {
                self.roll(now);
                self.waited += now - began;
            }
            Event::StallBegin
            | Event::Token(_)
            | Event::Response { .. }
            | Event::Awake
            | Event::Granted { .. } => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.roll(now);
        if self.is_barred() {
            self.timer = Some(self.window_end);
        } else {
            self.timer = None;
            self.gated = true;
            self.pending = Some(Action::Gate);
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
            ("waited_ps", self.waited.0 as i64),
            ("barred", self.is_barred().into()),
            ("gated", self.gated.into()),
        ]
    }
}

impl Gating for Fupg {
    fn shortest_idle(&self) -> Time {
        self.parameters.idle
    }
}
