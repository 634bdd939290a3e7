//! A core: what it does, until when, and its meter.

use halfwink_engine::Row;
use halfwink_policy::scaling::{Depth, Rest};
use halfwink_units::{Energy, Time};

use crate::power::{Kind, Watts};
use crate::ring::Ring;

const END: u64 = u64::MAX;
/// Most things that a core does one after the other without an event between them.
const STAGES: usize = 5;
type Plan = [(Kind, u64); STAGES];

/// Meaning of a core's next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The core checks its queue.
    Poll,
    /// The core polls an empty queue until the next packet, or until its poll limit.
    Spin,
    /// The core rests until an interrupt.
    Rest,
    /// The core sleeps until its timer.
    Sleep,
    /// The core waits in a delay loop until its timer.
    Pause,
}

/// A core and its queue.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub(crate) phase: Phase,
    pub(crate) parked: bool,
    pub(crate) ring: Ring,
    /// Packets that have left.
    pub(crate) done: u64,
    /// Time at which a spinning core finishes its last batch.
    pub(crate) ready: u64,
    /// Time until which its empty loop still stalls.
    calm: u64,
    /// Whether it has forwarded since it rested last.
    worked: bool,
    /// Planned states with their end times; the last one has no end.
    plan: Plan,
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
            calm: 0,
            worked: true,
            plan: [(Kind::Busy, END); STAGES],
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
        // Nothing is metered when it happens, only when something else begins or somebody looks: a
        // core that polls for a second costs one addition and not a million.
        for (kind, end) in self.plan {
            if self.since >= until {
                return;
            }
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

    fn becomes(&mut self, plan: Plan) {
        self.plan = plan;
    }

    /// Returns whether the core is forwarding.
    pub(crate) fn works(&self) -> bool {
        self.plan[0] == (Kind::Busy, END)
    }

    /// Forwards from now on.
    pub(crate) fn work(&mut self) {
        self.phase = Phase::Poll;
        self.worked = true;
        self.becomes([(Kind::Busy, END); STAGES]);
    }

    /// Is through with a batch at `ready`, and then spins.
    pub(crate) fn spin_from(&mut self, ready: u64, watts: &Watts) {
        let spin = (Kind::Spinning, END);
        self.phase = Phase::Spin;
        self.ready = ready;
        // From the first empty poll after work, not from each: a core that is asked again and again
        // for nothing has left the stalls of its last packets behind.
        if self.worked {
            self.calm = ready + watts.spin_after.0;
            self.worked = false;
        }
        self.becomes([(Kind::Busy, ready), (Kind::Stalled, self.calm), spin, spin, spin]);
    }

    /// Rests from `now`; the time of its alarm, if it has one.
    pub(crate) fn rest(&mut self, now: u64, rest: Rest, watts: &Watts) -> u64 {
        match rest {
            Rest::Spin => {
                self.spin_from(now, watts);
                END
            }
            Rest::Again { polls } => {
                self.spin_from(now, watts);
                now + watts.empty_poll.0 * u64::from(polls)
            }
            Rest::Pause { span } => {
                self.phase = Phase::Pause;
                self.becomes([(Kind::Paused, END); STAGES]);
                now + span.0
            }
            Rest::Halt(depth) => self.halt(now, Phase::Rest, depth, false, END, watts),
            Rest::HaltFor { span, depth } => {
                self.halt(now, Phase::Rest, depth, false, now + span.0, watts)
            }
            Rest::Nap(depth) => self.halt(now, Phase::Rest, depth, true, END, watts),
            Rest::Sleep { span, depth } => {
                self.halt(now, Phase::Sleep, depth, false, now + span.0, watts)
            }
        }
    }

    fn halt(
        &mut self,
        now: u64,
        phase: Phase,
        depth: Depth,
        nap: bool,
        alarm: u64,
        watts: &Watts,
    ) -> u64 {
        let (n, kind) = match depth {
            Depth::C1 => (0, Kind::C1),
            Depth::C3 => (1, Kind::C3),
            Depth::C6 => (2, Kind::C6),
        };
        let deep = (kind, END);
        self.phase = phase;
        let asleep = now + if nap { watts.after[n].0 } else { 0 };
        let entered = asleep + watts.entry[n].0;
        self.becomes([(Kind::C1, asleep), (Kind::Entering, entered), deep, deep, deep]);
        alarm
    }

    /// Leaves its rest at `now`, metered up to there: when it polls. Before comes the handler of an
    /// interrupt that must reach it, or of its own timer; and what its first packets take longer
    /// where it lost its caches (assumption: all of it before the first).
    /// Leaving its rest takes by `late` longer than it should.
    pub(crate) fn wake(&mut self, now: u64, interrupt: bool, late: u64, watts: &Watts) -> u64 {
        // Before a nap has become deep it is one in C1; entering is not broken off, so that who is
        // woken while it enters pays for the rest of that and for all of the exit.
        let [(_, asleep), (_, entered), (deep, _), ..] = self.plan;
        let (n, begin) = match deep {
            _ if now < asleep => (0, now),
            Kind::C3 => (1, now.max(entered)),
            Kind::C6 => (2, now.max(entered)),
            _ => (0, now),
        };
        let left = begin + watts.exit[n].0 + late;
        self.phase = Phase::Poll;
        let (delivery, handler) =
            if interrupt { (watts.delivery.0, watts.handler.0) } else { (0, watts.timer.0) };
        let heard = left + delivery;
        // Without a loss the handler's row takes all until it polls, whenever that is.
        let cold = watts.cold[n].0;
        let handled = if cold == 0 { END } else { heard + handler };
        self.becomes([
            (Kind::Entering, begin),
            (Kind::Leaving, left),
            (Kind::Delivery, heard),
            (Kind::Handler, handled),
            (Kind::Cold, END),
        ]);
        heard + handler + cold
    }

    /// Energy of its rows: time in each state at each P-state, times power.
    pub(crate) fn rows<'a>(&'a self, watts: &'a Watts) -> impl Iterator<Item = (Kind, Row)> + 'a {
        self.times.iter().enumerate().filter(|(_, &time)| time > 0).map(|(slot, &time)| {
            let energy: Energy = watts.power(slot) * Time(time);
            (watts.kind(slot), Row { time: Time(time), energy })
        })
    }
}
