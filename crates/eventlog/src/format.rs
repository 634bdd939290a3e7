//! What stands in a log.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Version of the format.
pub const SCHEMA: u32 = 1;
/// Value of `log` in the header of every log.
pub(crate) const NAME: &str = "halfwink events";

/// Which events and actions a policy has: the folders of `halfwink-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Decides when a core sleeps.
    Gating,
    /// Decides how fast a core may wake.
    WakeUp,
    /// Which kernel entries move.
    Offload,
    /// Decides when an OS core powers down.
    Switching,
    /// Decides how many cores of a router forward.
    Scaling,
    /// Which machine serves a request.
    Steering,
    /// Divides cache lines between user and kernel.
    Segregation,
    /// Decides what is loaded before a request arrives.
    Preheat,
    /// Which circuits come next.
    Circuits,
    /// Which CPU completes an I/O.
    Completion,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Gating => "gating",
            Family::WakeUp => "wake-up",
            Family::Offload => "offload",
            Family::Switching => "switching",
            Family::Scaling => "scaling",
            Family::Steering => "steering",
            Family::Segregation => "segregation",
            Family::Preheat => "preheat",
            Family::Circuits => "circuits",
            Family::Completion => "completion",
        })
    }
}

/// The first line: what it takes to make the same policies again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`SCHEMA`] of the writer; a reader refuses another one.
    pub schema: u32,
    pub(crate) log: String,
    /// World in which the policies decided: `chip`, `router`, `live steer` ...
    pub world: String,
    /// The technique with its parameters.
    pub technique: String,
    /// Name of the machine description.
    pub machine: String,
    /// Name of the workload, or of what was live.
    pub workload: String,
    /// Values set beside the machine's description, by path, and the world's options.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Version of the program that wrote it.
    pub build: String,
    /// Family of lines that do not name another one.
    pub family: Family,
    /// Lines that stand in earlier parts of a log that is kept in parts: the same policies go on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub continues: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
pub(crate) fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Header {
    /// A header of this build.
    #[must_use]
    pub fn new(world: &str, family: Family, technique: &str) -> Header {
        Header {
            schema: SCHEMA,
            log: NAME.to_owned(),
            world: world.to_owned(),
            technique: technique.to_owned(),
            machine: String::new(),
            workload: String::new(),
            set: BTreeMap::new(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            family,
            continues: 0,
        }
    }

    /// Sets the names of the machine and the workload.
    #[must_use]
    pub fn on(mut self, machine: &str, workload: &str) -> Header {
        (self.machine, self.workload) = (machine.to_owned(), workload.to_owned());
        self
    }

    /// Adds values that were set, by their paths.
    #[must_use]
    pub fn with<'a>(mut self, set: impl IntoIterator<Item = (&'a str, &'a str)>) -> Header {
        self.set.extend(set.into_iter().map(|(path, value)| (path.to_owned(), value.to_owned())));
        self
    }

    /// Returns the reason why this build cannot read the log, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        // The name first: of a file that is no event log, the version means nothing.
        if self.log != NAME {
            return Some(format!("expected \"log\":\"{NAME}\", found {:?}", self.log));
        }
        let schema = self.schema;
        // Older formats are rejected as well: a replay that guesses a missing field would report
        // differences that the policy never had.
        (schema != SCHEMA).then(|| {
            format!("format {schema}, of build {}; this build reads format {SCHEMA}", self.build)
        })
    }
}

/// The last line of a log that ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footer {
    /// Time at which the run ended, in picoseconds.
    pub end_ps: u64,
    /// Lines, headers and footer left out.
    pub lines: u64,
    /// Lines that were dropped: the disk of a live program was full or too slow.
    pub dropped: u64,
}

/// One of the policies of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// Which events and actions it has.
    pub family: Family,
    /// Number of the policy in its family: a core, a thread, a machine.
    pub stream: u32,
}

/// State in which a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The log ends with its footer.
    Whole(Footer),
    /// Without: the program was killed, or still writes. `torn`: in the middle of a line.
    Cut {
        /// The last line is not a whole one; it is left out.
        torn: bool,
    },
}

/// A log that cannot be read or written, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct LogError {
    /// Path of the log, as it was asked for.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// Description of the error.
    pub message: String,
}

impl LogError {
    fn text(&self) -> String {
        let (file, message) = (&self.file, &self.message);
        let text = match self.line {
            0 => format!("{file}: {message}"),
            line => format!("{file}:{line}: {message}"),
        };
        // What a file says of itself, and what it is called, ends no line and commands no terminal.
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            if c.is_control() {
                plain.extend(c.escape_default());
            } else {
                plain.push(c);
            }
        }
        plain
    }
}
