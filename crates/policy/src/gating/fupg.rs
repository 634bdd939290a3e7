//! Functional-unit gating: cuts the supply of the idle execution units, whatever they wait for
//! (Strong 2013, Sec 2.4).
//!
//! It knows nothing of memory: units that were idle for a while are gated, and the next operation
//! waits for them to wake. A guard bounds the harm: once waiting has cost its share of a window, no
//! unit is gated until the next window begins.
//!
//! The published wake-up energy and latency are those of all units of a core together, so they are
//! one domain here; it is idle when the pipeline stalls on memory or the core is halted. Shorter
//! gaps stay below the idle time that it waits for.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Costs, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// Constants of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FupgParameters {
    /// Idle time before the units are gated (5 ns).
    pub idle: Time,
    /// Span over which the harm is bounded (10 us).
    pub window: Time,
    /// Time that operations may wait for units in a window (2 % of it).
    pub budget: Time,
}

/// The controller of the execution units of one core.
#[derive(Clone, Copy, Debug)]
pub struct Fupg {
    costs: Costs,
    parameters: FupgParameters,
    /// The window ends here.
    window_end: Time,
    /// Time that operations waited in this window.
    waited: Time,
    waiting: bool,
    gated: bool,
    /// Arrival time of the operation that found the units gated.
    wanted: Option<Time>,
    timer: Option<Time>,
    pending: Pending,
}

impl Fupg {
    /// A controller at the beginning of a window.
    #[must_use]
    pub fn new(costs: Costs, parameters: FupgParameters) -> Fupg {
        Fupg {
            costs,
            parameters,
            window_end: parameters.window,
            waited: Time::ZERO,
            waiting: false,
            gated: false,
            wanted: None,
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

    /// The units have nothing to do from `now` on.
    fn idle_from(&mut self, now: Time) {
        self.roll(now);
        self.waiting = true;
        let gate_at = now + self.parameters.idle;
        self.timer = Some(if self.is_barred() { gate_at.max(self.window_end) } else { gate_at });
    }

    fn wake(&mut self) {
        self.gated = false;
        self.timer = None;
        self.pending = Some(Action::Wake);
    }

    fn busy(&mut self) {
        self.waiting = false;
        self.timer = None;
    }
}

impl Policy for Fupg {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::StallBegin | Event::IdleBegin => self.idle_from(now),
            Event::Response { .. } if self.gated => {
                self.wanted = Some(now);
                self.wake();
            }
            Event::Response { .. } | Event::Token(_) | Event::Granted { .. } => {}
            Event::StallEnd { .. } => {
                self.roll(now);
                if let Some(wanted) = self.wanted.take() {
                    self.waited += now - wanted;
                }
                self.busy();
            }
            Event::IdleEnd { .. } => {
                self.roll(now);
                self.busy();
                if self.gated {
                    self.waited += self.costs.lead();
                    self.wake();
                }
            }
            Event::Awake => {
                // If nothing is told of the stall's end, the response was not what it waits for.
                if self.waiting {
                    self.idle_from(now);
                }
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.timer = None;
        self.roll(now);
        if self.waiting && !self.gated {
            self.gated = true;
            self.wanted = None;
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

impl Gating for Fupg {}
