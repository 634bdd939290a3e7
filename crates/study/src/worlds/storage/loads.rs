//! A user's own load on a machine: jobs of fio, or a block trace.

use std::fs;
use std::path::{Path, PathBuf};

use halfwink_engine::RunControl;
use halfwink_inputs::{expand, open_input, Budget, Opened};
use halfwink_storage::load::{File, Host, Issues, Load, MOST_BYTES};
use halfwink_storage::world::{self, Parts, Setting};
use halfwink_storage::Machine;
use halfwink_techniques::Choice;

use super::job::failed;
use super::StorageInfo;
use crate::error::StudyError;
use crate::parallel::parallel;
use crate::table::{integer, real, text, Head, Table, Value};

/// I/Os of jobs that are counted; as many go before. Of a trace all are, and a tenth goes before.
const IOS: u64 = 20_000;

/// A load to be played.
#[derive(Clone, Debug)]
pub struct LoadAsked {
    /// A job file, the text of blkparse, one of blktrace's files, or a folder with these.
    pub path: PathBuf,
    /// The device's latency, if not what the trace says or the machine has.
    pub latency_us: Option<f64>,
    /// Techniques, with their parameters.
    pub policies: Vec<String>,
    /// A run for each; of a trace that is too long to be played as a whole, each has another part.
    pub seeds: Vec<u64>,
    /// What is left out although it matters, by the word that an error names it with.
    pub ignored: Vec<String>,
}

fn load_heads() -> Vec<Head> {
    vec![
        text("kind"),
        integer("issuers"),
        integer("depth"),
        real("bytes"),
        real("reads_pct"),
        real("iops"),
        real("peak_iops"),
        real("traced_latency_us"),
        real("device_latency_us"),
        integer("phases"),
        text("left_out"),
        text("read_as"),
    ]
}

fn run_heads() -> Vec<Head> {
    let figures = [
        "iops",
        "driver_cpus",
        "busy_cpus",
        "polling_cpus",
        "latency_mean_us",
        "latency_p50_us",
        "latency_p99_us",
        "energy_uj_per_io",
    ];
    [vec![text("policy"), integer("seed")], figures.map(real).to_vec()].concat()
}

/// The files of a load: one, or of a blktrace all of its CPUs.
fn files(path: &Path) -> Result<Vec<File>, StudyError> {
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |error| StudyError::Name(halfwink_techniques::Error::Io { path, error })
    };
    let is_folder = path.is_dir();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let stem = name.as_deref().and_then(|name| name.rsplit_once(".blktrace.")).map(|it| it.0);
    let mut paths = Vec::new();
    if is_folder || stem.is_some() {
        let folder = if is_folder { path } else { path.parent().unwrap_or(Path::new("")) };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        for entry in fs::read_dir(folder).map_err(io(folder))? {
            let entry = entry.map_err(io(folder))?.path();
            let name = entry.file_name().map(|name| name.to_string_lossy().into_owned());
            let parts = name.as_deref().and_then(|name| name.rsplit_once(".blktrace."));
            if parts.is_some_and(|(of, _)| stem.is_none_or(|stem| stem == of)) {
                paths.push(entry);
            }
        }
        paths.sort();
    }
    if !is_folder && paths.is_empty() {
        paths.push(path.to_owned());
    }
    if paths.is_empty() {
        let message = format!("{}: expected files NAME.blktrace.CPU", path.display());
        return Err(StudyError::Usage(message));
    }
    let budget = Budget::new(MOST_BYTES);
    let read = |path: &PathBuf| {
        let bytes = open_input(path, &budget).and_then(Opened::text).and_then(Opened::bytes);
        let bytes = bytes.map_err(|error| StudyError::Usage(error.to_string()))?;
        Ok(File { name: path.display().to_string(), bytes })
    };
    paths.iter().map(read).collect()
}

/// The machine with a device that is as late as the load says.
fn with_latency(info: &StorageInfo, latency_us: Option<f64>) -> Result<Machine, StudyError> {
    let mut spec = info.machine.spec().clone();
    if let Some(latency_us) = latency_us {
        (spec.device.latency_us, spec.device.pcie_us) = (latency_us, 0.0);
    }
    Machine::new(spec).map_err(|error| StudyError::Usage(error.to_string()))
}

impl StorageInfo {
    /// Reads a load once and plays it under policies; on all host cores. First what the load is,
    /// then a row for each policy and seed.
    ///
    /// # Errors
    /// If the load cannot be read, or there is no such policy.
    pub fn load(
        &self,
        asked: &LoadAsked,
        control: &RunControl,
    ) -> Result<(Table, Table), StudyError> {
        let host = Host {
            cpus: u32::from(self.machine.spec().topology.cpus()),
            variable: |name| std::env::var(name).ok(),
            ignored: asked.ignored.clone(),
            ..Host::default()
        };
        let load = Load::read(&files(&expand(&asked.path))?, &host);
        let load = load.map_err(|error| StudyError::Usage(error.to_string()))?;
        let traced = match &load {
            Load::Trace(trace) => trace.latency_us,
            Load::Jobs(_) => None,
        };
        let machine = with_latency(self, asked.latency_us.or(traced))?;
        let mut points = Vec::new();
        for policy in &asked.policies {
            let choice = Choice::parse("storage", policy)?;
            points.extend(asked.seeds.iter().enumerate().map(|(n, &seed)| {
                let part = n as f64 / (asked.seeds.len() as f64 - 1.0).max(1.0);
                (choice.clone(), seed, part)
            }));
        }
        let rows = parallel(&points, |(choice, seed, part)| {
            self.play_load(&machine, &load, choice, (*seed, *part), control)
        });
        let mut runs = Table::new(&run_heads());
        for row in rows {
            runs.push(row?);
        }
        let mut of = Table::new(&load_heads());
        of.push(described(&load, &machine, traced));
        Ok((of, runs))
    }

    fn play_load(
        &self,
        machine: &Machine,
        load: &Load,
        choice: &Choice,
        (seed, part): (u64, f64),
        control: &RunControl,
    ) -> Result<Vec<Value>, StudyError> {
        let issues = load.issues(machine.spec().topology.cpus(), part);
        let (warm_up, ios) = counted(&issues);
        let setting = Setting {
            machine,
            path: world::Path::Driver,
            parts: Parts::All,
            issuers: issues.len() as u16,
            first: 0,
            depth: 1,
            bytes: 512,
            rate: None,
            poisson: false,
            load: Some(&issues),
            warm_up,
            ios,
            seed,
        };
        let run = world::play(&setting, self.policy(choice)?, control).map_err(failed)?;
        let us = |time: Option<halfwink_units::Time>| time.map(|t| t.as_ns() * 1e-3);
        let polling = run.cpus.iter().map(|cpu| cpu.of(|it| it == world::Stage::Polling).as_s());
        let joules = run.books.energy_where(|_| true).as_j();
        Ok(vec![
            choice.to_string().into(),
            seed.into(),
            run.iops().into(),
            run.driver_cpus().into(),
            run.busy_cpus().into(),
            (polling.sum::<f64>() / run.duration.as_s()).into(),
            us(run.latency.mean()).into(),
            us(run.latency.quantile(0.5)).into(),
            us(run.latency.quantile(0.99)).into(),
            (1e6 * joules / run.completed as f64).into(),
        ])
    }
}

/// Returns how many I/Os go before, and how many are counted.
fn counted(issues: &[Issues]) -> (u64, u64) {
    let of = |issues: &Issues| match issues {
        Issues::Closed(_) => 0,
        Issues::Open { requests, .. } => requests.len() as u64,
    };
    match issues.iter().map(of).sum() {
        0 => (IOS, IOS),
        requests => (requests / 10, requests),
    }
}

fn described(load: &Load, machine: &Machine, traced: Option<f64>) -> Vec<Value> {
    let device = &machine.spec().device;
    let issues = load.issues(machine.spec().topology.cpus(), 0.0);
    let left_out = load.account().left_out().join(", ");
    let (kind, depth, bytes, reads, rates, phases) = match load {
        Load::Jobs(jobs) => {
            let busiest = jobs.busiest();
            let weight = |job: &halfwink_storage::load::Job| f64::from(job.copies * job.depth);
            let all: f64 = busiest.iter().map(weight).sum();
            let bytes = busiest.iter().map(|job| weight(job) * job.bytes).sum::<f64>() / all;
            let reads = busiest.iter().map(|job| weight(job) * job.reads).sum::<f64>() / all;
            ("fio", Some(all as u64), bytes, reads, [None; 2], jobs.phases.len() as u64)
        }
        Load::Trace(trace) => {
            let rates = [Some(trace.iops()), Some(trace.peak_iops())];
            ("blktrace", None, trace.bytes(), trace.reads, rates, 1)
        }
    };
    vec![
        kind.to_owned().into(),
        (issues.len() as u64).into(),
        depth.into(),
        bytes.into(),
        (100.0 * reads).into(),
        rates[0].into(),
        rates[1].into(),
        traced.into(),
        (device.latency_us + device.pcie_us).into(),
        phases.into(),
        left_out.into(),
        load.account().to_string().into(),
    ]
}
