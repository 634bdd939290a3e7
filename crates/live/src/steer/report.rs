//! What a proxy has done, for people and programs. All times are measured here.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use halfwink_engine::Histogram;
use halfwink_policy::steering::Side;
use serde::Serialize;

use super::machine::Counts;
use super::meter::{Residency, State};
use super::shared::{Outcome, Shared};

/// Counts and times since the start.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Since the start, in seconds.
    pub duration_s: f64,
    /// Where it listens.
    pub listen: String,
    /// What became of connections and requests, by name: each that was `received` is also one of
    /// `answered`, `refused`, `slow`, `client_gone`, `overloaded`, `unreachable`, `bad_gateway`,
    /// `gateway_timeout`, `truncated`, `aborted`, or under way.
    pub requests: BTreeMap<&'static str, u64>,
    /// Responses by class of their status, `1xx` to `5xx`.
    pub statuses: BTreeMap<&'static str, u64>,
    /// Connections of clients now.
    pub connections: usize,
    /// From a request's coming until a worker had it.
    pub queueing: Latency,
    /// From a request's coming until the end of its answer had come from the machine.
    pub total: Latency,
    /// `small` and `big`.
    pub machines: BTreeMap<&'static str, MachineReport>,
    /// State of the policy, by name.
    pub policy: BTreeMap<&'static str, i64>,
}

/// Times of many requests, in microseconds; none if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// How many.
    pub requests: u64,
    /// Mean.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Longest.
    pub max_us: Option<f64>,
}

/// A machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineReport {
    /// Where it serves.
    pub address: String,
    /// Its power state.
    pub state: State,
    /// Requests in service.
    pub in_service: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// What it has done.
    #[serde(flatten)]
    pub counts: Counts,
    /// Times in its states.
    pub residency: Residency,
}

impl Latency {
    fn of(all: &Histogram) -> Latency {
        let us = |time: Option<halfwink_units::Time>| time.map(|t| t.0 as f64 * 1e-6);
        Latency {
            requests: all.count(),
            mean_us: us(all.mean()),
            p50_us: us(all.quantile(0.5)),
            p99_us: us(all.quantile(0.99)),
            max_us: us(all.max()),
        }
    }
}

pub(super) fn of(shared: &Shared, listen: &str) -> Report {
    let config = shared.config();
    let addresses = [config.small.address.to_string(), config.big.address.to_string()];
    let (now, queueing, total, machines) = shared.dispatch.with(|inner, now| {
        let machines = Side::BOTH.map(|side| {
            let machine = &mut inner.machines[side as usize];
            machine.book(now);
            MachineReport {
                address: addresses[side as usize].clone(),
                state: machine.state,
                in_service: machine.in_service,
                waiting: machine.queue.len(),
                counts: machine.counts,
                residency: machine.meter.residency(),
            }
        });
        (now, inner.queueing.clone(), inner.total.clone(), machines)
    });
    let [small, big] = machines;
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
        queueing: Latency::of(&queueing),
        total: Latency::of(&total),
        machines: BTreeMap::from([("small", small), ("big", big)]),
        policy: shared.dispatch.snapshot().into_iter().collect(),
    }
}
