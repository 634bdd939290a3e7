//! Where flows come from: a description of the library, or a file.

use std::path::Path;
use std::sync::Arc;

use halfwink_engine::Input;
use halfwink_fabric::flows::files::{read_coflows, read_flows};
use halfwink_fabric::flows::workload::{Amount, Workload};
use halfwink_fabric::flows::{Racks, Traffic};

use crate::error::StudyError;
use crate::library::{read, Library};

/// Where the library keeps descriptions of flows.
const FOLDER: &str = "workloads/flows";
/// Load of an open workload that names none, in percent.
const LOAD_PCT: &str = "10";

/// Flows that were found, and how to have them.
pub(super) enum Source {
    /// Described.
    Described {
        /// The description.
        workload: Workload,
        /// Share of servers' rate.
        load: f64,
        /// What it was read from.
        text: String,
    },
    /// Read from a file.
    Read {
        /// The flows.
        traffic: Arc<Traffic>,
        /// What the file holds.
        digest: u64,
    },
}

impl Library {
    /// Names of workloads of flows.
    #[must_use]
    pub fn flow_workloads(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }

    /// A workload of flows, by name or description.
    pub(super) fn flow_workload(&self, name: &str) -> Result<(Workload, String), StudyError> {
        let path = self.find_named(FOLDER, "workload", name)?;
        let input: Input = self.described(&path, [], &[])?;
        Ok((input.parse()?, input.text.clone()))
    }
}

/// Whether a name is a file of flows and not of the library.
fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|e| e != "toml")
        || (name.contains('/') && path.extension().is_none())
}

impl Source {
    /// Finds `NAME`, `NAME@LOAD` (percent), `FILE.toml` or a file of flows or coflows.
    pub(super) fn find(library: &Library, name: &str, racks: &Racks) -> Result<Source, StudyError> {
        if is_file(name) {
            return Source::read(name, racks);
        }
        let (base, load) = match name.split_once('@') {
            Some((base, load)) => (base, Some(load)),
            None => (name, None),
        };
        let (workload, text) = library.flow_workload(base)?;
        if load.is_some() && !workload.is_open() {
            let message = format!("{name}: {base} has no load, expected no `@`");
            return Err(StudyError::Usage(message));
        }
        let word = load.unwrap_or(LOAD_PCT);
        match word.parse::<f64>() {
            Ok(pct) if pct > 0.0 && pct <= 200.0 => {
                Ok(Source::Described { workload, load: pct / 100.0, text })
            }
            _ => {
                let message = format!("{name}: load `{word}`, expected above 0 to 200 percent");
                Err(StudyError::Usage(message))
            }
        }
    }

    fn read(name: &str, racks: &Racks) -> Result<Source, StudyError> {
        let text = read(Path::new(name))?;
        let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
        // The head of a file of coflows is racks and coflows; a flow has four words.
        let has_head = first.is_some_and(|line| line.split_whitespace().count() == 2);
        let found = if has_head { read_coflows(&text, racks) } else { read_flows(&text, racks) };
        let traffic = found.map_err(|error| StudyError::Usage(format!("{name}:{error}")))?;
        let digest = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
        Ok(Source::Read { traffic: Arc::new(traffic), digest })
    }

    /// The flows.
    pub(super) fn traffic(
        &self,
        name: &str,
        racks: &Racks,
        amount: Amount,
    ) -> Result<Arc<Traffic>, StudyError> {
        match self {
            Source::Read { traffic, .. } => Ok(Arc::clone(traffic)),
            Source::Described { workload, load, .. } => {
                let made = workload.traffic(racks, Amount { load: *load, ..amount });
                let wrong = |error| StudyError::Usage(format!("{name}: {error}"));
                Ok(Arc::new(made.map_err(wrong)?))
            }
        }
    }

    /// What of it a result depends on.
    pub(super) fn identity(&self) -> String {
        match self {
            Source::Described { load, text, .. } => format!("{load}\n{text}"),
            Source::Read { digest, .. } => format!("{digest:016x}"),
        }
    }
}
