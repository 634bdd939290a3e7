//! Family `completion` of halfwink, version 1 of the interface: I/Os that a device is done with,
//! and CPUs that complete them. Times are picoseconds. The timer rings only if `poll` is listed.
#![allow(dead_code)]

/// Properties of the machine, which come with the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Number of CPUs of all sockets.
    pub cpus: u64,
    /// CPU that takes the device's interrupts.
    pub hears: u64,
    /// CPUs of a socket, which have numbers in a row.
    pub per_socket: u64,
    /// CPUs of a last-level cache, which have numbers in a row.
    pub per_cache: u64,
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// Ways in which a CPU rests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rest {
    /// Asks again and again.
    Spin,
    /// Asks so many times more, then sends `Event::Empty`.
    Again { polls: u64 },
    /// Is awake for this time and does not look.
    Pause { span: u64 },
    /// Halts in C1 until it is interrupted.
    Halt,
}

/// Events of the device and the CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come.
    Timer,
    /// The device is done with an I/O. The answer is one `Action::Here` or `Action::Give`.
    Done { io: u64, issuer: u64, heard: u64, waiting: u64, took: u64 },
    /// A CPU was busy for so much of the last 10 ms.
    Used { cpu: u64, busy: u64, of: u64 },
    /// A CPU takes I/Os that were given to it, of those that wait there.
    Poll { cpu: u64, taken: u64, waiting: u64 },
    /// A CPU found nothing. The answer is one `Action::Rest` of it.
    Empty { cpu: u64 },
}

/// Actions that a policy can request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The CPU that hears of the I/O completes it.
    Here { io: u64 },
    /// Another CPU completes it.
    Give { io: u64, cpu: u64 },
    /// A CPU rests in this way.
    Rest { cpu: u64, rest: Rest },
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        let [a, b, c, d, e, ..] = *field;
        match number {
            0 => Event::Start(Start { cpus: a, hears: b, per_socket: c, per_cache: d, parameters }),
            1 => Event::Timer,
            2 => Event::Done { io: a, issuer: b, heard: c, waiting: d, took: e },
            3 => Event::Used { cpu: a, busy: b, of: c },
            4 => Event::Poll { cpu: a, taken: b, waiting: c },
            _ => Event::Empty { cpu: a },
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        match self {
            Action::Here { io } => [1, io, 0, 0],
            Action::Give { io, cpu } => [2, io, cpu, 0],
            Action::Rest { cpu, rest } => {
                let [kind, number] = match rest {
                    Rest::Spin => [0, 0],
                    Rest::Again { polls } => [1, polls],
                    Rest::Pause { span } => [2, span],
                    Rest::Halt => [3, 0],
                };
                [3, cpu, kind, number]
            }
        }
    }
}
