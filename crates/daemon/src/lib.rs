//! The live programs that operators run: a description, a policy and watts by name, signals, files
//! and metrics around a live router, proxy or block device.
//!
//! ```text
//!  arguments ──▶ run: signals, --seconds ──▶ Program ──▶ live router, proxy, block device
//!                 │                            │
//!                 ├──▶ --log, --report         └── policy and watts: crates/techniques
//!                 └──▶ --metrics: OpenMetrics
//! ```
//!
//! The binaries `halfwink-router`, `halfwink-steer` and `halfwink-block` are this and nothing else;
//! the Python package holds or starts the same [`Program`]s.
#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    any(feature = "block", feature = "preheat", feature = "router", feature = "steer")
))]

pub mod http;
pub mod log;
mod notify;
pub mod openmetrics;
#[cfg(feature = "router")]
pub mod router;
pub mod run;
pub mod shown;
#[cfg(feature = "steer")]
pub mod steer;

use std::path::Path;

use halfwink_live::program::config::plain;
use halfwink_techniques::Descriptions;
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
    /// An error of the user's input.
    pub fn input(error: impl std::fmt::Display) -> Error {
        Error::Input(error.to_string())
    }
}

/// The descriptions of machines, or why there are none: only a program whose description names a
/// machine needs them.
pub type Library = Result<Descriptions, Error>;

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

    /// Opens files that logrotate renames by their names again; a line to say, or none if the
    /// program writes no such file.
    ///
    /// # Errors
    /// A file cannot be opened; then all stays as it was.
    fn reopen(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Ends in good order: what has come is carried first. Its event log, if it has one, is ended
    /// too.
    ///
    /// # Errors
    /// The log is not complete. The program has ended all the same.
    fn stop(&self) -> Result<(), Error>;

    /// Returns whether all its threads are running.
    fn is_running(&self) -> bool;

    /// Returns the reason why it runs no more, if it was not stopped.
    fn ended(&self) -> &'static str {
        "a thread has died; what it said is above"
    }
}
