//! The live programs that operators run: a description, a policy and watts by name, signals, files
//! and metrics around a live router or proxy.
//!
//! ```text
//!  arguments ──▶ run: signals, --seconds ──▶ Program ──▶ live router or proxy
//!                 │                            │
//!                 ├──▶ --log, --report         └── policy and watts: crates/study
//!                 └──▶ --metrics: OpenMetrics
//! ```
//!
//! The binaries `halfwink-router` and `halfwink-steer` are this and nothing else; the Python
//! package holds the same [`Program`]s.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod http;
mod log;
mod openmetrics;
pub mod router;
pub mod run;
pub mod steer;

use std::path::Path;

use halfwink_live::program::config::plain;
use serde_json::Value;

/// Reason why a program does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The user's input is invalid: place, value found, values allowed.
    #[error("{}", plain(.0))]
    Input(String),
    /// The machine does not allow it.
    #[error("{}", plain(.0))]
    Run(String),
}

impl Error {
    pub(crate) fn input(error: impl std::fmt::Display) -> Error {
        Error::Input(error.to_string())
    }
}

/// A live program at work.
pub trait Program: Send + Sync {
    /// Counts and times since the start, measured; joules and watts, modelled.
    fn report(&self) -> Value;

    /// Returns the report as OpenMetrics text.
    fn metrics(&self) -> String;

    /// Takes its description anew, as far as it can change; what has changed, by path.
    ///
    /// # Errors
    /// What is wrong, or can only change by a restart; then nothing changes.
    fn reload(&self, path: &Path) -> Result<Vec<String>, Error>;

    /// Ends in good order: what has come is carried first. Its event log, if it has one, is ended
    /// too.
    ///
    /// # Errors
    /// The log is not complete. The program has ended all the same.
    fn stop(&self) -> Result<(), Error>;

    /// Returns whether all its threads are running.
    fn is_running(&self) -> bool;
}

/// Values that a description sets in its machine, as the library takes them.
fn values<'a, V: std::fmt::Display + 'a>(
    set: impl IntoIterator<Item = (&'a String, &'a V)>,
) -> Vec<(String, String)> {
    set.into_iter().map(|(path, value)| (path.clone(), value.to_string())).collect()
}

/// Returns the values as results show them: `path=value path=value`.
fn shown(values: &[(String, String)]) -> String {
    let all: Vec<String> = values.iter().map(|(path, value)| format!("{path}={value}")).collect();
    all.join(" ")
}

/// Things that can always be written down as JSON: reports and log lines of this crate's programs.
fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
