//! What idle governors of Linux share: the states to choose from, how long a core was idle, the
//! tick.
//!
//! Beside the tick there are no timers here, so the next one is a second away (assumption). The
//! tick runs while a core is busy; a governor that expects a short rest keeps it, and is asked
//! again when it rings: so a wrong guess costs no more than a tick.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::{Action, Depth, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// The next timer beside the tick, in nanoseconds.
pub(super) const TIMER_NS: u64 = 1_000_000_000;

/// An idle state as a governor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// The state.
    pub depth: Depth,
    /// Time to leave it.
    pub exit: Time,
    /// Shortest stay that is worth it.
    pub residency: Time,
}

impl IdleState {
    pub(super) fn exit_ns(&self) -> u64 {
        self.exit.0 / 1_000
    }

    pub(super) fn residency_ns(&self) -> u64 {
        self.residency.0 / 1_000
    }
}

/// What an idle governor depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleParameters {
    /// Cores.
    pub cores: u8,
    /// From the shallowest to the deepest. (That Linux polls for very short waits is left out.)
    pub states: [IdleState; 3],
    /// Between ticks. Of a kernel with 250 a second: 4 ms.
    pub tick: Time,
    /// From leaving an idle state until the queue is polled, which is not idle time.
    pub wake: Time,
}

impl IdleParameters {
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

/// How a rest went.
#[derive(Clone, Copy, Debug)]
pub struct Rested {
    /// The state.
    pub(super) state: usize,
    /// How long, with the way out of the state, in nanoseconds.
    pub(super) ns: u64,
    /// The tick ended it.
    pub(super) by_tick: bool,
}

/// The rest of a core, from its beginning to the first poll after it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resting {
    entered: Option<(Time, usize, bool)>,
}

impl Resting {
    pub(super) const NONE: Resting = Resting { entered: None };

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

/// What a governor of one core knows and decides.
pub trait Governor: Clone + Send {
    /// Has learnt nothing yet.
    fn new() -> Self;
    /// A rest is over.
    fn learn(&mut self, rested: Rested, p: &IdleParameters);
    /// The state to rest in, and whether the tick goes on.
    fn choose(&mut self, now: Time, p: &IdleParameters) -> (usize, bool);
}

/// NAPI whose idle state a governor of each core chooses.
#[derive(Clone, Debug)]
pub struct Governed<G> {
    parameters: IdleParameters,
    cores: Vec<(Resting, G)>,
    pending: Option<Action>,
}

impl<G: Governor> Governed<G> {
    /// Has learnt nothing yet.
    #[must_use]
    pub fn new(parameters: IdleParameters) -> Governed<G> {
        let cores = vec![(Resting::NONE, G::new()); usize::from(parameters.cores)];
        Governed { parameters, cores, pending: None }
    }
}

impl<G: Governor> Policy for Governed<G> {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { core, taken, .. } => {
                let (resting, governor) = &mut self.cores[usize::from(core)];
                if let Some(rested) = resting.polled(now, taken, &self.parameters) {
                    governor.learn(rested, &self.parameters);
                }
            }
            Event::Empty { core } => {
                let (resting, governor) = &mut self.cores[usize::from(core)];
                let (state, tick) = governor.choose(now, &self.parameters);
                resting.begins(now, state, tick);
                let rest = self.parameters.rest(now, state, tick);
                self.pending = Some(Action::Rest { core, rest });
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl<G: Governor> Scaling for Governed<G> {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }

    fn is_apart(&self) -> bool {
        true
    }
}
