//! A user's own load: a job file of fio, or a trace of the kernel's block layer.
//!
//! ```text
//!   job.fio, iolog 2      ─▶ jobs by phase ──▶ each CPU has so many in flight ─┐
//!   sda.blktrace.0 ...    ─▶ events ─▶ requests ──▶ each CPU has its times ────┼─▶ [`Issues`]
//!   blkparse, biosnoop,   ─▶                                                   │
//!   perf, MSR, iolog 3 ...─▶                                                   ┘
//! ```

mod blktrace;
mod events;
mod fio;
mod iolog;
mod table;
mod text;

use halfwink_inputs::{look, may_be_cut, no_long_line, Account, Family, NO_END};

pub use events::{Request, Trace};
pub use fio::{Job, Jobs};

/// Most bytes of all files of a load.
pub const MOST_BYTES: u64 = 1 << 32;
/// assumption: what a CPU may have in flight of a trace; more wait. A queue of blk-mq has 128 to
/// 1023.
const IN_FLIGHT: u32 = 1024;
/// Most that is played as in flight on one CPU.
pub(crate) const MOST_IN_FLIGHT: u32 = 4096;
/// Of a trace, as many requests and as long as are played at once.
const MOST_REQUESTS: usize = 200_000;
const MOST_PS: u64 = 600 * 1_000_000_000_000;

/// A file of a load.
#[derive(Clone, Debug)]
pub struct File {
    /// Its name, for errors.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// The host that a load is played on, and what a user says about the load.
#[derive(Clone, Debug)]
pub struct Host {
    /// fio's `$ncpus`.
    pub cpus: u32,
    /// fio's `$pagesize`.
    pub page_bytes: u64,
    /// fio's `$mb_memory`.
    pub memory_mb: u64,
    /// A variable of the environment.
    pub variable: fn(&str) -> Option<String>,
    /// What is left out although it matters (`--ignore`).
    pub ignored: Vec<String>,
}

impl Default for Host {
    fn default() -> Host {
        let variable = |_: &str| None;
        Host { cpus: 1, page_bytes: 4096, memory_mb: 1024, variable, ignored: Vec::new() }
    }
}

/// What is wrong with a load, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", self.place())]
pub struct LoadError {
    /// The file.
    pub file: String,
    /// Its line from 1, or of a binary trace the record's first byte.
    pub at: Option<u64>,
    /// What was found and what was expected.
    pub message: String,
}

impl LoadError {
    fn place(&self) -> String {
        self.at.map_or_else(String::new, |at| format!(":{at}"))
    }

    fn of(file: &File, at: Option<u64>, message: impl Into<String>) -> LoadError {
        LoadError { file: file.name.clone(), at, message: message.into() }
    }
}

/// A load as it was read.
#[derive(Clone, Debug)]
pub enum Load {
    /// Jobs of fio.
    Jobs(Jobs),
    /// A block trace.
    Trace(Trace),
}

/// What one CPU issues.
#[derive(Clone, Debug, PartialEq)]
pub enum Issues {
    /// So many are in flight all the time.
    Closed(Closed),
    /// Requests at their times, again after the trace's length.
    Open {
        /// In order.
        requests: Vec<Request>,
        /// The trace's length, in picoseconds.
        span_ps: u64,
    },
}

/// A CPU's share of jobs that wait for what they issued.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Closed {
    /// In flight.
    pub depth: u32,
    /// Of each, in the mean.
    pub bytes: u32,
    /// I/Os a second at most.
    pub rate: Option<f64>,
    /// Whether times between I/Os are exponential where rates are limited, and else even.
    pub poisson: bool,
    /// From the end of an I/O to the issuing of the next in its place, in picoseconds.
    pub think_ps: u64,
}

impl Issues {
    /// I/Os in flight at most.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match self {
            Issues::Closed(closed) => closed.depth,
            Issues::Open { requests, .. } => IN_FLIGHT.min(requests.len() as u32),
        }
    }
}

/// Whether a first line is of a job file: a section, another file, or a key of a missing section.
fn is_job(line: &str) -> bool {
    // JSON begins with a bracket, too, and so do events of LTTng: `[10:11:12.5] (+0.1) host ...`.
    let is_list =
        ["[{", "[\""].iter().any(|begin| line.starts_with(begin)) || line.contains("] (+");
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    let is_key = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (line.starts_with('[') && !is_list) || is_key || line.starts_with("include ")
}

/// Splits off a last line that may be cut within its last number; returns whether there is one.
fn ended_lines(text: &str) -> (&str, bool) {
    let is_open = may_be_cut(text.as_bytes());
    match text.rfind('\n').filter(|_| is_open) {
        Some(end) if text[..end].contains('\n') => (&text[..=end], true),
        _ => (text, false),
    }
}

impl Load {
    /// Reads a load: a job file or an I/O log of fio, a trace as text, or binary traces, a file for
    /// each CPU.
    ///
    /// # Errors
    /// With the file and line, or byte, that is wrong.
    pub fn read(files: &[File], host: &Host) -> Result<Load, LoadError> {
        let Some(first) = files.first() else {
            let message = "found no files".to_owned();
            return Err(LoadError { file: String::new(), at: None, message });
        };
        let whole = |why| LoadError::of(first, None, why);
        // Before anything is taken for text: a record may happen to be valid UTF-8.
        if blktrace::is_binary(&first.bytes) {
            let events: Result<Vec<_>, _> = files.iter().map(blktrace::read_binary).collect();
            let events = events?.into_iter().flatten().collect();
            return Trace::of(events, "trace of blktrace").map(Load::Trace).map_err(whole);
        }
        let other = || {
            let other = look(&first.bytes, Family::Blocks);
            whole(other.map_or_else(|| text::EXPECTED.to_owned(), |other| other.to_string()))
        };
        let text = std::str::from_utf8(&first.bytes).map_err(|_| other())?;
        no_long_line(&first.bytes).map_err(whole)?;
        let (ended, is_cut) = ended_lines(text);
        let told = |mut load: Load, word: &str| {
            let account = match &mut load {
                Load::Jobs(jobs) => &mut jobs.account,
                Load::Trace(trace) => &mut trace.account,
            };
            account.leave_out(word, NO_END, u64::from(is_cut));
            load
        };
        if text.starts_with("fio version") {
            return iolog::read(first, ended).map(|load| told(load, "last line"));
        }
        // Lines of a user's own are told by little: a format of another tool goes first.
        let is_own = |form: &text::Form| *form == text::Form::Columns;
        let form = text::Form::of(text)
            .filter(|form| !is_own(form) || look(&first.bytes, Family::Blocks).is_none());
        if let Some(form) = form {
            // Tables of a user's own need no newline at their end, as other programs' lines do.
            let (text, word) = match form {
                text::Form::Table => (text, "check of the end"),
                _ => (ended, "last line"),
            };
            let events = form.read(first, text)?;
            let mut trace = Trace::of(events, form.name()).map_err(whole)?;
            let why = "the recorder could not keep them, so there were more I/Os";
            trace.account.leave_out("lost events", why, text::lost_events(text));
            return Ok(told(Load::Trace(trace), word));
        }
        let lines = text.lines().map(str::trim);
        let begin =
            lines.into_iter().find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        match begin {
            Some(line) if is_job(line) => fio::read(first, text, host).map(Load::Jobs),
            Some(_) => Err(other()),
            None => Err(whole("found nothing, expected a load".to_owned())),
        }
    }

    /// What was read, and what of it is not played.
    #[must_use]
    pub fn account(&self) -> &Account {
        match self {
            Load::Jobs(jobs) => &jobs.account,
            Load::Trace(trace) => &trace.account,
        }
    }

    /// What so many CPUs issue, each in turn one of the load's. Of a trace that is longer than what
    /// is played, `part` (0 to 1) says from where on.
    #[must_use]
    pub fn issues(&self, cpus: u16, part: f64) -> Vec<Issues> {
        match self {
            Load::Jobs(jobs) => jobs.issues(cpus),
            Load::Trace(trace) => trace.issues(cpus, part),
        }
    }
}
