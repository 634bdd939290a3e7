//! The live programs that operators run: a description, a policy and watts by name, signals, files
//! and metrics around a live router, proxy, block device, node of circuits or delegated command.
//!
//! ```text
//!  arguments ──▶ run: signals, --seconds ──▶ Program ──▶ live router, proxy, block device
//!                 │                            │
//!                 ├──▶ --log, --report         └── policy and watts: crates/techniques
//!                 └──▶ --metrics: OpenMetrics
//! ```
//!
//! The binaries `halfwink-router`, `halfwink-steer`, `halfwink-block`, `halfwink-preheat`,
//! `halfwink-delegate` and `halfwink-circuits` are this and nothing else; the Python package holds
//! or starts the same [`Program`]s.
#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    any(
        feature = "block",
        feature = "circuits",
        feature = "delegate",
        feature = "preheat",
        feature = "router",
        feature = "steer"
    )
))]

#[cfg(feature = "delegate")]
pub mod delegate;
pub mod http;
pub mod log;
pub mod modules;
mod notify;
pub mod openmetrics;
#[cfg(feature = "router")]
pub mod router;
pub mod run;
pub mod shown;
#[cfg(feature = "steer")]
pub mod steer;

use std::path::Path;

use halfwink_engine::Input;
use halfwink_live::program::config::plain;
use halfwink_techniques::{technique, techniques, Descriptions, Error as Unmade};
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

    /// An error in the value of a key, found after the description was parsed: it names the file
    /// and the line all the same.
    pub fn at(input: &Input, key: &str, error: impl std::fmt::Display) -> Error {
        Error::input(input.error_at_key(key, &error.to_string()))
    }

    /// An error in the technique that the key `policy` names. A name unlike all known ones is
    /// answered with what is known.
    #[must_use]
    pub fn at_policy(input: &Input, world: &str, policy: &str, error: &Unmade) -> Error {
        let known: Vec<&str> = match error {
            Unmade::Unknown { what: "technique", nearest: None, .. } => {
                let here = techniques().filter(|technique| technique.worlds.contains(&world));
                here.map(|technique| technique.name).collect()
            }
            Unmade::Unknown { what: "parameter", nearest: None, .. } => {
                let own = policy.split('+').filter_map(|part| {
                    technique(world, part.split_once(':').map_or(part, |(name, _)| name)).ok()
                });
                own.flat_map(|technique| technique.parameters).map(|p| p.name).collect()
            }
            _ => return Error::at(input, "policy", error),
        };
        Error::at(input, "policy", format!("{error}, expected one of {}", known.join(", ")))
    }

    /// An error of the machine that a description names, whose values its key `set` may change.
    #[must_use]
    pub fn at_machine(input: &Input, is_changed: bool, error: &Unmade) -> Error {
        let is_name = matches!(error, Unmade::Unknown { .. } | Unmade::Io { .. });
        Error::at(input, if is_changed && !is_name { "set" } else { "machine" }, error)
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

    /// Returns the exit status of the command that it runs, if it is the parent of one that has
    /// ended. The program then ends with that status.
    fn status(&self) -> Option<u8> {
        None
    }

    /// Returns the signals that it takes beside those of all programs.
    fn extra_signals(&self) -> &'static [i32] {
        &[]
    }

    /// Takes a signal; returns whether the signal shall not have its common meaning as well.
    fn signal(&self, _number: i32) -> bool {
        false
    }

    /// Returns the reason why it runs no more, if it was not stopped.
    fn ended(&self) -> &'static str {
        "a thread has died; what it said is above"
    }
}
