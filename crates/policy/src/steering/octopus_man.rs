//! Octopus-Man: the cheapest machine that meets a target for the tail of the response time.
//!
//! ```text
//!   every period, of the requests done in it, the tail (p95) against the target:
//!     above danger x target ─▶ one rung up       small ─▶ big (─▶ both)
//!     below safe x target   ─▶ one rung down     small ◀─ big (◀─ both)
//! ```
//!
//! After Petrucci et al., "Octopus-Man: QoS-driven task management for heterogeneous multicores in
//! warehouse-scale computers" (HPCA 2015): its feedback controller with a danger and a safe zone.
//! The abstract was at hand, not the text: zones and ladder are Octopus-Man's; their bounds
//! and the period are assumptions. Its ladder has many rungs of like cores and never mixes small
//! and big ones; with two machines it has two rungs, and `both` is an addition.
//!
//! Deviations: there all cores are on, here a machine that the rung does not need sleeps once it is
//! drained. While the machines of a new rung wake, the old rung serves, and nothing is measured.
//! There what waits moves along with the rung, here it ends where it began, and counts. A safe zone
//! that is too wide makes it swing between the rungs, as the rule knows nothing of what the lower
//! one can carry.
//!
//! A percentile is only ever compared with two bounds, so it needs no histogram: the tail is above
//! a bound if, and only if, more than its share of the requests is. Two counters are exact.

use halfwink_units::Time;

use super::machines::Machines;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Parameters of Octopus-Man.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OctopusManParameters {
    /// Wanted tail of the response time.
    pub target: Time,
    /// Which tail: so many of a thousand requests are faster.
    pub tail_permille: u32,
    /// Above so many per cent of the target: a rung up.
    pub danger_percent: u32,
    /// Below so many per cent of the target: a rung down.
    pub safe_percent: u32,
    /// Interval between checks.
    pub period: Time,
    /// Whether there is a rung of both machines.
    pub both: bool,
    /// Share of the requests that each machine gets on the rung of both: loads are kept in this
    /// proportion, small one first.
    pub shares: [u32; 2],
}

impl OctopusManParameters {
    /// Returns parameters for this target: its p95, danger above 80 % of it, safe below 30 %, each
    /// second, two rungs (assumptions).
    #[must_use]
    pub fn published(target: Time) -> OctopusManParameters {
        OctopusManParameters {
            target,
            tail_permille: 950,
            danger_percent: 80,
            safe_percent: 30,
            period: Time::ns(1_000_000_000),
            both: false,
            shares: [1, 3],
        }
    }
}

/// Set of machines that serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Small,
    Big,
    Both,
}

impl Rung {
    fn has(self, side: Side) -> bool {
        match self {
            Rung::Small => side == Side::Small,
            Rung::Big => side == Side::Big,
            Rung::Both => true,
        }
    }

    fn up(self, both: bool) -> Rung {
        match self {
            Rung::Small => Rung::Big,
            Rung::Big if both => Rung::Both,
            highest => highest,
        }
    }

    fn down(self) -> Rung {
        match self {
            Rung::Both => Rung::Big,
            _ => Rung::Small,
        }
    }
}

/// Requests of a period.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    done: u64,
    above_danger: u64,
    /// At the safe bound or above it.
    not_safe: u64,
}

/// Policy of Octopus-Man.
#[derive(Clone, Debug)]
pub struct OctopusMan {
    parameters: OctopusManParameters,
    danger: Time,
    safe: Time,
    machines: Machines,
    /// The rung that is wanted.
    rung: Rung,
    /// The rung that serves: another one only until the wanted one is awake.
    serving: Rung,
    tail: Tail,
    look: Time,
}

impl OctopusMan {
    /// Starts on the big machine; the small one sleeps.
    ///
    /// # Panics
    /// If the period is zero, or safe is not below danger.
    #[must_use]
    pub fn new(parameters: OctopusManParameters) -> OctopusMan {
        let p = parameters;
        assert!(p.period > Time::ZERO, "a period");
        assert!(p.safe_percent < p.danger_percent, "safe below danger");
        let percent = |n: u32| Time((u128::from(p.target.0) * u128::from(n) / 100) as u64);
        let mut policy = OctopusMan {
            parameters,
            danger: percent(p.danger_percent),
            safe: percent(p.safe_percent),
            machines: Machines::NEW,
            rung: Rung::Big,
            serving: Rung::Big,
            tail: Tail::default(),
            look: p.period,
        };
        policy.settle();
        policy
    }

    /// The wanted rung serves if it is awake; who serves no more sleeps.
    #[inline]
    fn settle(&mut self) {
        if self.serving != self.rung {
            let awake = |side| !self.rung.has(side) || self.machines.is_on(side);
            if Side::BOTH.into_iter().all(awake) {
                self.serving = self.rung;
                self.tail = Tail::default();
            }
        }
        for side in Side::BOTH {
            if !self.rung.has(side) && !self.serving.has(side) {
                self.machines.rest(side);
            }
        }
    }

    /// Returns the machine of the serving rung that gets the request.
    #[inline]
    fn choose(&self) -> Side {
        match self.serving {
            Rung::Small => Side::Small,
            Rung::Big => Side::Big,
            Rung::Both => {
                let [small, big] = self.parameters.shares.map(u64::from);
                let load = |side| u64::from(self.machines.of(side).load);
                if load(Side::Small) * big < load(Side::Big) * small {
                    Side::Small
                } else {
                    Side::Big
                }
            }
        }
    }

    #[inline]
    fn done(&mut self, latency: Time) {
        self.tail.done += 1;
        self.tail.above_danger += u64::from(latency > self.danger);
        self.tail.not_safe += u64::from(latency >= self.safe);
    }

    /// Returns the rung that the tail of the period calls for.
    fn wanted(&self) -> Rung {
        let slow = u64::from(1_000 - self.parameters.tail_permille.min(1_000));
        let beyond = |count: u64| count * 1_000 > self.tail.done * slow;
        let waiting = Side::BOTH.into_iter().any(|side| self.machines.of(side).load > 0);
        if self.tail.done == 0 && waiting {
            return self.rung;
        }
        if beyond(self.tail.above_danger) {
            self.rung.up(self.parameters.both)
        } else if !beyond(self.tail.not_safe) {
            self.rung.down()
        } else {
            self.rung
        }
    }
}

impl Policy for OctopusMan {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, _now: Time, event: &Event) {
        self.machines.note(event);
        match *event {
            Event::Arrive => {
                self.machines.send(self.choose());
            }
            Event::Finish { latency, .. } => {
                // What the former rung still had too: while it is late, the target is missed.
                self.done(latency);
                self.settle();
            }
            Event::Asleep { .. } => {}
            _ => self.settle(),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.look = now + self.parameters.period;
        if self.serving == self.rung {
            self.rung = self.wanted();
            self.tail = Tail::default();
            for side in Side::BOTH {
                if self.rung.has(side) && !self.machines.of(side).lost {
                    self.machines.wake(side);
                }
            }
        }
        self.settle();
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        Some(self.look)
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = self.machines.snapshot();
        state.push(("rung", self.rung as i64));
        state.push(("serving", self.serving as i64));
        state.push(("done", self.tail.done as i64));
        state.push(("above_danger", self.tail.above_danger as i64));
        state
    }
}

impl Steering for OctopusMan {}
