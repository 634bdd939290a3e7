//! One policy for each slot of the node.

/// How a request comes to a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// The network card hashes its flow to a core, as receive-side scaling does.
    #[default]
    Hash,
    /// The core with the fewest requests; among equals the next from where the hash points.
    LeastLoaded,
    /// The first core, in their order, that has fewer requests than this; if none, the core with
    /// the fewest.
    Packing(u32),
    /// One queue for all: the core that became idle last takes the next request.
    Lifo,
    /// One queue for all: the core that has been idle longest takes the next request.
    Fifo,
}

/// A way of requests from the network card to a core.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Input {
    /// Each interrupts a core at once.
    #[default]
    AtOnce,
    /// The card holds an interrupt back for this time, in microseconds, so that one is for several.
    Coalesced(f64),
    /// The card does the same, for a time that Linux moderates.
    Moderated,
    /// A core without work polls the card before it rests.
    Polled {
        /// Time for which it polls, in microseconds.
        span_us: f64,
        /// Work that a request costs less if no interrupt brings it, in microseconds.
        interrupt_us: f64,
    },
    /// Interrupts are masked while a core has work, and for some timers behind that.
    Suspended {
        /// Time of each timer, in microseconds.
        flush_us: f64,
        /// Number of timers that find nothing before interrupts are back.
        empty_polls: u32,
        /// Work that a request costs less if no interrupt brings it, in microseconds.
        interrupt_us: f64,
    },
}

/// Announcements: each request is told to its core before it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Announce {
    /// Time from the announcement of a request to its arrival, in microseconds.
    pub lead_us: f64,
    /// Share of requests whose announcement is lost on the way.
    pub lost: f64,
    /// Announcements of requests that never come, for each request.
    pub stray: f64,
    /// Time that a core waits for such a request beyond its time, in microseconds.
    pub patience_us: f64,
    /// True if the lines that sleep has lost are loaded meanwhile.
    pub loads: bool,
}

/// The slots beside the idle one.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// State that a socket enters while all its cores are idle; none if it stays awake.
    pub package: Option<String>,
    /// How requests come to cores.
    pub dispatch: Dispatch,
    /// Way of requests from the network card to a core.
    pub input: Input,
    /// Announcements of requests, if there are any.
    pub announce: Option<Announce>,
}

impl Plan {
    /// Returns why its slots cannot be played together, or not under a closed loop, if they cannot.
    #[must_use]
    pub fn contradiction(&self, is_closed: bool) -> Option<&'static str> {
        self.announce?;
        if self.dispatch != Dispatch::Hash {
            return Some(
                "a request is announced to the core that its flow hashes to, and another may take \
                 it; leave out one of them",
            );
        }
        is_closed.then_some(
            "requests are announced ahead, and clients that wait for answers are not known to \
             send them; play an open load",
        )
    }
}
