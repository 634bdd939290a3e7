//! Records of gating: when a core sleeps.

use halfwink_units::{LineAddr, Time};

use super::{Fields, Record};
use crate::gating;

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
