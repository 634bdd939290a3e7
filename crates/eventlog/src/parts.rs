//! Logs in parts: `events`, before it `events.1`, before that `events.2`. A part that is full gets
//! the next number and the oldest one goes, so that a program may run for ever.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::format::{NAME, SCHEMA};

/// Longest part of a live program's log, and how many are kept.
// assumption: a gibibyte is little for a disk and much for whoever reads; a router's policy that is
// called a thousand times a second fills it in some three hours.
const LIVE_BYTES: u64 = 256 << 20;
const LIVE_COUNT: u32 = 4;

/// Path, size and number of the parts of a log.
#[derive(Clone, Debug)]
pub struct Parts {
    path: PathBuf,
    bytes: u64,
    count: u32,
}

impl Parts {
    /// Keeps at most `count` parts, the present one included. Each ends at the first line that
    /// makes it longer than `bytes`.
    #[must_use]
    pub fn new(path: &Path, bytes: u64, count: u32) -> Parts {
        Parts { path: path.to_owned(), bytes, count: count.max(1) }
    }

    /// Returns the parts of a live program: four of 256 MiB.
    #[must_use]
    pub fn live(path: &Path) -> Parts {
        Parts::new(path, LIVE_BYTES, LIVE_COUNT)
    }

    /// Returns the path of the present part.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name.into()
    }

    /// Returns whether there is a file to be numbered.
    fn is_full(&self) -> bool {
        // `symlink_metadata`: a link to a device or a pipe is written through, never renamed.
        fs::symlink_metadata(&self.path).is_ok_and(|m| m.is_file() && m.len() > 0)
    }

    /// Checks that a file that would be numbered away, and deleted one day, is an event log.
    ///
    /// # Errors
    /// It holds something else, or cannot be read.
    pub(crate) fn is_ours(&self) -> io::Result<()> {
        if !self.is_full() {
            return Ok(());
        }
        let begin = format!("{{\"schema\":{SCHEMA},\"log\":\"{NAME}\"").into_bytes();
        let mut start = Vec::new();
        File::open(&self.path)?.take(begin.len() as u64).read_to_end(&mut start)?;
        // A program that was killed may have written less.
        if begin.starts_with(&start) {
            return Ok(());
        }
        let why = "found a file that is no event log, expected one or a new name";
        Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
    }

    /// Numbers the parts that there are, and begins a new one. What is no file, such as a pipe, is
    /// written as it is.
    pub(crate) fn next(&self) -> io::Result<File> {
        let is_full = self.is_full();
        // From the oldest to the newest, so that each rename replaces the part that is one older;
        // the oldest of all is replaced and thereby deleted.
        for number in (0..self.count - 1).rev().filter(|_| is_full) {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        created(&self.path).map_err(|error| match error.raw_os_error() {
            #[cfg(unix)]
            Some(libc::ENXIO) => io::Error::new(error.kind(), "nobody reads this FIFO"),
            _ => error,
        })
    }
}

/// Creates a file. A FIFO is written without waiting for its reader, or a program could not be
/// ended while one is slow.
fn created(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}
