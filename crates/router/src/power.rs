//! Watts of a core's states as whole microwatts, so that sums are exact.

use halfwink_engine::{Cause, Mode, State};
use halfwink_units::{Power, Time};

use halfwink_techniques::router::Model;

/// Activity of a core, and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Busy,
    Handler,
    Stalled,
    Spinning,
    C1,
    Entering,
    C3,
    C6,
    Leaving,
    Delivery,
    Paused,
    Cold,
}

impl Kind {
    pub(crate) const ALL: [Kind; 12] = [
        Kind::Busy,
        Kind::Handler,
        Kind::Stalled,
        Kind::Spinning,
        Kind::C1,
        Kind::Entering,
        Kind::C3,
        Kind::C6,
        Kind::Leaving,
        Kind::Delivery,
        Kind::Paused,
        Kind::Cold,
    ];

    /// The row of the ledger that it belongs to.
    pub(crate) fn row(self) -> (State, Cause) {
        let cause = |mode, reason| Cause { mode, reason };
        match self {
            Kind::Busy => (State("c0"), cause(Mode::Kernel, "packets")),
            Kind::Handler => (State("c0"), cause(Mode::Kernel, "interrupt")),
            Kind::Cold => (State("c0"), cause(Mode::Kernel, "cold-caches")),
            Kind::Stalled => (State("c0"), cause(Mode::Idle, "stalled-loop")),
            Kind::Spinning => (State("c0"), cause(Mode::Idle, "empty-loop")),
            Kind::Paused => (State("c0"), cause(Mode::Idle, "delay-loop")),
            Kind::C1 => (State("c1"), cause(Mode::Idle, "empty-queue")),
            Kind::Entering => (State("c1"), cause(Mode::Idle, "sleep-entry")),
            Kind::C3 => (State("c3"), cause(Mode::Idle, "empty-queue")),
            Kind::C6 => (State("c6"), cause(Mode::Idle, "empty-queue")),
            Kind::Leaving => (State("c1"), cause(Mode::Idle, "sleep-exit")),
            Kind::Delivery => (State("c1"), cause(Mode::Idle, "interrupt-delivery")),
        }
    }
}

/// Watts of every state and P-state of a core, and times of its transitions.
#[derive(Clone, Debug)]
pub struct Watts {
    steps: usize,
    table: Vec<Power>,
    pub(crate) exit: [Time; 3],
    pub(crate) after: [Time; 3],
    pub(crate) entry: [Time; 3],
    pub(crate) cold: [Time; 3],
    pub(crate) delivery: Time,
    pub(crate) handler: Time,
    pub(crate) timer: Time,
    pub(crate) empty_poll: Time,
    pub(crate) spin_after: Time,
}

impl Watts {
    /// Computes the powers of a model.
    #[must_use]
    pub fn new(model: &Model) -> Watts {
        let (p, s) = (&model.spec().power, &model.spec().sleep);
        let us = |us: f64| Time::from_ns(us * 1e3);
        let entry = |exit: f64| us(exit * s.entry_share);
        let watt = |kind: Kind, step: u8| match kind {
            Kind::Busy | Kind::Handler | Kind::Cold | Kind::Stalled => model.busy_w(step),
            Kind::Spinning => model.spin_w(step),
            Kind::Paused => model.spin_w(step) * p.pause_share,
            // assumption: a core that enters or leaves a sleep state draws as in C1.
            Kind::C1 | Kind::Entering | Kind::Leaving | Kind::Delivery => p.c1_w,
            Kind::C3 => p.c3_w,
            Kind::C6 => 0.0,
        };
        let row = |kind: &Kind| {
            let kind = *kind;
            (0..model.steps()).map(move |step| Power::from_w(watt(kind, step)))
        };
        Watts {
            steps: usize::from(model.steps()),
            table: Kind::ALL.iter().flat_map(row).collect(),
            exit: [us(s.c1_exit_us), us(s.c3_exit_us), us(s.c6_exit_us)],
            after: [Time::ZERO, us(s.c3_after_us), us(s.c6_after_us)],
            entry: [Time::ZERO, entry(s.c3_exit_us), entry(s.c6_exit_us)],
            cold: [Time::ZERO, us(s.c3_cold_us), us(s.c6_cold_us)],
            delivery: us(model.spec().wake.delivery_us),
            handler: us(model.spec().wake.handler_us),
            timer: us(model.spec().wake.timer_us),
            empty_poll: us(model.spec().poll.empty_poll_us),
            spin_after: us(p.spin_after_us),
        }
    }

    pub(crate) fn slot(&self, kind: Kind, step: u8) -> usize {
        kind as usize * self.steps + usize::from(step)
    }

    pub(crate) fn slots(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn power(&self, slot: usize) -> Power {
        self.table[slot]
    }

    /// The state of a slot.
    pub(crate) fn kind(&self, slot: usize) -> Kind {
        Kind::ALL[slot / self.steps]
    }
}
