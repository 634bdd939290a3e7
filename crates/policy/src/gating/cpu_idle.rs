//! Puts a halted core into an idle state of a table, as a governor of Linux' cpuidle chooses:
//! menu, TEO or ladder.
//!
//! ```text
//!  halted -> choose -> poll or stopped clock -- interrupt --> learn, run
//!              ^            |        '-- tick --> learn --.
//!              '------------|-----------------------------'
//!                           '-> deeper: interrupt -> wake -> awake: learn, run
//! ```
//!
//! The governors are those of the router's `napi-menu` and `napi-teo` ([`crate::scaling`]). They
//! are told the exit latencies and residencies of the kernel's table. The world decides how long a
//! core really takes to wake, and they learn it only as part of the idle time that they measure.
//!
//! Deviations from Linux:
//! * The tick rings only in polling and a stopped clock. A core in a deeper state is not woken by
//!   it, although a governor that expects a short stay leaves the tick on.
//! * No timers but the tick are known.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Gating, Pending};
use crate::scaling::{Depth, Governor, IdleParameters, IdleState, IdleStates, Rested};
use crate::{Policy, Snapshot};

/// Parameters of a governor of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuIdleParameters {
    /// The kernel's table, in the order of [`Action::Rest`]. States of [`Depth::C1`] are left
    /// without [`Action::Wake`].
    pub states: IdleStates,
    /// Time between ticks of the kernel.
    pub tick: Time,
    /// Longest exit latency that is allowed (PM QoS).
    pub latency_limit: Time,
}

/// A core and its governor.
#[derive(Clone, Debug)]
pub struct CpuIdle<G> {
    governor: G,
    parameters: IdleParameters,
    /// Exit latency of the shallowest state of the hardware, which a halt holds already.
    usual: Time,
    /// The state of the present rest, when it began, and whether the tick goes on.
    rest: Option<(Time, usize, bool)>,
    timer: Option<Time>,
    pending: Pending,
}

impl<G: Governor> CpuIdle<G> {
    /// A governor that has learnt nothing yet.
    #[must_use]
    pub fn new(parameters: CpuIdleParameters) -> CpuIdle<G> {
        let allowed = |state: &&IdleState| state.exit <= parameters.latency_limit;
        let count = parameters.states.iter().take_while(allowed).count().max(1);
        let usual = parameters.states.iter().find(|state| !state.polls).map(|state| state.exit);
        CpuIdle {
            governor: G::new(),
            parameters: IdleParameters {
                cores: 1,
                states: IdleStates::new(&parameters.states[..count]),
                tick: parameters.tick.max(Time(1)),
                timer: IdleParameters::NO_TIMER,
                wake: Time::ZERO,
            },
            usual: usual.unwrap_or(Time::ZERO),
            rest: None,
            timer: None,
            pending: None,
        }
    }

    fn is_deep(&self, state: usize) -> bool {
        self.parameters.states[state].depth != Depth::C1
    }

    fn choose(&mut self, now: Time) {
        let (state, tick) = self.governor.choose(now, &self.parameters);
        self.rest = Some((now, state, tick));
        if tick && !self.is_deep(state) {
            let tick = self.parameters.tick;
            self.timer = Some(now.saturating_add(tick - Time(now.0 % tick.0)));
        }
        self.pending = Some(Action::Rest { state: state as u8 });
    }

    /// The rest is over at `now`.
    fn learn(&mut self, now: Time, by_tick: bool) {
        self.timer = None;
        let Some((entered, state, tick)) = self.rest.take() else { return };
        let lasted = now.saturating_sub(entered).saturating_add(self.usual);
        let rested = Rested { state, ns: lasted.0 / 1_000, by_tick: tick && by_tick };
        self.governor.learn(rested, &self.parameters);
    }
}

impl<G: Governor> Policy for CpuIdle<G> {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match (*event, self.rest) {
            (Event::IdleBegin, _) => self.choose(now),
            (Event::IdleEnd { .. }, Some((_, state, _))) if self.is_deep(state) => {
                self.pending = Some(Action::Wake);
            }
            (Event::IdleEnd { .. } | Event::Awake, _) => self.learn(now, false),
            _ => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.timer.is_some_and(|at| at <= now) {
            self.learn(now, true);
            self.choose(now);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let state = self.rest.map_or(-1, |(_, state, _)| state as i64);
        vec![("state", state), ("tick_ps", self.timer.map_or(-1, |time| time.0 as i64))]
    }
}

impl<G: Governor> Gating for CpuIdle<G> {}
