//! Lines of logs as they are read: a request with its time and size.

use super::super::moment::When;

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `s`
    Seconds,
    /// `ms`
    Milliseconds,
    /// `us`
    Microseconds,
    /// `ns`
    Nanoseconds,
}

impl Unit {
    /// Reads `s`, `ms`, `us` or `ns`, or the word that it stands for.
    #[must_use]
    pub fn parse(text: &str) -> Option<Unit> {
        match text {
            "s" | "sec" | "secs" | "second" | "seconds" => Some(Unit::Seconds),
            "ms" | "msec" | "millis" | "millisecond" | "milliseconds" => Some(Unit::Milliseconds),
            "us" | "usec" | "µs" | "micros" | "microsecond" | "microseconds" => {
                Some(Unit::Microseconds)
            }
            "ns" | "nsec" | "nanos" | "nanosecond" | "nanoseconds" => Some(Unit::Nanoseconds),
            _ => None,
        }
    }

    /// Returns its name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "us",
            Unit::Nanoseconds => "ns",
        }
    }

    /// Returns its length in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        match self {
            Unit::Seconds => 1.0,
            Unit::Milliseconds => 1e-3,
            Unit::Microseconds => 1e-6,
            Unit::Nanoseconds => 1e-9,
        }
    }
}

/// Meaning of the sizes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Bytes of the response.
    Bytes,
    /// In a unit that only its writer knows.
    Size,
    /// Seconds of service.
    Service,
}

/// A request as a line has it.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) when: When,
    /// The size; lines of some logs have none.
    pub(super) size: Option<f64>,
    /// The line has how long it took until the answer, which is no time of service.
    pub(super) has_duration: bool,
}

impl Row {
    pub(super) fn at(when: When, size: Option<f64>) -> Row {
        Row { when, size, has_duration: false }
    }
}

/// A line that is not bad.
pub(super) enum Seen {
    /// A request, and its bytes.
    Request(Row),
    /// A request, and seconds of service.
    Served(Row),
    /// A line about the log.
    Comment,
    /// A line that is no request, such as another event of the same program.
    Other,
}
