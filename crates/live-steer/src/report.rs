//! What a proxy has done, for people and programs. All times are measured here.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use halfwink_live::program::ledger::{self, Balance, Length};
use halfwink_live::program::report::Latency;
use halfwink_policy::steering::Side;
use serde::Serialize;

use super::access::Told;
use super::machine::Counts;
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
    /// Reports of the machines, `small` and `big`.
    pub machines: BTreeMap<&'static str, MachineReport>,
    /// State of the policy, by name.
    pub policy: BTreeMap<&'static str, i64>,
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
        self.ledger = self.ledger.without_energy();
        self
    }
}

/// Joules, and watts in the mean, of the described machines: modelled, nothing reads a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Modelled {
    /// Energy of the small machine, in joules.
    pub small_j: f64,
    /// Energy of the big machine, in joules.
    pub big_j: f64,
    /// Energy of both, in joules.
    pub energy_j: f64,
    /// The big machine alone, never asleep: as if idle when it slept.
    pub always_big_j: f64,
    /// Energy of both if they never slept, in joules.
    pub always_on_j: f64,
    /// Power of `small_j`, in watts.
    pub small_w: f64,
    /// Power of `big_j`, in watts.
    pub big_w: f64,
    /// Power of `energy_j`, in watts.
    pub energy_w: f64,
    /// Power of `always_big_j`, in watts.
    pub always_big_w: f64,
    /// Power of `always_on_j`, in watts.
    pub always_on_w: f64,
}

impl Modelled {
    /// Converts the energies of the small and the big machine, each `[as it was, never asleep]` in
    /// joules.
    fn of(small: [f64; 2], big: [f64; 2], duration_s: f64) -> Modelled {
        let per_s = |joules: f64| joules / duration_s.max(1e-9);
        let ([small_j, small_on], [big_j, big_on]) = (small, big);
        let (energy_j, always_on_j) = (small_j + big_j, small_on + big_on);
        Modelled {
            small_j,
            big_j,
            energy_j,
            always_big_j: big_on,
            always_on_j,
            small_w: per_s(small_j),
            big_w: per_s(big_j),
            energy_w: per_s(energy_j),
            always_big_w: per_s(big_on),
            always_on_w: per_s(always_on_j),
        }
    }
}

/// Report of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineReport {
    /// Address of its server.
    pub address: String,
    /// Power state of the machine.
    pub state: State,
    /// Number of requests in service.
    pub in_service: usize,
    /// Number of waiting requests.
    pub waiting: usize,
    /// Counters of the machine.
    #[serde(flatten)]
    pub counts: Counts,
    /// Times in its states.
    pub residency: Residency,
}

/// `began`: between which moments the proxy did, by a clock that its machines do not read.
pub(super) fn of(shared: &Shared, listen: &str, began: [Instant; 2]) -> Report {
    let config = shared.config();
    let addresses = [config.small.address.to_string(), config.big.address.to_string()];
    let read = |inner: &mut super::steps::Inner, now| {
        let machines = Side::BOTH.map(|side| {
            let machine = inner.of(side);
            machine.book(now);
            MachineReport {
                address: addresses[side.index_in_pair()].clone(),
                state: if machine.is_held(now) { State::On } else { machine.state },
                in_service: machine.in_service,
                waiting: machine.queue.len(),
                counts: machine.counts,
                residency: machine.meter.residency(),
            }
        });
        let meters = Side::BOTH.map(|side| inner.of(side).meter.clone());
        (now, inner.queueing.clone(), inner.total.clone(), machines, meters)
    };
    let ((now, queueing, total, machines, meters), length) =
        Length::while_reading(began, || shared.dispatch.with(read));
    let (policy, steps_back) =
        shared.dispatch.with(|inner, _| (inner.policy.snapshot(), inner.policy.steps_back()));
    let [small, big] = machines;
    let [small_j, big_j] = meters.each_ref().map(Meter::joules);
    let accounts = vec![meters[0].account("small"), meters[1].account("big")];
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
        machines: BTreeMap::from([("small", small), ("big", big)]),
        policy: policy.into_iter().collect(),
        steps_back,
        modelled: Some(Modelled::of(small_j, big_j, now.as_s())),
        ledger: ledger::close(length, accounts, None),
    }
}
