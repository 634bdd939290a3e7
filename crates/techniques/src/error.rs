//! Why a technique or a description cannot be had.

use std::path::Path;

use halfwink_engine::{nearest, InputError};

/// A name, a value or a description that is wrong, in one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that does not exist.
    #[error("unknown {what} `{name}`{}", hint(.nearest))]
    Unknown {
        /// Kind of name (`technique`).
        what: &'static str,
        /// Name that was given.
        name: String,
        /// Known name that is most like it.
        nearest: Option<String>,
    },
    /// A technique of another world.
    #[error("technique `{name}` is of the world `{world}`, not `{asked}`")]
    OtherWorld {
        /// Name of the technique.
        name: String,
        /// First world that has it.
        world: &'static str,
        /// World that it was looked for in.
        asked: String,
    },
    /// A description is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The question itself is wrong.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// An unknown name among known ones.
    pub fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Error {
        let nearest = nearest(name, known).map(str::to_owned);
        Error::Unknown { what, name: name.to_owned(), nearest }
    }

    /// A file that cannot be read.
    #[must_use]
    pub fn io(path: &Path, error: std::io::Error) -> Error {
        Error::Io { path: path.display().to_string(), error }
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}
