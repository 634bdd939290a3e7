//! The one way in for files that users hand over.
//!
//! ```text
//!   path or `-` ─▶ regular? ─▶ gz, xz, zst, bz2, by content ─▶ tar of one file? ─▶ UTF-8 ─▶ reader
//!                                      └── every byte counts against one budget ──┘
//! ```
//!
//! A FIFO, a device, a folder or a file with more holes than data is refused before a byte is read.
//! The budget is shared by all files of one input, so that a bomb costs no more than a large file.

mod account;
mod look;
mod open;
mod tar;
mod text;
mod unpack;

pub use account::{may_be_cut, Account, Entry, Share, MOST_BAD, NO_END};
pub use look::{is_text, look, Family, Other};
pub use open::{
    expand, open_input, open_regular, read_input, read_plain, read_string, read_text, Opened,
};
pub use text::{decoded, no_long_line, LONGEST_LINE};
pub use unpack::unpack;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Unpacked bytes that are left for an input; clones share them.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<AtomicU64>,
    all: u64,
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Budget {
        Budget { left: Arc::new(AtomicU64::new(bytes)), all: bytes }
    }

    /// Bytes at the beginning.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Bytes that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub(crate) fn take(&self, bytes: u64) -> io::Result<()> {
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map(|_| ()).map_err(|_| io::Error::other(Problem::Budget(self.all)))
    }
}

/// An input that is refused, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct InputError {
    /// The file.
    pub path: PathBuf,
    /// Reason of the refusal.
    pub problem: Problem,
}

impl InputError {
    /// An input and the reason of its refusal.
    pub fn at(path: &Path, problem: impl Into<Problem>) -> InputError {
        InputError { path: path.to_owned(), problem: problem.into() }
    }
}

impl From<InputError> for io::Error {
    /// Without the path, which callers name.
    fn from(error: InputError) -> io::Error {
        match error.problem {
            Problem::Io(error) => error,
            problem => io::Error::other(problem),
        }
    }
}

/// Reason why an input is refused.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It cannot be opened or read.
    #[error("{}", plain(.0))]
    Io(io::Error),
    /// It is no regular file.
    #[error("is {0}, expected a regular file (`-` reads standard input)")]
    Kind(&'static str),
    /// Standard input is a terminal.
    #[error("standard input is a terminal, expected a file or a pipe")]
    Terminal,
    /// It has more holes than data.
    #[error("is sparse: {stored} of {bytes} bytes are stored, expected a whole file")]
    Sparse {
        /// On disk.
        stored: u64,
        /// Length of the file.
        bytes: u64,
    },
    /// It holds more than an input may.
    #[error("more than {0} bytes unpacked, the most that an input may have; name a part of it")]
    Budget(u64),
    /// It unpacks to far more than anything that people pack.
    #[error(
        "unpacks to more than {0} times its size, which is no log's; if it is meant, unpack it \
         first (gzip -d, xz -d, zstd -d, bzip2 -d)"
    )]
    Bomb(u64),
    /// A format of packing that is not unpacked here.
    #[error("is packed by {what}, expected gz, xz, zst or bz2; unpack it first: {how}")]
    Packed {
        /// Its name.
        what: &'static str,
        /// A command that unpacks it.
        how: &'static str,
    },
    /// A short text that is packed.
    #[error("is packed by {what}, expected text; unpack it first: {how}")]
    PackedText {
        /// Name of the format.
        what: &'static str,
        /// A command that unpacks it.
        how: &'static str,
    },
    /// The packed bytes are damaged.
    #[error("packed by {what}, and damaged: {why}")]
    Damaged {
        /// The format.
        what: &'static str,
        /// Message of the decoder.
        why: String,
    },
    /// Packed over and over.
    #[error("packed more than {0} times")]
    Layers(usize),
    /// A tar of no file, or of several.
    #[error("is a tar of {}; expected one file: unpack it (tar -xf) and name one", names(.0))]
    Tar(Vec<String>),
    /// Text that is in no encoding that is read.
    #[error("{0}")]
    Encoding(String),
    /// A tar that is damaged.
    #[error("is a tar, and damaged: {0}")]
    BadTar(&'static str),
}

impl From<io::Error> for Problem {
    /// Takes out the problem that a reader of this crate put into an error.
    fn from(error: io::Error) -> Problem {
        let is_ours =
            error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Problem>);
        if !is_ours {
            return Problem::Io(error);
        }
        match error.into_inner().map(|inner| inner.downcast::<Problem>()) {
            Some(Ok(problem)) => *problem,
            _ => Problem::Io(io::ErrorKind::Other.into()),
        }
    }
}

/// An error of the system without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let cut = text.find(" (os error").unwrap_or(text.len());
    text[..cut].to_owned()
}

fn names(names: &[String]) -> String {
    match names {
        [] => "no file".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests;
