//! What can be wrong with a trace file, in one line that says where.

use std::io;
use std::path::{Path, PathBuf};

/// A trace file cannot be read (or written) further.
#[derive(Debug, thiserror::Error)]
#[error("{}offset {offset}: {problem}", prefix(.path))]
pub struct TraceError {
    /// The file, where it is known.
    pub path: Option<PathBuf>,
    /// Byte offset of the header, section or column that is at fault.
    pub offset: u64,
    /// Error at that place.
    pub problem: Problem,
}

/// Kinds of errors in a trace file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file is empty.
    #[error("the file is empty; expected a halfwink trace")]
    Empty,
    /// Does not start with the magic number.
    #[error("not a halfwink trace ({0})")]
    Foreign(String),
    /// Made by a later version of the format.
    #[error(
        "format {0}.{1} is newer than this halfwink, which reads up to {2}.x; update halfwink"
    )]
    Newer(u16, u16, u16),
    /// The file stops before it should.
    #[error("the file ends here inside {0}; it was truncated, or its capture did not finish")]
    Truncated(&'static str),
    /// A checksum does not match.
    #[error("{0} is corrupt: its checksum does not match")]
    Checksum(&'static str),
    /// Well-formed bytes with an impossible meaning.
    #[error("{0} is corrupt: {1}")]
    Corrupt(&'static str, String),
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The stream holds nothing to simulate.
    #[error("the trace holds no instructions")]
    NoInstructions,
    /// Imported data does not fit the format.
    #[error("{0}")]
    Import(String),
}

impl TraceError {
    /// An error at `offset` of a file that the caller will name.
    #[must_use]
    pub fn at(offset: u64, problem: Problem) -> TraceError {
        TraceError { path: None, offset, problem }
    }

    /// Adds the file's name, if it is not there yet.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> TraceError {
        self.path.get_or_insert_with(|| path.to_owned());
        self
    }
}

pub(crate) fn corrupt(offset: u64, what: &'static str, why: impl Into<String>) -> TraceError {
    TraceError::at(offset, Problem::Corrupt(what, why.into()))
}

fn prefix(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|p| format!("{}: ", p.display())).unwrap_or_default()
}
