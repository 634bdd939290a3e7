//! Requests that were read from a file or drawn, as jobs share them.

use halfwink_arrivals::{Arrivals, Skipped};

/// Arrivals, and what was left out of their file.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) arrivals: Arrivals,
    /// Mean time of service, in seconds, if the sizes are times of service.
    pub(crate) served_s: Option<f64>,
    /// Requests per second that are carried.
    pub(crate) full: f64,
    /// Sentence on the format that the file was read as.
    pub(crate) read_as: String,
    pub(crate) bad_lines: u64,
    pub(crate) bad_line: String,
    /// Steps of counts that are not in the file, and hold no requests.
    pub(crate) missing: u64,
}

impl Read {
    /// Returns arrivals of which nothing was left out.
    pub(crate) fn of(arrivals: Arrivals) -> Read {
        let (read_as, bad_line) = (String::new(), String::new());
        let (served_s, full, bad_lines, missing) = (None, 0.0, 0, 0);
        Read { arrivals, served_s, full, read_as, bad_lines, bad_line, missing }
    }

    /// Adds the lines that were left out.
    pub(crate) fn without(self, skipped: &Skipped) -> Read {
        let bad_line = skipped.examples.first().map(ToString::to_string).unwrap_or_default();
        Read { bad_lines: skipped.count, bad_line, ..self }
    }
}
