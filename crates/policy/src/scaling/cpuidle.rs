//! What idle governors of Linux share: the states to choose from, how long a core was idle, the
//! tick.
//!
//! How far the next timer beside the tick is away is a constant ([`IdleParameters::timer`]); a
//! world without timers says a second (assumption). The tick runs while a core is busy; a governor
//! that expects a short rest keeps it, and is asked again when it rings: so a wrong guess costs no
//! more than a tick.

use core::ops::Deref;

use halfwink_units::Time;

use super::apart::{Apart, Resting};
use super::{Depth, Rest};

/// An idle state as a governor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// Depth of the state.
    pub depth: Depth,
    /// Time to leave it.
    pub exit: Time,
    /// Shortest stay that is worth it.
    pub residency: Time,
    /// True for a loop that polls (`CPUIDLE_FLAG_POLLING`), which is no state of the hardware.
    pub polls: bool,
}

/// Most states of a table, as `CPUIDLE_STATE_MAX` allows 10.
pub const MOST_STATES: usize = 10;

/// A kernel's table of idle states, from the shallowest to the deepest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleStates {
    states: [IdleState; MOST_STATES],
    count: usize,
}

impl IdleStates {
    /// The first [`MOST_STATES`] of these; at least one.
    #[must_use]
    pub fn new(states: &[IdleState]) -> IdleStates {
        debug_assert!(!states.is_empty(), "a core can always rest somehow");
        let first =
            IdleState { depth: Depth::C1, exit: Time::ZERO, residency: Time::ZERO, polls: false };
        let mut all = [first; MOST_STATES];
        let count = states.len().clamp(1, MOST_STATES);
        for (place, state) in all.iter_mut().zip(states) {
            *place = *state;
        }
        IdleStates { states: all, count }
    }
}

impl Deref for IdleStates {
    type Target = [IdleState];

    fn deref(&self) -> &[IdleState] {
        &self.states[..self.count]
    }
}

impl IdleState {
    pub(super) fn exit_ns(&self) -> u64 {
        self.exit.0 / 1_000
    }

    pub(super) fn residency_ns(&self) -> u64 {
        self.residency.0 / 1_000
    }
}

/// Parameters of an idle governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleParameters {
    /// Cores that rest, each by a record of its own.
    pub cores: u8,
    /// States from the shallowest to the deepest.
    pub states: IdleStates,
    /// Between ticks. Of a kernel with 250 a second: 4 ms.
    pub tick: Time,
    /// Until the next timer beside the tick. Menu cannot expect less than a thousandth of it.
    pub timer: Time,
    /// From leaving an idle state until the queue is polled, which is not idle time.
    pub wake: Time,
}

impl IdleParameters {
    /// The next timer of a world that knows none: a second away (assumption).
    pub const NO_TIMER: Time = Time::ns(1_000_000_000);

    pub(super) fn timer_ns(&self) -> u64 {
        self.timer.0 / 1_000
    }

    pub(super) fn tick_ns(&self) -> u64 {
        self.tick.0 / 1_000
    }

    pub(super) fn until_tick_ns(&self, now: Time) -> u64 {
        (self.tick.0 - now.0 % self.tick.0) / 1_000
    }

    /// The rest in a state, with the tick or without.
    pub(super) fn rest(&self, now: Time, state: usize, tick: bool) -> Rest {
        let depth = self.states[state].depth;
        if tick {
            Rest::HaltFor { span: Time(self.tick.0 - now.0 % self.tick.0), depth }
        } else {
            Rest::Halt(depth)
        }
    }

    /// The deepest state above `state` whose stay is worth it in so much time, or the shallowest.
    pub(super) fn shallower(&self, state: usize, span_ns: u64) -> usize {
        (0..state).rev().find(|&n| self.states[n].residency_ns() <= span_ns).unwrap_or(0)
    }
}

/// Outcome of a rest.
#[derive(Clone, Copy, Debug)]
pub struct Rested {
    /// Place of the state in [`IdleParameters::states`].
    pub(crate) state: usize,
    /// Length of the rest with the exit from the state, in nanoseconds.
    pub(crate) ns: u64,
    /// The tick ended it.
    pub(crate) by_tick: bool,
}

/// The rest of a core, from its beginning to the first poll after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stay {
    entered: Option<(Time, usize, bool)>,
}

impl Stay {
    pub(super) const NONE: Stay = Stay { entered: None };

    pub(super) fn begins(&mut self, now: Time, state: usize, tick: bool) {
        self.entered = Some((now, state, tick));
    }

    /// A poll; what it ends.
    pub(super) fn polled(&mut self, now: Time, taken: u32, p: &IdleParameters) -> Option<Rested> {
        let (entered, state, tick) = self.entered.take()?;
        let ns = now.0.saturating_sub(entered.0 + p.wake.0) / 1_000;
        Some(Rested { state, ns, by_tick: tick && taken == 0 })
    }
}

/// Idle governor of one core.
pub trait Governor: Clone + Send {
    /// Has learnt nothing yet.
    fn new() -> Self;
    /// A rest is over.
    fn learn(&mut self, rested: Rested, p: &IdleParameters);
    /// The state to rest in, and whether the tick goes on.
    fn choose(&mut self, now: Time, p: &IdleParameters) -> (usize, bool);
}

/// A core whose idle state a governor chooses.
#[derive(Clone, Debug)]
pub struct Governed<G> {
    stay: Stay,
    governor: G,
}

impl<G: Governor> Apart<Governed<G>> {
    /// Has learnt nothing yet.
    #[must_use]
    pub fn new(parameters: IdleParameters) -> Apart<Governed<G>> {
        let core = Governed { stay: Stay::NONE, governor: G::new() };
        Apart::alike(&core, parameters.cores, parameters)
    }
}

impl<G: Governor> Resting for Governed<G> {
    type Parameters = IdleParameters;

    fn polled(&mut self, now: Time, taken: u32, p: &IdleParameters) {
        if let Some(rested) = self.stay.polled(now, taken, p) {
            self.governor.learn(rested, p);
        }
    }

    fn rest(&mut self, now: Time, p: &IdleParameters) -> Rest {
        let (state, tick) = self.governor.choose(now, p);
        self.stay.begins(now, state, tick);
        p.rest(now, state, tick)
    }
}
