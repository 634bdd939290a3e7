//! A user's own load on a machine: jobs of fio, or a block trace.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halfwink_inputs::{expand, open_input, Budget, Opened};
use halfwink_storage::load::{File, Host, Issues, Job, Load, MOST_BYTES};

use super::StorageInfo;
use crate::error::StudyError;
use crate::library::Library;
use crate::table::{integer, real, text, Head, Table};

/// Columns of the table of a load that was read from files.
pub(super) const SOURCE: [Head; 12] = [
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
];

/// A load that was read from files, and the part of it that a run plays.
pub(super) struct Own {
    load: Arc<Load>,
    /// A digest of the files' contents.
    digest: u64,
    /// The I/Os of each CPU that issues.
    pub issues: Vec<Issues>,
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

impl Own {
    /// Reads a job file, a block trace or a folder with the files of one. `ignored` are the words
    /// for what is left out although it matters; `part` is where a trace that is too long begins.
    ///
    /// # Errors
    /// If the load cannot be read: with file and line.
    pub fn read(
        library: &Library,
        path: &str,
        cpus: u16,
        (ignored, part): (&str, f64),
    ) -> Result<Own, StudyError> {
        let place = expand(Path::new(path));
        // A workload without a path gets the usual number of issuing CPUs.
        if path.parse::<u64>().is_ok() && !place.exists() {
            let message =
                format!("workload `file@{path}`: expected `file@PATH`, as `file@job.fio`");
            return Err(StudyError::Usage(message));
        }
        let files = files(&place)?;
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        for file in &files {
            hash.update(&(file.bytes.len() as u64).to_le_bytes());
            hash.update(&file.bytes);
        }
        let digest = hash.digest();
        // Jobs know the number of CPUs and variables of the environment.
        let known: Vec<_> = std::env::vars_os().collect();
        let names: Vec<_> = files.iter().map(|file| &file.name).collect();
        // Names as well, since errors and accounts quote them.
        let key = format!("{digest} {cpus} {ignored} {names:?} {known:?}");
        let load = library.block_load(key, || {
            let host = Host {
                cpus: u32::from(cpus),
                variable: |name| std::env::var(name).ok(),
                ignored: ignored
                    .split(',')
                    .filter(|word| !word.is_empty())
                    .map(str::to_owned)
                    .collect(),
                ..Host::default()
            };
            Load::read(&files, &host).map_err(|error| StudyError::Usage(error.to_string()))
        })?;
        Ok(Own { issues: load.issues(cpus, part), load, digest })
    }

    /// The device's latency that a trace says, in microseconds.
    pub fn traced_us(&self) -> Option<f64> {
        match &*self.load {
            Load::Trace(trace) => trace.latency_us,
            Load::Jobs(_) => None,
        }
    }

    /// I/Os of a trace; none of jobs, which have no end.
    pub fn requests(&self) -> Option<u64> {
        let of = |issues: &Issues| match issues {
            Issues::Closed(_) => 0,
            Issues::Open { requests, .. } => requests.len() as u64,
        };
        Some(self.issues.iter().map(of).sum()).filter(|&requests| requests > 0)
    }

    /// Returns a text that is the same for equal loads.
    pub fn identity(&self) -> String {
        match &*self.load {
            // Variables of the environment stand in files of jobs.
            Load::Jobs(_) => format!("jobs {:?}", self.issues),
            Load::Trace(_) => format!("trace {}", self.digest),
        }
    }

    /// Returns the one row of [`SOURCE`].
    pub fn table(&self, info: &StorageInfo) -> Table {
        let device = &info.machine.spec().device;
        let account = self.load.account();
        let (kind, depth, bytes, reads, rates, phases) = match &*self.load {
            Load::Jobs(jobs) => {
                let jobs_of = jobs.of_cpus(self.issues.len());
                // By Little's law a job with a limit has less in flight than it may have.
                let seconds = 1e-6 * (device.latency_us + device.pcie_us);
                let played = || jobs_of.iter().flatten().copied();
                let weight = |job: &Job| {
                    let depth = f64::from(job.depth);
                    job.rate.map_or(depth, |rate| depth.min(rate * seconds))
                };
                let mean = |of: fn(&Job) -> f64| {
                    let sum: f64 = played().map(weight).sum();
                    played().map(|job| weight(job) * of(job)).sum::<f64>() / sum
                };
                let (bytes, reads) = (mean(|job| job.bytes), mean(|job| job.reads));
                let all: f64 = played().map(|job| f64::from(job.depth)).sum();
                ("fio", Some(all as u64), bytes, reads, [None; 2], jobs.phases.len() as u64)
            }
            Load::Trace(trace) => {
                let rates = [Some(trace.iops()), Some(trace.peak_iops())];
                ("blktrace", None, trace.bytes(), trace.reads, rates, 1)
            }
        };
        let mut table = Table::new(&SOURCE);
        table.push(vec![
            kind.into(),
            (self.issues.len() as u64).into(),
            depth.into(),
            bytes.into(),
            (100.0 * reads).into(),
            rates[0].into(),
            rates[1].into(),
            self.traced_us().into(),
            (device.latency_us + device.pcie_us).into(),
            phases.into(),
            account.left_out().join(", ").into(),
            account.to_string().into(),
        ]);
        table
    }
}
