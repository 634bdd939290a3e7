use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong, each one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file says what it may not.
    #[error("{}:{line}: {found}: expected {expected}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What stands there.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What was asked for cannot be on this tree.
    #[error("{0}")]
    Input(String),
    /// The tree is not as it was left.
    #[error("{0}; --force restores all the same")]
    Changed(String),
    /// The work itself failed; the line says what became of the tree.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), source }
    }

    /// Whether the user asked for what cannot be (status 2), not the work failed (status 1).
    pub fn is_input(&self) -> bool {
        !matches!(self, Error::Failed(_))
    }
}
