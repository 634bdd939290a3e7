//! What a proxy has done, for people and programs. All times are measured here.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use halfwink_live::program::ledger::{self, Balance, Length};
use halfwink_live::program::report::Latency;
use halfwink_live::program::stand_in::PolicyFaults;
use halfwink_units::Time;
use serde::Serialize;

use super::access::Told;
use super::machine::{Counts, Machine};
use super::memory::Waiting;
use super::meter::{Meter, Residency, State};
use super::shared::{Outcome, Shared};

/// Counts and times since the start.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Since the start, in seconds.
    pub duration_s: f64,
    /// Address that it listens on.
    pub listen: String,
    /// Outcomes of connections and requests, by name: each that was `received` is also one of
    /// `answered`, `refused`, `slow`, `client_gone`, `overloaded`, `unreachable`, `bad_gateway`,
    /// `gateway_timeout`, `truncated`, `aborted`, or under way.
    pub requests: BTreeMap<&'static str, u64>,
    /// Responses by class of their status, `1xx` to `5xx`.
    pub statuses: BTreeMap<&'static str, u64>,
    /// Connections of clients now.
    pub connections: usize,
    /// Memory that waits for clients.
    pub memory: Waiting,
    /// Lines of the access log; null if there is none.
    pub access_log: Option<Told>,
    /// Time from a request's arrival until a worker had it.
    pub queueing: Latency,
    /// Time from a request's arrival until the end of its answer from the machine.
    pub total: Latency,
    /// Reports of the machines by their names: `small` and `big` for a pair.
    pub machines: BTreeMap<String, MachineReport>,
    /// State of the policy, by name.
    pub policy: BTreeMap<&'static str, i64>,
    /// Faults of policies in files.
    #[serde(flatten)]
    pub faults: PolicyFaults,
    /// Times that the clock stepped back, and stood still for the policy.
    pub steps_back: u64,
    /// Modelled energy of the described machines; null without a description.
    pub modelled: Option<Modelled>,
    /// Measured time and modelled energy by component, state and cause.
    pub ledger: Balance,
}

impl Report {
    /// Drops all energies: no model gave watts.
    pub(super) fn without_energy(mut self) -> Report {
        self.modelled = None;
        self.machines.values_mut().for_each(|machine| machine.modelled = None);
        self.ledger = self.ledger.without_energy();
        self
    }
}

/// Joules, and watts in the mean, of described machines: modelled, nothing reads a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Modelled {
    /// Energy of the time that has passed, in joules.
    pub energy_j: f64,
    /// Energy if they never slept, in joules: as if idle when they slept.
    pub always_on_j: f64,
    /// Power of `energy_j`, in watts.
    pub energy_w: f64,
    /// Power of `always_on_j`, in watts.
    pub always_on_w: f64,
}

impl Modelled {
    /// Converts energies in joules, `[as it was, never asleep]`.
    fn of([energy_j, always_on_j]: [f64; 2], duration_s: f64) -> Modelled {
        let per_s = |joules: f64| joules / duration_s.max(1e-9);
        Modelled {
            energy_j,
            always_on_j,
            energy_w: per_s(energy_j),
            always_on_w: per_s(always_on_j),
        }
    }
}

/// Report of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineReport {
    /// Place in the order of activation, from 0.
    pub place: usize,
    /// Address of its server.
    pub address: String,
    /// Power state of the machine.
    pub state: State,
    /// Level of sleep, from 1; 0 unless it is asleep.
    pub level: usize,
    /// Number of requests in service.
    pub in_service: usize,
    /// Number of waiting requests.
    pub waiting: usize,
    /// Counters of the machine.
    #[serde(flatten)]
    pub counts: Counts,
    /// Times in its states.
    pub residency: Residency,
    /// Modelled energy; null without a description.
    pub modelled: Option<Modelled>,
}

/// State of a machine that a report takes while the lock is held.
struct Read {
    state: State,
    level: usize,
    levels: usize,
    in_service: usize,
    waiting: usize,
    counts: Counts,
    meter: Meter,
}

impl Read {
    fn of(machine: &Machine, now: Time) -> Read {
        Read {
            state: if machine.is_held(now) { State::On } else { machine.state },
            level: if machine.state == State::Asleep { machine.level + 1 } else { 0 },
            levels: machine.levels,
            in_service: machine.in_service,
            waiting: machine.queue.len(),
            counts: machine.counts,
            meter: machine.meter.clone(),
        }
    }
}

/// `began`: between which moments the proxy did, by a clock that its machines do not read.
pub(super) fn of(shared: &Shared, listen: &str, began: [Instant; 2]) -> Report {
    let config = shared.config();
    let read = |inner: &mut super::steps::Inner, now| {
        inner.machines.iter_mut().for_each(|machine| machine.book(now));
        let machines: Vec<_> = inner.machines.iter().map(|m| Read::of(m, now)).collect();
        (now, inner.queueing.clone(), inner.total.clone(), machines)
    };
    let ((now, queueing, total, machines), length) =
        Length::while_reading(began, || shared.dispatch.with(read));
    let (policy, steps_back, faults) = shared.dispatch.with(|inner, _| {
        (inner.policy.snapshot(), inner.policy.steps_back(), inner.watch.faults())
    });
    let (mut joules, mut accounts, mut reports) = ([0.0; 2], Vec::new(), BTreeMap::new());
    for (side, read) in config.sides().zip(machines) {
        let own = read.meter.joules();
        (joules[0], joules[1]) = (joules[0] + own[0], joules[1] + own[1]);
        let name = config.name(side);
        accounts.push(read.meter.account(name));
        let report = MachineReport {
            place: side.index(),
            address: config.machine(side).address.to_string(),
            state: read.state,
            level: read.level,
            in_service: read.in_service,
            waiting: read.waiting,
            counts: read.counts,
            residency: read.meter.residency(read.levels),
            modelled: Some(Modelled::of(own, now.as_s())),
        };
        reports.insert(name.to_owned(), report);
    }
    let count = |(outcome, name): (Outcome, &'static str)| {
        (name, shared.counts[outcome as usize].load(Ordering::Relaxed))
    };
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
    Report {
        duration_s: now.0 as f64 * 1e-12,
        listen: listen.to_owned(),
        requests: Outcome::ALL.into_iter().map(count).collect(),
        statuses: (1..)
            .zip(classes)
            .map(|(n, c)| (c, shared.classes[n].load(Ordering::Relaxed)))
            .collect(),
        connections: shared.connections.load(Ordering::Relaxed),
        memory: shared.memory.waiting(),
        access_log: shared.access().map(|access| access.told()),
        queueing: Latency::of(&queueing),
        total: Latency::of(&total),
        machines: reports,
        policy: policy.into_iter().collect(),
        faults,
        steps_back,
        modelled: Some(Modelled::of(joules, now.as_s())),
        ledger: ledger::close(length, accounts, None),
    }
}
