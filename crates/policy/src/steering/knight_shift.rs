//! KnightShift: a small server (the knight) answers while the load is low, the primary otherwise.
//!
//! ```text
//!   knight's utilisation from `up` on ─▶ primary wakes, the knight goes on ─▶ primary serves
//!   load below `down` of what the knight can do ─▶ knight serves ─▶ primary drained ─▶ sleeps
//! ```
//!
//! After Wong, Annavaram, "KnightShift: Scaling the Energy Proportionality Wall Through
//! Server-Level Heterogeneity" (MICRO 2012), whose abstract was at hand, and the authors'
//! simulator (`KnightShiftServer.java` of their BigHouse): a knight of 15 % of the primary's
//! capability; to the primary when the load passes 0.8 of the knight's capability, to the knight
//! when it is below that capability; the knight never sleeps; 5 s for a change. There it decides
//! at each arrival and departure, and goes back under a higher load than it came with:
//! [`KnightShiftParameters::simulator`]. The daemon of the paper decides by utilisation over a
//! period, with hysteresis: [`KnightShiftParameters::published`], whose period and lower bound are
//! assumptions. In the simulator what the primary has in service goes on at the knight; here it
//! ends where it began.

use halfwink_units::Time;

use super::machines::Machines;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Parameters of KnightShift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnightShiftParameters {
    /// Requests that the knight has in service at most.
    pub knight_workers: u32,
    /// Requests that the primary has in service at most.
    pub primary_workers: u32,
    /// Capability of the knight, in thousandths of the primary's.
    pub capability_permille: u32,
    /// The primary serves from this utilisation of the knight on, in thousandths.
    pub up_permille: u32,
    /// The knight serves when the primary's load is less than so many thousandths of what the
    /// knight can do.
    pub down_permille: u32,
    /// Over which utilisation is taken; zero for that of the moment, at each arrival and
    /// departure.
    pub period: Time,
}

impl KnightShiftParameters {
    /// A knight of 15 %, up from 80 % of it, down below 50 % of it, each second.
    #[must_use]
    pub fn published(knight_workers: u32, primary_workers: u32) -> KnightShiftParameters {
        KnightShiftParameters {
            knight_workers,
            primary_workers,
            capability_permille: 150,
            up_permille: 800,
            down_permille: 500,
            period: Time::ns(1_000_000_000),
        }
    }

    /// Returns the parameters of the authors' simulator.
    #[must_use]
    pub fn simulator(knight_workers: u32, primary_workers: u32) -> KnightShiftParameters {
        KnightShiftParameters {
            down_permille: 1_000,
            period: Time::ZERO,
            ..KnightShiftParameters::published(knight_workers, primary_workers)
        }
    }
}

/// Policy of KnightShift.
#[derive(Clone, Debug)]
pub struct KnightShift {
    parameters: KnightShiftParameters,
    machines: Machines,
    /// Whether the primary is needed.
    primary: bool,
    /// Machine that serves: the knight until the primary is awake.
    serving: Side,
    /// Busy time of its workers since `since`.
    busy: Time,
    metered: Time,
    since: Time,
    look: Time,
}

impl KnightShift {
    /// Starts with the knight; the primary sleeps.
    ///
    /// # Panics
    /// If a machine has no workers, or the knight no capability.
    #[must_use]
    pub fn new(parameters: KnightShiftParameters) -> KnightShift {
        let p = parameters;
        assert!(p.knight_workers > 0 && p.primary_workers > 0, "workers");
        assert!(p.capability_permille > 0, "a capability");
        let mut policy = KnightShift {
            parameters,
            machines: Machines::NEW,
            primary: false,
            serving: Side::Small,
            busy: Time::ZERO,
            metered: Time::ZERO,
            since: Time::ZERO,
            look: p.period,
        };
        policy.settle(Time::ZERO);
        policy
    }

    fn workers(&self) -> u32 {
        if self.serving == Side::Small {
            self.parameters.knight_workers
        } else {
            self.parameters.primary_workers
        }
    }

    /// Busy workers of who serves.
    #[inline]
    fn working(&self) -> u32 {
        self.machines.of(self.serving).load.min(self.workers())
    }

    #[inline]
    fn meter(&mut self, now: Time) {
        self.busy.0 += u64::from(self.working()) * (now.0 - self.metered.0);
        self.metered = now;
    }

    fn restart(&mut self, now: Time) {
        (self.busy, self.since, self.metered) = (Time::ZERO, now, now);
    }

    /// Which machine serves, and whether the primary may sleep.
    #[inline]
    fn settle(&mut self, now: Time) {
        let wanted = if self.primary { Side::Big } else { Side::Small };
        if wanted != self.serving && (wanted == Side::Small || self.machines.is_on(wanted)) {
            self.serving = wanted;
            self.restart(now);
        }
        if !self.primary {
            self.machines.rest(Side::Big);
        }
    }

    /// Decides by the busy time of so many workers out of as many.
    #[inline]
    fn decide(&mut self, busy: u64, of: u64) {
        let p = self.parameters;
        let (busy, of) = (u128::from(busy), u128::from(of));
        let passes = |permille: u32| busy * 1_000 >= of * u128::from(permille);
        if !self.primary && passes(p.up_permille) {
            self.primary = true;
            if !self.machines.of(Side::Big).lost {
                self.machines.wake(Side::Big);
            }
        } else if self.primary && self.serving == Side::Big {
            let down = u64::from(p.capability_permille) * u64::from(p.down_permille) / 1_000;
            self.primary = passes(down as u32);
        }
    }

    #[inline]
    fn look_now(&mut self) {
        if self.parameters.period == Time::ZERO {
            self.decide(self.working().into(), self.workers().into());
        }
    }
}

impl Policy for KnightShift {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.meter(now);
        self.machines.note(event);
        match event {
            Event::Arrive => {
                self.machines.send(self.serving);
                if self.serving == Side::Small {
                    self.look_now();
                }
            }
            Event::Finish { .. } => {
                if self.serving == Side::Big {
                    self.look_now();
                }
                self.settle(now);
            }
            Event::Asleep { .. } => {}
            _ => self.settle(now),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.meter(now);
        self.look = now + self.parameters.period;
        let span = u64::from(self.workers()) * (now.0 - self.since.0);
        if span > 0 {
            self.decide(self.busy.0, span);
        }
        self.restart(now);
        self.settle(now);
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        (self.parameters.period > Time::ZERO).then_some(self.look)
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = self.machines.snapshot();
        state.push(("primary_wanted", self.primary.into()));
        state.push(("primary_serves", (self.serving == Side::Big).into()));
        state
    }
}

impl Steering for KnightShift {}
