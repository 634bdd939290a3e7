//! Family `circuits` of halfwink, version 1 of the interface: what waits at hosts, and the circuits
//! of a switch. Times are picoseconds.
#![allow(dead_code)]

/// Properties of the fabric, which come with the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Number of hosts, or racks.
    pub hosts: u64,
    /// Time from the end of one day to the begin of the next.
    pub night: u64,
    /// Length of the shortest day.
    pub shortest: u64,
    /// Bytes that a circuit carries in a millisecond.
    pub bytes_per_ms: u64,
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// Events of the switch and the hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come.
    Timer,
    /// Tells how many bytes wait at a host for another one; it replaces what was told before.
    Demand { from: u64, to: u64, bytes: u64 },
    /// The switch asks for its next day. The answer is the `Action::Join`s of it and then one
    /// `Action::Day`, all of this plane.
    Next { plane: u64, slot: u64 },
    /// A host answers no more: it gets no circuits.
    Lost { host: u64 },
    /// A lost host is there again.
    Back { host: u64 },
}

/// Actions that a policy can request, in answer to `Event::Next`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// A host sends to another one in the next day. Each sends to one, and receives from one.
    Join { plane: u64, from: u64, to: u64 },
    /// The next day is so long; `u64::MAX` for ever.
    Day { plane: u64, length: u64 },
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        let [a, b, c, d, ..] = *field;
        match number {
            0 => {
                let (hosts, night, shortest, bytes_per_ms) = (a, b, c, d);
                Event::Start(Start { hosts, night, shortest, bytes_per_ms, parameters })
            }
            1 => Event::Timer,
            2 => Event::Demand { from: a, to: b, bytes: c },
            3 => Event::Next { plane: a, slot: b },
            4 => Event::Lost { host: a },
            _ => Event::Back { host: a },
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        match self {
            Action::Join { plane, from, to } => [1, plane, from, to],
            Action::Day { plane, length } => [2, plane, length, 0],
        }
    }
}
