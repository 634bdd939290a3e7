//! A core: what it does, until when, and its meter.

use halfwink_engine::Row;
use halfwink_policy::scaling::{Depth, Rest};
use halfwink_units::{Energy, Time};

use crate::power::{Kind, Watts};
use crate::ring::Ring;

/// What a core's next event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It looks at its queue.
    Poll,
    /// It asks an empty queue for ever; the next packet is its event.
    Spin,
    /// It rests until an interrupt.
    Rest,
    /// It rests until its alarm.
    Sleep,
}

/// A core and its queue.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub(crate) phase: Phase,
    pub(crate) parked: bool,
    pub(crate) ring: Ring,
    /// Packets that have left.
    pub(crate) done: u64,
    /// When a core that spins is through with its last batch.
    pub(crate) ready: u64,
    /// What it does, until when; the last one without end.
    plan: [(Kind, u64); 4],
    since: u64,
    meter: Row,
    /// Picoseconds in each state at each P-state.
    pub(crate) times: Vec<u64>,
}

impl Cpu {
    pub(crate) fn new(ring: u32, watts: &Watts) -> Cpu {
        Cpu {
            phase: Phase::Poll,
            parked: false,
            ring: Ring::new(ring),
            done: 0,
            ready: 0,
            plan: [(Kind::Busy, u64::MAX); 4],
            since: 0,
            meter: Row::default(),
            times: vec![0; watts.slots()],
        }
    }

    pub(crate) fn meter(&self) -> Row {
        self.meter
    }

    /// Meters all up to `until`.
    pub(crate) fn account(&mut self, until: u64, step: u8, watts: &Watts) {
        for (kind, end) in self.plan {
            let end = end.min(until);
            if end > self.since {
                let span = Time(end - self.since);
                let slot = watts.slot(kind, step);
                self.times[slot] += span.0;
                self.meter.time += span;
                self.meter.energy += watts.power(slot) * span;
                self.since = end;
            }
        }
    }

    fn becomes(&mut self, plan: [(Kind, u64); 4]) {
        self.plan = plan;
    }

    /// Forwards from now on.
    pub(crate) fn work(&mut self) {
        self.phase = Phase::Poll;
        self.becomes([(Kind::Busy, u64::MAX); 4]);
    }

    /// Is through with a batch at `ready`, and then spins.
    pub(crate) fn spin_from(&mut self, ready: u64, watts: &Watts) {
        let spin = (Kind::Spinning, u64::MAX);
        self.phase = Phase::Spin;
        self.ready = ready;
        let calm = ready + watts.spin_after.0;
        self.becomes([(Kind::Busy, ready), (Kind::Stalled, calm), spin, spin]);
    }

    /// Rests from `now`; the time of its alarm, if it has one.
    pub(crate) fn rest(&mut self, now: u64, rest: Rest, watts: &Watts) -> u64 {
        const END: u64 = u64::MAX;
        let deep = |depth: Depth| match depth {
            Depth::C1 => (0, Kind::C1),
            Depth::C3 => (1, Kind::C3),
            Depth::C6 => (2, Kind::C6),
        };
        let (phase, depth, nap, alarm) = match rest {
            Rest::Spin => {
                self.spin_from(now, watts);
                return END;
            }
            Rest::Halt(depth) => (Phase::Rest, depth, false, END),
            Rest::Nap(depth) => (Phase::Rest, depth, true, END),
            Rest::Sleep { span, depth } => (Phase::Sleep, depth, false, now + span.0),
        };
        self.phase = phase;
        let (n, kind) = deep(depth);
        let asleep = now + if nap { watts.after[n].0 } else { 0 };
        let entered = asleep + watts.entry[n].0;
        self.becomes([(Kind::C1, asleep), (Kind::Entering, entered), (kind, END), (kind, END)]);
        alarm
    }

    /// Leaves its rest at `now`, metered up to there. When it is awake; and when it polls, if the
    /// handler of an interrupt comes before.
    pub(crate) fn wake(&mut self, now: u64, interrupt: bool, watts: &Watts) -> (u64, u64) {
        const END: u64 = u64::MAX;
        let [(_, asleep), (_, entered), (deep, _), _] = self.plan;
        let (n, begin) = match deep {
            _ if now < asleep => (0, now),
            Kind::C3 => (1, now.max(entered)),
            Kind::C6 => (2, now.max(entered)),
            _ => (0, now),
        };
        let left = begin + watts.exit[n].0;
        self.phase = Phase::Poll;
        if !interrupt {
            let plan = [
                (Kind::Entering, begin),
                (Kind::Leaving, left),
                (Kind::Busy, END),
                (Kind::Busy, END),
            ];
            self.becomes(plan);
            return (left, left);
        }
        let heard = left + watts.delivery.0;
        self.becomes([
            (Kind::Entering, begin),
            (Kind::Leaving, left),
            (Kind::Delivery, heard),
            (Kind::Handler, END),
        ]);
        (heard, heard + watts.handler.0)
    }

    /// Energy of its rows: time in each state at each P-state, times power.
    pub(crate) fn rows<'a>(&'a self, watts: &'a Watts) -> impl Iterator<Item = (Kind, Row)> + 'a {
        self.times.iter().enumerate().filter(|(_, &time)| time > 0).map(|(slot, &time)| {
            let energy: Energy = watts.power(slot) * Time(time);
            (watts.kind(slot), Row { time: Time(time), energy })
        })
    }
}
