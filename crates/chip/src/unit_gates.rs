//! Power of a core's execution units, where each can be gated (Strong 2013, Sec 2.4).
//!
//! Each unit has a gate and a policy of its own. The policy hears of its unit what that of a core
//! hears of halts: the unit has nothing to do once its last operation has left it, and is needed
//! when an operation could start in it. An operation that needs a gated unit waits until the unit
//! works, and all policies of the core hear of that wait.
//!
//! The pipeline looks at a unit only where its last operation is longer ago than the policy wants
//! to hear of. Only then, and where the core changes its own power state, are the gates brought up
//! to date: nothing else depends on the power of a unit that no operation needs.

use halfwink_policy::gating::{Event, GatingPolicy};
use halfwink_power::CoreState;
use halfwink_units::{Clock, Cycle, Time};

use crate::gate::{Gate, PolicyError};
use crate::gate_spec::GateSpec;
use crate::machine::{Machine, UnitDomain, UnitDomains};
use crate::miss::UNKNOWN;
use crate::uop::{Unit, UNITS};

/// Largest number of units with gates.
const MOST: usize = 3;
/// Place of units that are never gated.
const NONE: u8 = MOST as u8;

/// Times of a unit: gated, and charging.
pub(crate) type Off = [Time; 2];

/// A unit of a core that was gated by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedUnit {
    /// Name of the unit, as in the ledger.
    pub name: &'static str,
    /// Time for which its supply was off.
    pub gated: Time,
    /// Time until its supply was stable again, over all wake-ups.
    pub charging: Time,
    /// Number of times that it was woken.
    pub wakes: u64,
}

/// The gates of a core's units.
pub(crate) struct UnitGates {
    clock: Clock,
    /// Time from the need for a gated unit until it works.
    wake_up: Time,
    /// Longest idle time that no policy hears of.
    shortest: Cycle,
    /// Place of each kind of unit, or [`NONE`]. Ports of the data cache are no execution units.
    places: [u8; UNITS],
    /// Cycle up to which an operation starts without a look at its unit: the end of the unit's last
    /// operation and `shortest`; zero while the unit's policy knows that it is idle.
    fresh: [Cycle; MOST],
    gates: Vec<UnitGate>,
    /// Power state of the core, to which the times of its units are accounted.
    core: CoreState,
    /// The present wait of operations for units: its begin and end.
    wait: Option<(Time, Time)>,
    /// Time that operations waited for a unit, and how often one was needed while gated.
    pub(crate) late: Time,
    pub(crate) late_wakes: u64,
    /// An invalid action of a policy.
    error: Option<PolicyError>,
}

struct UnitGate {
    name: &'static str,
    gate: Gate,
    /// The policy knows that the unit is idle.
    is_idle: bool,
    /// First cycle in which the unit works again, once it is needed; else [`UNKNOWN`].
    ready: Cycle,
    /// Times that are in `off` already.
    seen: Off,
    /// Times by power state of the core.
    off: [Off; CoreState::ALL.len()],
}

impl UnitGates {
    /// Creates the gates of the units of core `index`, which begins at a cycle, with a thread or
    /// `vacant`; none if its machine gates no units.
    pub(crate) fn new(
        machine: &Machine,
        index: usize,
        policies: Vec<GatingPolicy>,
        (begin, vacant): (Cycle, bool),
    ) -> Option<Box<UnitGates>> {
        let places = match machine.fupg.domains {
            UnitDomains::ByUnit => [0, 1, 2, NONE, NONE],
            UnitDomains::One => [0, 0, 0, NONE, NONE],
        };
        let clock = machine.clock;
        let shortest = policies.iter().map(|policy| policy.shortest_idle()).min()?;
        // The last cycle that begins no later.
        let shortest = clock.cycle_at_or_after(shortest + Time(1)) - 1;
        let gate = |(unit, policy): (UnitDomain, GatingPolicy)| {
            let mut gate = Gate::new(index, policy, GateSpec::of_unit(machine, unit), false, None);
            gate.begin(clock.time_of(begin));
            UnitGate {
                name: unit.name,
                gate,
                is_idle: false,
                ready: UNKNOWN,
                seen: Off::default(),
                off: Default::default(),
            }
        };
        Some(Box::new(UnitGates {
            clock,
            wake_up: Time::from_ns(machine.fupg.wake_up_ns),
            shortest,
            places,
            fresh: [begin + shortest; MOST],
            gates: machine.unit_domains().into_iter().zip(policies).map(gate).collect(),
            core: if vacant { CoreState::Idle } else { CoreState::Active },
            wait: None,
            late: Time::ZERO,
            late_wakes: 0,
            error: None,
        }))
    }

    /// Returns whether an operation can start in a unit up to a cycle without a look at its power.
    #[inline]
    pub(crate) fn is_fresh(&self, unit: Unit, cycle: Cycle) -> bool {
        let place = usize::from(self.places[unit as usize]);
        self.fresh.get(place).is_none_or(|&fresh| cycle <= fresh)
    }

    /// Returns the first cycle from `cycle` on in which an operation can start in a unit. One that
    /// is gated begins to wake.
    #[inline]
    pub(crate) fn needed(&mut self, unit: Unit, cycle: Cycle) -> Cycle {
        if self.is_fresh(unit, cycle) {
            return cycle;
        }
        self.look(usize::from(self.places[unit as usize]), cycle)
    }

    /// An operation is in a unit until a cycle.
    #[inline]
    pub(crate) fn used(&mut self, unit: Unit, until: Cycle) {
        let place = usize::from(self.places[unit as usize]);
        if let Some(fresh) = self.fresh.get_mut(place) {
            *fresh = (*fresh).max(until + self.shortest);
        }
    }

    /// Returns the first cycle after `now` in which a unit that is needed works, or [`UNKNOWN`].
    pub(crate) fn next_ready(&self, now: Cycle) -> Cycle {
        let ready = self.gates.iter().map(|unit| unit.ready).filter(|&ready| ready > now);
        ready.min().unwrap_or(UNKNOWN)
    }

    #[cold]
    fn look(&mut self, place: usize, cycle: Cycle) -> Cycle {
        let ready = self.gates[place].ready;
        if ready != UNKNOWN && cycle < ready {
            return ready;
        }
        let now = self.clock.time_of(cycle);
        self.come_to(now);
        let unit = &mut self.gates[place];
        if ready == UNKNOWN {
            debug_assert!(unit.is_idle, "a unit in use needs no look");
            keep(&mut self.error, unit.gate.wait_ends(now, true));
            if !unit.gate.is_powered() {
                // It works from the next edge on at the earliest.
                unit.ready = self.clock.cycle_at_or_after(now + self.wake_up).max(cycle + 1);
                let ready = unit.ready;
                self.wait(now, self.clock.time_of(ready));
                return ready;
            }
        }
        unit.gate.run(now);
        (unit.is_idle, unit.ready) = (false, UNKNOWN);
        self.fresh[place] = cycle + self.shortest;
        cycle
    }

    /// An operation waits from `now` until `end` for a unit to wake. Waits that overlap count once.
    fn wait(&mut self, now: Time, end: Time) {
        self.late_wakes += 1;
        if let Some((_, until)) = &mut self.wait {
            self.late += end.saturating_sub(*until);
            *until = end.max(*until);
            return;
        }
        self.late += end - now;
        self.wait = Some((now, end));
        self.tell(now, &Event::StallBegin);
    }

    /// All policies hear of a wait.
    fn tell(&mut self, at: Time, event: &Event) {
        // What lies before comes first, or a policy would hear it late.
        self.bring_to(at, true);
        for unit in &mut self.gates {
            keep(&mut self.error, unit.gate.deliver(at, event));
        }
    }

    /// Lets all happen that lies before `now`, and the transitions of `now`.
    fn come_to(&mut self, now: Time) {
        if let Some((began, end)) = self.wait.filter(|wait| wait.1 <= now) {
            self.tell(end, &Event::StallEnd { began });
            self.wait = None;
        }
        self.bring_to(now, false);
    }

    /// Brings the gates to `now`. The policies hear of `all` idle times up to then, or of those
    /// that are longer than `shortest`.
    fn bring_to(&mut self, now: Time, all: bool) {
        for (unit, fresh) in self.gates.iter_mut().zip(&mut self.fresh) {
            if !unit.is_idle {
                let left = self.clock.time_of(*fresh - self.shortest);
                let noticed = if all { left } else { self.clock.time_of(*fresh) };
                if noticed >= now {
                    continue;
                }
                // The next operation looks at the unit, whenever it comes.
                (unit.is_idle, *fresh) = (true, 0);
                keep(&mut self.error, unit.gate.wait_begins(left, true));
            }
            while unit.gate.next_time() < now || unit.gate.is_in_transition(now) {
                if !keep(&mut self.error, unit.gate.step(unit.gate.next_time())) {
                    break;
                }
            }
        }
    }

    /// The core is in another power state from `now` on.
    pub(crate) fn enter(&mut self, now: Time, core: CoreState) {
        self.come_to(now);
        for unit in &mut self.gates {
            let residency = unit.gate.residency_at(now);
            let states = [CoreState::Gated, CoreState::Charging];
            for (n, state) in states.into_iter().enumerate() {
                let all = residency[state as usize];
                unit.off[self.core as usize][n] += all - unit.seen[n];
                unit.seen[n] = all;
            }
        }
        self.core = core;
    }

    /// Takes an invalid action of a policy, if there was one.
    pub(crate) fn take_error(&mut self) -> Option<PolicyError> {
        self.error.take()
    }

    /// Returns the times of each unit by power state of the core, and how often it woke.
    pub(crate) fn off(&self) -> impl Iterator<Item = (&[Off; CoreState::ALL.len()], u64)> {
        self.gates.iter().map(|unit| (&unit.off, unit.gate.wakes.total()))
    }

    /// Returns what became of each unit while its core had work.
    pub(crate) fn results(&self) -> Vec<GatedUnit> {
        let unused = CoreState::Unused as usize;
        let of = |unit: &UnitGate| {
            let sum = |n: usize| {
                let states = unit.off.iter().enumerate().filter(|(state, _)| *state != unused);
                states.fold(Time::ZERO, |sum, (_, off)| sum + off[n])
            };
            let wakes = unit.gate.wakes.total();
            GatedUnit { name: unit.name, gated: sum(0), charging: sum(1), wakes }
        };
        self.gates.iter().map(of).collect()
    }
}

/// Keeps the first error of a policy; true if `outcome` is none.
fn keep<T>(first: &mut Option<PolicyError>, outcome: Result<T, PolicyError>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => {
            first.get_or_insert(error);
            false
        }
    }
}
