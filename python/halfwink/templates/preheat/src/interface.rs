//! Family `preheat` of halfwink, version 1 of the interface: requests that are announced to a
//! machine with cold caches, and lines that it loads. Times are picoseconds.
#![allow(dead_code)]

/// The start, which has nothing but the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// Events of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come.
    Timer,
    /// A request will come, whose first packet is due then.
    Announced { service: u64, due: u64 },
    /// The first packet of a request came; its server has not run yet.
    Arrived { port: u64 },
    /// All requests are answered.
    Idle,
    /// Caches lost what they held.
    Lost,
    /// The answer to `Action::Dump`: a dump, which is kept until it is used or discarded.
    Dumped { service: u64, set: u64, lines: u64 },
    /// The answer to `Action::Subtract` and `Action::Build`: a set that can be loaded.
    Built { service: u64, lines: u64 },
    /// A load or a sham request is over.
    Loaded { service: u64 },
    /// A listening socket is gone.
    Closed { port: u64 },
    /// An access missed the last cache. The answer may be `Action::Fetch`, nothing else.
    Missed { line: u64, site: u64, is_code: bool },
    /// The network card has a packet. The answer may be `Action::Place`, nothing else.
    Received { first: u64, lines: u64 },
}

/// Orders of loaded lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    Address,
    FirstUse,
    Tags,
}

/// Contents of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recorded {
    CodeMisses,
    Misses,
    Pages,
}

/// Actions that a policy can request. A service is its port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Wakes the machine, if it sleeps.
    Wake,
    /// Opens a window of estimation, with flushed caches. There is one at a time.
    Estimate { service: u64 },
    /// Ends the window: reads all tags.
    Dump { service: u64 },
    /// Ends the window without a dump.
    Abandon { service: u64 },
    /// The estimate of the service keeps what is in this dump, too.
    Intersect { service: u64, set: u64 },
    /// The estimate of the service gets what is in this dump.
    Unite { service: u64, set: u64 },
    /// The dump is of no use.
    Discard { set: u64 },
    /// Takes what is cached off the estimate, and builds the set.
    Subtract { service: u64 },
    /// Builds the set of the estimate, or of the recording.
    Build { service: u64 },
    /// Loads the set with so many cores, until this time at most; `u64::MAX` for no limit.
    Load { service: u64, until: u64, cores: u8, order: Order },
    /// Stops a load that has begun.
    Stop { service: u64 },
    /// The server of a request that arrived does not run before the load is over.
    Hold { service: u64 },
    /// Drops the set, the estimate, the recording and the load of the service.
    Forget { service: u64 },
    /// Plays a request of no effect.
    Sham { service: u64 },
    /// Records what the service uses, until `Action::Build`.
    Record { service: u64, what: Recorded },
    /// Loads lines that may be wanted soon.
    Fetch { first: u64, lines: u16 },
    /// The network card writes these lines of its packet into the last cache.
    Place { first: u64, lines: u16 },
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        let [a, b, c, ..] = *field;
        match number {
            0 => Event::Start(Start { parameters }),
            1 => Event::Timer,
            2 => Event::Announced { service: a, due: b },
            3 => Event::Arrived { port: a },
            4 => Event::Idle,
            5 => Event::Lost,
            6 => Event::Dumped { service: a, set: b, lines: c },
            7 => Event::Built { service: a, lines: b },
            8 => Event::Loaded { service: a },
            9 => Event::Closed { port: a },
            10 => Event::Missed { line: a, site: b, is_code: c == 1 },
            _ => Event::Received { first: a, lines: b },
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        match self {
            Action::Wake => [1, 0, 0, 0],
            Action::Estimate { service } => [2, service, 0, 0],
            Action::Dump { service } => [3, service, 0, 0],
            Action::Abandon { service } => [4, service, 0, 0],
            Action::Intersect { service, set } => [5, service, set, 0],
            Action::Unite { service, set } => [6, service, set, 0],
            Action::Discard { set } => [7, set, 0, 0],
            Action::Subtract { service } => [8, service, 0, 0],
            Action::Build { service } => [9, service, 0, 0],
            Action::Load { service, until, cores, order } => {
                [10, service, until, u64::from(cores) + 256 * order as u64]
            }
            Action::Stop { service } => [11, service, 0, 0],
            Action::Hold { service } => [12, service, 0, 0],
            Action::Forget { service } => [13, service, 0, 0],
            Action::Sham { service } => [14, service, 0, 0],
            Action::Record { service, what } => [15, service, what as u64, 0],
            Action::Fetch { first, lines } => [16, first, lines.into(), 0],
            Action::Place { first, lines } => [17, first, lines.into(), 0],
        }
    }
}
