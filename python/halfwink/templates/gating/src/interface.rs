//! Family `gating` of halfwink, version 1 of the interface: events of a core and actions on it.
//! Times are picoseconds.
#![allow(dead_code)]

/// Properties of the core, which come with the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Time from the decision to gate until the supply is off.
    pub entry: u64,
    /// Time off that pays for waking up.
    pub break_even: u64,
    /// Time until the supply is stable again.
    pub wake_up: u64,
    /// Time from there until the core runs.
    pub restore: u64,
    /// Times at which waking may begin: from one to the next, and the first. 0: at any time.
    pub slots: [u64; 2],
    /// Loads that may wait for memory at once.
    pub token_entries: u64,
    /// Time until an access has missed the last cache, and time of memory from there.
    pub memory: [u64; 2],
    /// Time between ticks of the kernel.
    pub tick: u64,
    /// Time until the next timer that a governor sees on an idle core.
    pub timer: u64,
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// Events of the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come.
    Timer,
    /// The pipeline waits for memory.
    StallBegin,
    /// The pipeline moves again.
    StallEnd { began: u64 },
    /// An outstanding access of this line will be answered `span` after `created`: not before
    /// (`bound` 0), at an unknown time (1), or about then (2).
    Token { line: u64, created: u64, bound: u64, span: u64 },
    /// An outstanding access was answered.
    Response { line: u64 },
    /// The operating system halted the core.
    IdleBegin,
    /// An interrupt ends the halt.
    IdleEnd { began: u64 },
    /// The core is restored.
    Awake,
    /// A faster wake-up is granted, once.
    Granted { wake_up: u64 },
    /// An idle state that the machine may use, in the order of its table, told before all other
    /// events: the core polls (`depth` 0), stops its clock (1) or goes deeper (2).
    IdleState { state: u8, exit: u64, residency: u64, depth: u64 },
}

/// Actions that a policy can request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Cut the supply of a core that waits.
    Gate,
    /// Enter an idle state of the machine's table, by its place. Only in a halt.
    Rest { state: u8 },
    /// Wake a core that is gated, or in a state that is deeper than a stopped clock.
    Wake,
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        match number {
            0 => Event::Start(Start {
                entry: field[0],
                break_even: field[1],
                wake_up: field[2],
                restore: field[3],
                slots: [field[4], field[5]],
                token_entries: field[6],
                memory: [field[7], field[8]],
                tick: field[9],
                timer: field[10],
                parameters,
            }),
            1 => Event::Timer,
            2 => Event::StallBegin,
            3 => Event::StallEnd { began: field[0] },
            4 => {
                let [line, created, bound, span, ..] = *field;
                Event::Token { line, created, bound, span }
            }
            5 => Event::Response { line: field[0] },
            6 => Event::IdleBegin,
            7 => Event::IdleEnd { began: field[0] },
            8 => Event::Awake,
            9 => Event::Granted { wake_up: field[0] },
            _ => {
                let [state, exit, residency, depth, ..] = *field;
                Event::IdleState { state: state as u8, exit, residency, depth }
            }
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        match self {
            Action::Gate => [1, 0, 0, 0],
            Action::Rest { state } => [2, state.into(), 0, 0],
            Action::Wake => [3, 0, 0, 0],
        }
    }
}
