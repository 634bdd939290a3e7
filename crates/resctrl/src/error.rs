use std::io;
use std::path::{Path, PathBuf};

/// Errors, each of one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file says what it may not.
    #[error("{}:{line}: {found}: expected {expected}", path.display())]
    Text {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Text that was found.
        found: String,
        /// Text that was expected.
        expected: String,
    },
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The request is impossible on this tree.
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

    /// Returns whether the user's input was at fault (status 2), rather than the operation (status
    /// 1).
    pub fn is_input(&self) -> bool {
        !matches!(self, Error::Failed(_))
    }
}
