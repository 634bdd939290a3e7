//! Events and actions as records of 64-bit words, for policies outside of this program.
//!
//! Logs write the same events and actions as JSON. A record has a fixed layout instead, so that a
//! policy needs neither a parser nor an allocator, and a call of one costs less than reading a line
//! would. The names of kinds and the order of fields are those of the JSON.

use halfwink_units::{LineAddr, Time};

use crate::gating;

/// Most fields of an event.
pub const FIELDS: usize = 12;

/// The fields of a record, in the order of the log's JSON. Times are picoseconds.
pub type Fields = [u64; FIELDS];

/// An event or an action that has a record.
pub trait Record: Sized {
    /// Names of its kinds, as logs have them. The number of a kind is its place here, which never
    /// changes; further kinds are added at the end.
    const KINDS: &'static [&'static str];

    /// Writes the fields, and returns the number of the kind and how many fields it has.
    fn put(&self, fields: &mut Fields) -> (usize, usize);

    /// Reads a record; none if there is no such kind, or a field is out of its range.
    fn take(kind: usize, fields: &Fields) -> Option<Self>;
}

impl Record for gating::Event {
    const KINDS: &'static [&'static str] = &[
        "stall-begin",
        "stall-end",
        "token",
        "response",
        "idle-begin",
        "idle-end",
        "awake",
        "granted",
    ];

    #[inline]
    fn put(&self, fields: &mut Fields) -> (usize, usize) {
        use gating::{Bound, Event};
        match *self {
            Event::StallBegin => (0, 0),
            Event::StallEnd { began } => {
                fields[0] = began.0;
                (1, 1)
            }
            Event::Token(token) => {
                let (bound, span) = match token.bound {
                    Bound::NotBefore(span) => (0, span),
                    Bound::Unknown => (1, Time::ZERO),
                    Bound::Eta(span) => (2, span),
                };
                fields[..4].copy_from_slice(&[token.line.0, token.created.0, bound, span.0]);
                (2, 4)
            }
            Event::Response { line } => {
                fields[0] = line.0;
                (3, 1)
            }
            Event::IdleBegin => (4, 0),
            Event::IdleEnd { began } => {
                fields[0] = began.0;
                (5, 1)
            }
            Event::Awake => (6, 0),
            Event::Granted { wake_up } => {
                fields[0] = wake_up.0;
                (7, 1)
            }
        }
    }

    fn take(kind: usize, fields: &Fields) -> Option<Self> {
        use gating::{Bound, Event, Token};
        let time = Time(fields[0]);
        Some(match kind {
            0 => Event::StallBegin,
            1 => Event::StallEnd { began: time },
            2 => {
                let span = Time(fields[3]);
                let bound = match fields[2] {
                    0 => Bound::NotBefore(span),
                    1 => Bound::Unknown,
                    2 => Bound::Eta(span),
                    _ => return None,
                };
                Event::Token(Token { line: LineAddr(fields[0]), created: Time(fields[1]), bound })
            }
            3 => Event::Response { line: LineAddr(fields[0]) },
            4 => Event::IdleBegin,
            5 => Event::IdleEnd { began: time },
            6 => Event::Awake,
            7 => Event::Granted { wake_up: time },
            _ => return None,
        })
    }
}

impl Record for gating::Action {
    const KINDS: &'static [&'static str] = &["gate", "rest", "wake", "hindsight"];

    fn put(&self, fields: &mut Fields) -> (usize, usize) {
        use gating::Action;
        match *self {
            Action::Gate => (0, 0),
            Action::Rest { state } => {
                fields[0] = state.into();
                (1, 1)
            }
            Action::Wake => (2, 0),
            Action::Hindsight { gate, wake } => {
                fields[..2].copy_from_slice(&[gate.0, wake.0]);
                (3, 2)
            }
        }
    }

    #[inline]
    fn take(kind: usize, fields: &Fields) -> Option<Self> {
        use gating::Action;
        Some(match kind {
            0 => Action::Gate,
            1 => Action::Rest { state: fields[0].try_into().ok()? },
            2 => Action::Wake,
            3 => Action::Hindsight { gate: Time(fields[0]), wake: Time(fields[1]) },
            _ => return None,
        })
    }
}
