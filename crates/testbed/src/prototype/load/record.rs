//! What became of the requests.

use std::collections::BTreeMap;
use std::io::{self, Write};

use halfwink_engine::Histogram;
use halfwink_units::Time;
use serde::Serialize;

use super::client::{Answer, Failure};
use crate::prototype::report::Seconds;
use crate::traffic::monotonic_ns;

/// A request that is sent later than this after it was due is late, in nanoseconds.
const LATE_NS: u64 = 1_000_000;

/// Outcome of one request. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Due time, from the start.
    pub at_ns: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Time from the due time until the end of its answer.
    pub latency_ns: u64,
    /// Time from sending until the end of its answer; 0 if it was not answered.
    pub service_ns: u64,
    /// Status of the answer; 0 without one.
    pub status: u16,
    /// Backend that answered: a number of [`Outcome::names`], if it is known.
    pub backend: Option<u16>,
}

/// All that was found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Sums over all requests.
    pub found: Found,
    /// Every request, in the order in which they were due, if they were to be kept.
    pub records: Vec<Record>,
    /// Names of those who answered.
    pub names: Vec<String>,
}

/// Sums of a load, measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Found {
    /// Requests that were due and counted.
    pub requests: u64,
    /// Number of requests answered correctly.
    pub answered: u64,
    /// All others by kind: connect, closed, timeout, length, status-..., unsent, ...
    pub errors: BTreeMap<String, u64>,
    /// Seconds from the start until the schedule's end or the last answer, whichever is later.
    pub seconds: f64,
    /// `requests` per second of the schedule.
    pub offered_per_s: f64,
    /// Rate of `answered`, per second.
    pub answered_per_s: f64,
    /// Time from the due time until the end of the answer, of answered requests.
    pub latency_s: Seconds,
    /// Time from sending until the end of the answer.
    pub service_s: Seconds,
    /// Delay of sending, as the request waited for a connection or the generator was late.
    pub lateness_s: Seconds,
    /// Requests that were sent more than a millisecond late.
    pub late: u64,
    /// Requests that found no free connection.
    pub waited: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes of all answers.
    pub bytes: u64,
    /// Backends that answered, if they name themselves.
    pub backends: Vec<Backend>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Start, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Processor time of the generator, in seconds.
    pub cpu_s: f64,
}

/// One of those who answered.
#[derive(Clone, Debug, Serialize)]
pub struct Backend {
    /// Name of the backend.
    pub name: String,
    /// Time from the due time until the end of the answer.
    pub latency_s: Seconds,
    /// Time from sending until the end of the answer.
    pub service_s: Seconds,
}

impl Outcome {
    /// Writes the records as CSV: `at_s,bytes,latency_s,service_s,status,backend`, times to the
    /// nanosecond.
    ///
    /// # Errors
    /// As the writer says.
    pub fn write_csv(&self, mut to: impl Write) -> io::Result<()> {
        writeln!(to, "at_s,bytes,latency_s,service_s,status,backend")?;
        let s = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        for r in &self.records {
            let backend = r.backend.map_or("", |n| self.names[usize::from(n)].as_str());
            let (at, latency, service) = (s(r.at_ns), s(r.latency_ns), s(r.service_ns));
            writeln!(to, "{at},{},{latency},{service},{},{backend}", r.bytes, r.status)?;
        }
        to.flush()
    }
}

/// Counts on the way.
#[derive(Default)]
pub(super) struct Tally {
    start_ns: u64,
    warm_ns: u64,
    keep: bool,
    last_ns: u64,
    last_due_ns: u64,
    latency: Histogram,
    service: Histogram,
    lateness: Histogram,
    by_backend: Vec<(Histogram, Histogram)>,
    outcome: Outcome,
}

impl Tally {
    pub fn new(start_ns: u64, warm_ns: u64, keep: bool) -> Tally {
        Tally { start_ns, warm_ns, keep, ..Tally::default() }
    }

    fn counts(&self, due_ns: u64) -> bool {
        due_ns >= self.start_ns + self.warm_ns
    }

    pub fn offered(&mut self, due_ns: u64) {
        self.last_due_ns = due_ns;
        if self.counts(due_ns) {
            self.outcome.found.requests += 1;
        }
    }

    pub fn waited(&mut self) {
        self.outcome.found.waited += 1;
    }

    /// A request has ended; `known` are the bytes of its file, if it was not answered.
    pub fn ended(&mut self, due_ns: u64, known: u64, answer: Result<Answer, Failure>) {
        let now = monotonic_ns();
        self.last_ns = self.last_ns.max(now);
        let connected = answer.as_ref().is_ok_and(|a| a.connected);
        self.outcome.found.connections += u64::from(connected);
        if !self.counts(due_ns) {
            return;
        }
        let mut record = Record {
            at_ns: due_ns.saturating_sub(self.start_ns),
            bytes: known,
            latency_ns: now.saturating_sub(due_ns),
            service_ns: 0,
            status: 0,
            backend: None,
        };
        match answer {
            Err(kind) => self.failed(kind.to_owned()),
            Ok(answer) => {
                record.bytes = answer.file_bytes;
                record.service_ns = answer.service_ns;
                record.latency_ns = (answer.sent_ns + answer.service_ns).saturating_sub(due_ns);
                record.status = answer.status;
                record.backend = answer.backend.as_deref().map(|name| self.backend(name));
                self.answered(due_ns, &answer, &record);
            }
        }
        if self.keep {
            self.outcome.records.push(record);
        }
    }

    fn failed(&mut self, kind: String) {
        *self.outcome.found.errors.entry(kind).or_default() += 1;
    }

    fn answered(&mut self, due_ns: u64, answer: &Answer, record: &Record) {
        let late_ns = answer.sent_ns.saturating_sub(due_ns);
        let found = &mut self.outcome.found;
        found.bytes += answer.body_bytes;
        found.late += u64::from(late_ns > LATE_NS);
        self.lateness.record(Time::ns(late_ns));
        if !(200..300).contains(&answer.status) {
            return self.failed(format!("status-{}", answer.status));
        }
        if answer.wrong_length {
            return self.failed("length".to_owned());
        }
        found.answered += 1;
        let (latency, service) = (Time::ns(record.latency_ns), Time::ns(record.service_ns));
        self.latency.record(latency);
        self.service.record(service);
        if let Some(n) = record.backend {
            let (latencies, services) = &mut self.by_backend[usize::from(n)];
            latencies.record(latency);
            services.record(service);
        }
    }

    /// Number of a name.
    fn backend(&mut self, name: &str) -> u16 {
        let names = &mut self.outcome.names;
        let at = names.iter().position(|n| n == name).unwrap_or_else(|| {
            // A server that makes names up gets one for all the rest.
            if names.len() < 255 {
                names.push(name.to_owned());
                self.by_backend.push(Default::default());
            }
            names.len() - 1
        });
        at as u16
    }

    /// `length_ns` is the schedule's, if it was played to its end.
    pub fn outcome(self, length_ns: Option<u64>, stopped: bool) -> Outcome {
        let mut outcome = self.outcome;
        let found = &mut outcome.found;
        let offered_ns =
            length_ns.unwrap_or_else(|| self.last_due_ns.saturating_sub(self.start_ns));
        let ran_ns = self.last_ns.saturating_sub(self.start_ns).max(offered_ns);
        let per_s = |count: u64, ns: u64| {
            count as f64 / (ns.saturating_sub(self.warm_ns).max(1) as f64 / 1e9)
        };
        found.seconds = ran_ns as f64 / 1e9;
        found.offered_per_s = per_s(found.requests, offered_ns);
        found.answered_per_s = per_s(found.answered, ran_ns);
        found.latency_s = Seconds::of(&self.latency);
        found.service_s = Seconds::of(&self.service);
        found.lateness_s = Seconds::of(&self.lateness);
        found.start_ns = self.start_ns;
        found.stopped = stopped;
        found.backends = outcome
            .names
            .iter()
            .zip(&self.by_backend)
            .map(|(name, (latencies, services))| Backend {
                name: name.clone(),
                latency_s: Seconds::of(latencies),
                service_s: Seconds::of(services),
            })
            .collect();
        outcome.records.sort_by_key(|record| record.at_ns);
        outcome
    }
}
