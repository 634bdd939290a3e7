//! MAPG-Counter: guesses the end of a long stall from past ones (Strong 2013, Sec 2.3.3).
//!
//! It sees the pipeline-stall signal and a clock, nothing else. A stall that outlasts the
//! last-level cache must have gone to memory; its end is expected one memory latency later, plus a
//! learnt excess `delta`, which is negative where memory answers sooner. 30 bits of state per core:
//! `delta` and the stall counter, 15 bits each in steps of 100 ps.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Costs, Event, Gating, Pending};
use crate::{Policy, Snapshot};

/// Steps of the hardware's counters.
const STEP: Time = Time(100);
/// Largest value of `delta`, a register of 15 bits of which one is the sign.
const DELTA_MAX: i64 = (1 << 14) - 1;

/// Constants of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapgParameters {
    /// A stall this old has missed the last-level cache (22 ns).
    pub t_llc: Time,
    /// Expected memory latency from there: a row-buffer miss (45 ns).
    pub t_mem: Time,
    /// Reference of the delays that `delta` averages; the text leaves it open.
    pub expectation: Expectation,
}

/// Reference of an actual delay when `delta` grows (the thesis is ambiguous).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The memory latency alone: `delta` becomes the mean excess over it.
    Memory,
    /// The memory latency plus `delta`: `delta` settles at half the true excess.
    MemoryAndDelta,
}

/// The counter-based controller of one core.
#[derive(Clone, Copy, Debug)]
pub struct MapgCounter {
    costs: Costs,
    parameters: MapgParameters,
    /// Learnt excess over the memory latency, in [`STEP`]s: negative if memory answers sooner.
    delta: i64,
    stalled_since: Option<Time>,
    /// The stall has outlasted the last-level cache: train on its end.
    long: bool,
    gated: bool,
    /// Arrival time of the response that found the core gated.
    found_gated: Option<Time>,
    timer: Option<Time>,
    pending: Pending,
    enabled: bool,
}

impl MapgCounter {
    /// Enables gating in stalls; the policy learns from them in any case.
    pub(super) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// A controller with `delta` zero.
    #[must_use]
    pub fn new(costs: Costs, parameters: MapgParameters) -> MapgCounter {
        MapgCounter {
            costs,
            parameters,
            delta: 0,
            stalled_since: None,
            long: false,
            gated: false,
            found_gated: None,
            timer: None,
            pending: None,
            enabled: true,
        }
    }

    /// Expected end of a long stall that began at `began`.
    fn expected_end(&self, began: Time) -> Time {
        let learnt = STEP * self.delta.unsigned_abs();
        let untaught = began + self.parameters.t_llc + self.parameters.t_mem;
        if self.delta < 0 {
            untaught.saturating_sub(learnt)
        } else {
            untaught + learnt
        }
    }

    fn decide(&mut self, now: Time, began: Time) {
        self.long = true;
        let end = self.expected_end(began);
        if self.enabled && self.costs.pays(now, end) {
            self.gated = true;
            self.pending = Some(Action::Gate);
            self.timer = Some(self.costs.wake_start(end));
        }
    }

    fn wake(&mut self) {
        self.gated = false;
        self.timer = None;
        self.pending = Some(Action::Wake);
    }

    /// `delta` falls at once by what it was too long, and grows slowly by what it was too short.
    fn train(&mut self, actual: Time) {
        let in_steps = |t: Time| (t.0 / STEP.0) as i64;
        let memory = in_steps(actual) - in_steps(self.parameters.t_mem);
        let residual = memory - self.delta;
        if residual < 0 {
            self.delta += residual;
        } else {
            let grown = match self.parameters.expectation {
                Expectation::Memory => memory,
                Expectation::MemoryAndDelta => residual,
            };
            // alpha = 0.75, so that hardware needs only shifts and adds; a shift rounds down.
            self.delta = (3 * self.delta + grown) >> 2;
        }
        // The printed rule has no least value: memory that answers sooner than a row-buffer miss
        // must be expected sooner, or each of its stalls finds the core asleep. No stall can end
        // before it began, which bounds `delta` from below.
        self.delta = self.delta.min(DELTA_MAX);
        debug_assert!(self.delta >= -in_steps(self.parameters.t_mem), "{}", self.delta);
    }

    fn end_of_wait(&mut self) {
        self.stalled_since = None;
        self.timer = None;
    }
}

impl Policy for MapgCounter {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::StallBegin => {
                self.stalled_since = Some(now);
                self.long = false;
                self.found_gated = None;
                self.timer = Some(now + self.parameters.t_llc);
            }
            Event::Response { .. } if self.gated => {
                self.found_gated = Some(now);
                self.wake();
            }
            Event::Granted { wake_up } => {
                // The later start that the faster wake-up allows.
                if let (true, Some(timer)) = (self.gated, self.timer) {
                    let sooner = self.costs.wake_up.saturating_sub(wake_up);
                    self.timer = Some(timer + sooner);
                }
            }
            Event::Response { .. } | Event::Token(_) | Event::Awake => {}
            Event::StallEnd { began } => {
                if self.long {
                    // A late core must not learn its own lateness. The counter runs from the start
                    // of the stall; what lies behind the last-level cache is the memory's part.
                    let answered = self.found_gated.unwrap_or(now);
                    self.train((answered - began).saturating_sub(self.parameters.t_llc));
                }
                self.end_of_wait();
            }
            Event::IdleBegin => {
                self.gated = true;
                self.timer = None;
                self.pending = Some(Action::Gate);
            }
            Event::IdleEnd { .. } => {
                if self.gated {
                    self.wake();
                }
                self.end_of_wait();
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.timer = None;
        if self.gated {
            self.wake();
        } else if let Some(began) = self.stalled_since {
            self.decide(now, began);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("delta_ps", self.delta * STEP.0 as i64), ("gated", self.gated.into())]
    }
}

impl Gating for MapgCounter {}
