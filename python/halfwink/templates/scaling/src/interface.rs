//! Family `scaling` of halfwink, version 1 of the interface: events of a router's cores and actions
//! on them. Times are picoseconds.
#![allow(dead_code)]

/// Properties of the router, which come with the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Number of cores, each with a receive queue.
    pub cores: u64,
    /// Number of P-states; 0 is the slowest.
    pub steps: u64,
    /// Most packets that a poll takes.
    pub burst: u64,
    /// Packets that a receive queue has room for.
    pub ring: u64,
    /// Time of a poll that finds nothing.
    pub empty_poll: u64,
    /// Time from an interrupt until its core polls.
    pub interrupt: u64,
    /// Times to leave C1, C3 and C6.
    pub exit: [u64; 3],
    /// Times in C1, C3 and C6 that pay for entering them.
    pub residency: [u64; 3],
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// Events of the cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come.
    Timer,
    /// A core takes packets from its queue, of which so many wait there. Sent for none, too.
    Poll { core: u8, taken: u32, waiting: u32 },
    /// A core found nothing and asks how to rest.
    Empty { core: u8 },
}

/// Actions that a policy can request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// The core takes part.
    Wake { core: u8 },
    /// The core gets nothing any more: it drains its queue, then sleeps as deep as it can.
    Park { core: u8 },
    /// All cores run at this P-state.
    SetStep { step: u8 },
    /// A core would run at this P-state; where cores share a rail, the fastest wish counts.
    Wish { core: u8, step: u8 },
    /// One of the 128 entries of the redirect table names another queue.
    Move { entry: u8, to: u8, in_order: bool },
    /// Lets a core rest, in answer to `Event::Empty`.
    Rest { core: u8, rest: Rest },
}

/// Ways in which a core without packets waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rest {
    /// Asks its queue again and again.
    Spin,
    /// Asks its queue so many times more, then sends `Event::Empty` again.
    Again { polls: u32 },
    /// Stays awake for a time, and does not look at its queue.
    Pause { span: u64 },
    /// Halts in this state until its queue interrupts it.
    Halt(Depth),
    /// Halts in this state until its queue interrupts it, or until the time is over.
    HaltFor { span: u64, depth: Depth },
    /// Halts in C1, and is promoted to this state after a while.
    Nap(Depth),
    /// Sleeps for a time, and does not look at its queue.
    Sleep { span: u64, depth: Depth },
}

/// Idle states of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Depth {
    C1,
    C3,
    C6,
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        let core = field[0] as u8;
        match number {
            0 => Event::Start(Start {
                cores: field[0],
                steps: field[1],
                burst: field[2],
                ring: field[3],
                empty_poll: field[4],
                interrupt: field[5],
                exit: [field[6], field[7], field[8]],
                residency: [field[9], field[10], field[11]],
                parameters,
            }),
            1 => Event::Timer,
            2 => Event::Poll { core, taken: field[1] as u32, waiting: field[2] as u32 },
            _ => Event::Empty { core },
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        match self {
            Action::Wake { core } => [1, core.into(), 0, 0],
            Action::Park { core } => [2, core.into(), 0, 0],
            Action::SetStep { step } => [3, step.into(), 0, 0],
            Action::Wish { core, step } => [4, core.into(), step.into(), 0],
            Action::Move { entry, to, in_order } => [5, entry.into(), to.into(), in_order.into()],
            Action::Rest { core, rest } => {
                let (kind, number) = match rest {
                    Rest::Spin => (0, 0),
                    Rest::Again { polls } => (1, polls.into()),
                    Rest::Pause { span } => (2, span),
                    Rest::Halt(depth) => (3 + depth as u64, 0),
                    Rest::HaltFor { span, depth } => (6 + depth as u64, span),
                    Rest::Nap(depth) => (9 + depth as u64, 0),
                    Rest::Sleep { span, depth } => (12 + depth as u64, span),
                };
                [6, core.into(), kind, number]
            }
        }
    }
}
