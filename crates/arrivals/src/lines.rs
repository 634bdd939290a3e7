//! Text that comes line by line, with bad lines in it.

use std::io::{self, BufRead, Read as _};

use halfwink_engine::LineError;
use halfwink_inputs::Share;

/// Longer lines are bad.
pub(crate) const LONGEST_LINE: u64 = 1 << 16;
/// Number of bad lines that are kept as examples.
const EXAMPLES: usize = 5;

/// Why arrivals could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line without which the rest means nothing.
    #[error("{0}")]
    Line(#[from] LineError),
    /// A larger share of lines is bad than was allowed.
    #[error(
        "{bad} of {lines} lines are bad, expected at most {most_pct} %; the first one, {first}; \
         `ignore=bad-lines:FILE` skips them"
    )]
    TooMany {
        /// Bad lines.
        bad: u64,
        /// All lines.
        lines: u64,
        /// Allowed, in percent.
        most_pct: f64,
        /// The first one.
        first: LineError,
    },
    /// Something about all of it.
    #[error("{0}")]
    Other(String),
    /// The file holds no arrivals.
    #[error("nothing to read, expected {expected}")]
    Empty {
        /// Content that was expected.
        expected: &'static str,
    },
    /// The arrivals last too long for a run.
    #[error("{found:.0} seconds from the first to the last, expected at most {most:.0}")]
    Span {
        /// Length in seconds.
        found: f64,
        /// Longest length that is allowed, in seconds.
        most: f64,
    },
}

/// Bad lines that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Number of lines.
    pub count: u64,
    /// The first few of them.
    pub examples: Vec<LineError>,
}

impl Skipped {
    /// Counts one more.
    pub(crate) fn add(&mut self, error: LineError) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(error);
        }
    }

    /// The first one as text; empty if there is none.
    pub(crate) fn first(&self) -> String {
        self.examples.first().map(ToString::to_string).unwrap_or_default()
    }

    /// Error for these bad lines among so many lines.
    pub(crate) fn refused(&self, lines: u64, most: Share) -> ReadError {
        let Some(first) = self.examples.first().cloned() else {
            return ReadError::Other(format!("{} bad lines", self.count));
        };
        ReadError::TooMany { bad: self.count, lines, most_pct: most.most_pct, first }
    }
}

/// Number of a line, from 1, and its content.
type Line<'a> = (u64, Result<&'a [u8], LineError>);

/// Lines and their numbers, without what ends them; long ones cut.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Lines<R> {
        Lines { reader, buffer: Vec::new(), number: 0 }
    }

    /// The next line, or that it is too long; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if self.reader.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.buffer.clear();
        let read = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.buffer)?;
        self.number += 1;
        if read as u64 == LONGEST_LINE && self.buffer.last() != Some(&b'\n') {
            self.skip_rest()?;
            let error = LineError::new(self.number, &self.buffer, "at most 65535 characters");
            return Ok(Some((self.number, Err(error))));
        }
        let line = &self.buffer[..];
        // A mark of UTF-8, as spreadsheets write it.
        let line = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.number == 1).unwrap_or(line);
        Ok(Some((self.number, Ok(line.trim_ascii()))))
    }

    /// The last line, if no newline ends it; asked once all lines are read.
    pub(crate) fn unended(&self) -> Option<&[u8]> {
        let line = self.buffer.trim_ascii_start();
        let is_open = line.last().is_some_and(|last| !last.is_ascii_whitespace());
        is_open.then_some(line)
    }

    /// Up to the end of a line that is too long.
    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                return Ok(());
            }
            let end = available.iter().position(|&b| b == b'\n');
            let used = end.map_or(available.len(), |n| n + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_bad_and_end() {
        let text = format!("\u{feff}a\r\n{}\nb", "x".repeat(200_000));
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.next().unwrap(), Some((1, Ok(&b"a"[..]))));
        let (number, long) = lines.next().unwrap().unwrap();
        assert_eq!((number, long.unwrap_err().found.len()), (2, 60));
        assert_eq!(lines.next().unwrap(), Some((3, Ok(&b"b"[..]))));
        assert!(lines.next().unwrap().is_none());
    }
}
