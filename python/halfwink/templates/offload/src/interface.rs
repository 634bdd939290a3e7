//! Family `offload` of halfwink, version 1 of the interface: a core that enters the kernel, and
//! where the kernel code runs. The timer never rings.
#![allow(dead_code)]

/// Properties of the machine, which come with the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Clock cycles of a move to another core.
    pub move_cycles: u64,
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// A kernel entry, as a processor sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    /// 0 a system call, 1 an interrupt, 2 an exception.
    pub cause: u64,
    /// Number of the call or the vector.
    pub number: u64,
    /// Arguments of a system call.
    pub args: [u64; 6],
    /// Bytes that the call asks for, if they stand in memory; all ones if they are not known.
    pub bytes: u64,
    /// Registers as a predictor hashes them.
    pub astate: u64,
}

/// Counters since the last sample: instructions (user, kernel), accesses and hits of the
/// second-level caches of the user core and the OS core, and of user code floating-point
/// operations, mispredicted branches, misses of the first-level data cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub instructions: [u64; 2],
    pub user_l2: [u64; 2],
    pub os_l2: [u64; 2],
    pub traits: [u64; 3],
}

/// Events of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come; never here.
    Timer,
    /// The core enters the kernel. The answer is one action.
    Enter(Entry),
    /// The core is back in user mode, after so many kernel instructions.
    Exit { instructions: u64 },
    /// Counters since the last sample.
    Sample(Sample),
}

/// Places where kernel code runs, each with the cycles that the decision took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// On the core that entered.
    Here { cycles: u64 },
    /// On the OS core. In answer to an exit: user code stays there.
    OsCore { cycles: u64 },
    /// An interrupt on the OS core, while its thread goes on where it is.
    Beside { cycles: u64 },
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        match number {
            0 => Event::Start(Start { move_cycles: field[0], parameters }),
            1 => Event::Timer,
            2 => Event::Enter(Entry {
                cause: field[0],
                number: field[1],
                args: [field[2], field[3], field[4], field[5], field[6], field[7]],
                bytes: field[8],
                astate: field[9],
            }),
            3 => Event::Exit { instructions: field[0] },
            _ => Event::Sample(Sample {
                instructions: [field[0], field[1]],
                user_l2: [field[2], field[3]],
                os_l2: [field[4], field[5]],
                traits: [field[6], field[7], field[8]],
            }),
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        let (number, cycles) = match self {
            Action::Here { cycles } => (1, cycles),
            Action::OsCore { cycles } => (2, cycles),
            Action::Beside { cycles } => (3, cycles),
        };
        [number, cycles, 0, 0]
    }
}
