//! Traffic by a description: open arrivals, patterns, iterations of training jobs.

use halfwink_engine::{draw, stream, Law, Sampler};
use halfwink_units::Time;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::collective::{add, Collective, Members};
use super::traffic::{Flow, Traffic, ALONE};
use super::Racks;

/// Most flows of a description.
pub(super) const MOST_FLOWS: f64 = 2e7;

/// Description of the traffic of racks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// Flows that come at any time, from any server to any of another rack.
    Open {
        /// Version of the format: 1.
        schema: u32,
        /// Title in one line.
        title: String,
        /// Distribution of flow sizes, in bytes.
        bytes: Law,
    },
    /// Every server to every other, all at once.
    Pairs {
        /// Version of the format: 1.
        schema: u32,
        /// Title in one line.
        title: String,
        /// Bytes for each pair.
        bytes: f64,
    },
    /// Every server to the one so many racks on, all at once.
    Permutation {
        /// Version of the format: 1.
        schema: u32,
        /// Title in one line.
        title: String,
        /// Bytes of each server.
        bytes: f64,
        /// Distance between source and destination, in racks.
        shift: u16,
    },
    /// Iterations of a training job.
    Job {
        /// Version of the format: 1.
        schema: u32,
        /// Title in one line.
        title: String,
        /// Number of iterations, one after the other.
        iterations: u32,
        /// Steps of an iteration.
        step: Vec<Step>,
    },
    /// An execution trace of a training job: a file for each rank ([`super::chakra`]).
    Trace {
        /// Version of the format: 1.
        schema: u32,
        /// Title in one line.
        title: String,
        /// The file of any rank, or their folder, beside the description.
        trace: String,
        /// Number of consecutive ranks on a server. It is checked when the files are read.
        #[serde(default = "one")]
        ranks_per_server: i64,
    },
}

/// A step of an iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `ring-all-reduce`, `tree-all-reduce`, `reduce-scatter`, `all-gather`, `all-to-all` or
    /// `pipeline`; none if it only computes.
    #[serde(default)]
    pub what: Option<Collective>,
    /// Data of each server, in megabytes.
    #[serde(default)]
    pub mb: f64,
    /// Servers of a group follow each other, so many.
    #[serde(default)]
    pub among: Option<u32>,
    /// Servers of a group are so far apart.
    #[serde(default)]
    pub every: Option<u32>,
    /// Number of repetitions, one after the other.
    #[serde(default = "once")]
    pub times: u32,
    /// Time that each server computes after it, in milliseconds.
    #[serde(default)]
    pub compute_ms: f64,
}

fn once() -> u32 {
    1
}

fn one() -> i64 {
    1
}

/// Amount of traffic of an open workload.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Share of servers' rate that is asked for.
    pub load: f64,
    /// Time during which flows arrive.
    pub duration: Time,
    /// Seed of the random streams.
    pub seed: u64,
}

impl Workload {
    /// Returns the title in one line.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Workload::Open { title, .. }
            | Workload::Pairs { title, .. }
            | Workload::Permutation { title, .. }
            | Workload::Job { title, .. }
            | Workload::Trace { title, .. } => title,
        }
    }

    /// Returns whether [`Amount`] applies to the workload.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Workload::Open { .. })
    }

    /// Checks that the version of the format is known.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self) -> Result<(), String> {
        let schema = match self {
            Workload::Open { schema, .. }
            | Workload::Pairs { schema, .. }
            | Workload::Permutation { schema, .. }
            | Workload::Job { schema, .. }
            | Workload::Trace { schema, .. } => *schema,
        };
        if schema != 1 {
            return Err(format!("schema: found {schema}, expected 1"));
        }
        Ok(())
    }

    /// Creates the flows between the servers of these racks.
    ///
    /// # Errors
    /// What of it is impossible there.
    pub fn traffic(&self, racks: &Racks, amount: Amount) -> Result<Traffic, String> {
        self.check()?;
        let mut traffic = match self {
            Workload::Open { bytes, .. } => open(racks, bytes, amount)?,
            Workload::Pairs { bytes, .. } => pairs(racks, size("bytes", *bytes)?)?,
            Workload::Permutation { bytes, shift, .. } => {
                permutation(racks, size("bytes", *bytes)?, *shift)?
            }
            Workload::Job { iterations, step, .. } => job(racks, *iterations, step)?,
            // Whoever has files reads it from them.
            Workload::Trace { trace, .. } => return Err(format!("{trace}: a trace is files")),
        };
        traffic.close();
        Ok(traffic)
    }
}

fn size(name: &str, bytes: f64) -> Result<f64, String> {
    if (1.0..=1e15).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("{name}: found {bytes}, expected 1 to 1e15"))
}

fn not_too_many(flows: f64) -> Result<(), String> {
    if flows <= MOST_FLOWS {
        return Ok(());
    }
    Err(format!("{flows:.0} flows, expected at most {MOST_FLOWS}"))
}

fn open(racks: &Racks, bytes: &Law, amount: Amount) -> Result<Traffic, String> {
    let sampler = Sampler::new(bytes).map_err(|error| format!("bytes: {error}"))?;
    let servers = racks.all_servers();
    // Gb/s are 125e6 B/s.
    let rate = servers as f64 * racks.server_gbps * racks.goodput * 125e6 * amount.load;
    let gap_ns = 1e9 * sampler.mean() / rate;
    // By the mean, before any flow is drawn: a wrong unit in a description would otherwise fill
    // memory.
    not_too_many(amount.duration.as_ns() / gap_ns)?;
    let (mut times, mut sizes, mut places) = (
        stream(amount.seed, "flows.times"),
        stream(amount.seed, "flows.bytes"),
        stream(amount.seed, "flows.places"),
    );
    let (mut traffic, mut at_ns) = (Traffic::default(), 0.0);
    let in_rack = u32::from(racks.servers);
    loop {
        at_ns += gap_ns * draw::exponential(&mut times);
        let after = Time::from_ns(at_ns);
        if after > amount.duration {
            return Ok(traffic);
        }
        let from = places.random_range(0..servers);
        // Any server of another rack: as many places on as are not in this one.
        let first = (from / in_rack + 1) * in_rack;
        let to = (first + places.random_range(0..servers - in_rack)) % servers;
        // Rounded to whole bytes; distributions may draw less than one, which is no flow.
        let bytes = sampler.draw(&mut sizes).round().max(1.0);
        traffic.add(Flow { from, to, bytes, after, group: ALONE }, &[]);
    }
}

fn pairs(racks: &Racks, bytes: f64) -> Result<Traffic, String> {
    let servers = racks.all_servers();
    not_too_many(f64::from(servers) * f64::from(servers))?;
    let mut traffic = Traffic::default();
    let group = traffic.group();
    for from in 0..servers {
        for to in (0..servers).filter(|&to| to != from) {
            traffic.add(Flow { from, to, bytes, after: Time::ZERO, group }, &[]);
        }
    }
    Ok(traffic)
}

fn permutation(racks: &Racks, bytes: f64, shift: u16) -> Result<Traffic, String> {
    // A shift by all racks is every server to itself.
    if shift.is_multiple_of(racks.count) {
        return Err(format!("shift: found {shift}, a multiple of {} racks", racks.count));
    }
    let (servers, mut traffic) = (racks.all_servers(), Traffic::default());
    let group = traffic.group();
    for from in 0..servers {
        let to = (from + u32::from(shift) * u32::from(racks.servers)) % servers;
        traffic.add(Flow { from, to, bytes, after: Time::ZERO, group }, &[]);
    }
    Ok(traffic)
}

fn job(racks: &Racks, iterations: u32, steps: &[Step]) -> Result<Traffic, String> {
    let servers = racks.all_servers();
    let (mut traffic, mut after) = (Traffic::default(), vec![vec![]; servers as usize]);
    for (n, step) in steps.iter().enumerate() {
        step.check(servers).map_err(|error| format!("step {}: {error}", n + 1))?;
    }
    for _ in 0..iterations {
        let group = traffic.group();
        for step in steps {
            for _ in 0..step.times {
                step.add(&mut traffic, servers, group, &mut after);
                not_too_many(traffic.flows().len() as f64)?;
            }
        }
    }
    if traffic.flows().is_empty() {
        return Err("nothing to do: expected iterations and steps".to_owned());
    }
    Ok(traffic)
}

impl Step {
    fn check(&self, servers: u32) -> Result<(), String> {
        match self.what {
            Some(_) => size("mb", self.mb * 1e6).map(|_| ())?,
            None if self.mb != 0.0 => return Err("mb without `what`".to_owned()),
            None => {}
        }
        if !(0.0..=1e9).contains(&self.compute_ms) {
            return Err(format!("compute_ms: found {}, expected 0 to 1e9", self.compute_ms));
        }
        if self.among.is_some() && self.every.is_some() {
            return Err("expected `among` or `every`, not both".to_owned());
        }
        for (name, value) in [("among", self.among), ("every", self.every)] {
            let Some(value) = value else { continue };
            if value == 0 || !servers.is_multiple_of(value) {
                let message = format!("{name}: found {value}, expected a divisor of {servers}");
                return Err(message);
            }
        }
        Ok(())
    }

    fn groups(&self, servers: u32) -> Vec<Vec<u32>> {
        match (self.among, self.every) {
            (Some(count), _) => {
                (0..servers / count).map(|n| (n * count..(n + 1) * count).collect()).collect()
            }
            (_, Some(apart)) => {
                (0..apart).map(|n| (n..servers).step_by(apart as usize).collect()).collect()
            }
            _ => vec![(0..servers).collect()],
        }
    }

    fn add(&self, traffic: &mut Traffic, servers: u32, group: u32, after: &mut [Vec<u32>]) {
        if let Some(what) = self.what {
            for members in self.groups(servers) {
                let before: Vec<_> = members.iter().map(|&n| after[n as usize].clone()).collect();
                let bytes = self.mb * 1e6;
                let given =
                    Members { servers: &members, bytes, uneven: &[], group, after: &before };
                let last = add(traffic, what, &given);
                for (&server, last) in members.iter().zip(last) {
                    after[server as usize] = last;
                }
            }
        }
        if self.compute_ms > 0.0 {
            let time = Time::from_ns(1e6 * self.compute_ms);
            for (server, before) in (0..servers).zip(after) {
                let flow = Flow { from: server, to: server, bytes: 0.0, after: time, group };
                *before = vec![traffic.add(flow, before)];
            }
        }
    }
}
