//! Family `steering` of halfwink, version 1 of the interface: events of a small and a big machine
//! and actions on them. Times are picoseconds.
#![allow(dead_code)]

/// Properties of the machines, which come with the start: of the small one, then of the big one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Requests in service at a time.
    pub workers: [u64; 2],
    /// Mean service time of a request that is alone.
    pub alone: [u64; 2],
    /// Mean service time with all workers busy.
    pub busy: [u64; 2],
    /// Times from asleep to on.
    pub wake: [u64; 2],
    /// Times from on to asleep.
    pub down: [u64; 2],
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// One of the two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    /// The small one: slow, drawing little.
    Small,
    /// The big one: fast, drawing much.
    Big,
}

/// Events of the machines. Both are on at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come.
    Timer,
    /// A request came. The answer is one `Action::Send`, at once.
    Arrive,
    /// A request is done, or was given up, this time after it came.
    Finish { side: Side, latency: u64 },
    /// A machine that was asked to wake serves now.
    Awake { side: Side },
    /// A machine that was asked to sleep sleeps now. Not sent if it was asked to wake meanwhile.
    Asleep { side: Side },
    /// A machine cannot be reached. What it had finishes, and comes anew.
    Lost { side: Side },
    /// A lost machine is back, and on.
    Back { side: Side },
}

/// Actions that a policy can request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// This machine serves the request, in answer to `Event::Arrive`.
    Send { side: Side },
    /// The machine wakes up. If it is going down, it does so after that.
    Wake { side: Side },
    /// The machine goes down now. What it has in service stands still until it is awake again.
    Sleep { side: Side },
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        let side = if field[0] == 0 { Side::Small } else { Side::Big };
        match number {
            0 => Event::Start(Start {
                workers: [field[0], field[1]],
                alone: [field[2], field[3]],
                busy: [field[4], field[5]],
                wake: [field[6], field[7]],
                down: [field[8], field[9]],
                parameters,
            }),
            1 => Event::Timer,
            2 => Event::Arrive,
            3 => Event::Finish { side, latency: field[1] },
            4 => Event::Awake { side },
            5 => Event::Asleep { side },
            6 => Event::Lost { side },
            _ => Event::Back { side },
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        let (number, side) = match self {
            Action::Send { side } => (1, side),
            Action::Wake { side } => (2, side),
            Action::Sleep { side } => (3, side),
        };
        [number, side as u64, 0, 0]
    }
}
