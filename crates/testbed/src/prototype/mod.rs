//! The prototype of Niccolini 2012, ch. 3, on Linux: its data set, its four workloads behind a
//! small HTTP server, and a load generator without coordinated omission.

pub mod dataset;
pub mod handlers;
pub mod load;
pub mod pareto;
pub mod quota;
pub mod report;
pub mod server;
pub mod text;

use std::io;
use std::path::Path;

/// Reason why a part of the prototype fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel rejects an operation.
    #[error("{what}: {source}")]
    Os {
        /// Operation that was requested.
        what: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The user's input is invalid: value found, and values allowed.
    #[error("{0}")]
    Input(String),
}

impl Error {
    pub(crate) fn input(message: impl Into<String>) -> Error {
        Error::Input(message.into())
    }

    pub(crate) fn os(what: impl Into<String>, source: io::Error) -> Error {
        Error::Os { what: what.into(), source }
    }

    pub(crate) fn file(path: &Path, source: io::Error) -> Error {
        Error::os(path.display().to_string(), source)
    }
}

impl From<crate::traffic::Error> for Error {
    fn from(error: crate::traffic::Error) -> Error {
        match error {
            crate::traffic::Error::Os { what, source } => Error::Os { what, source },
            crate::traffic::Error::Input(message) => Error::Input(message),
        }
    }
}
