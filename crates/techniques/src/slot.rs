//! Places for one policy each. Techniques for different slots are played together.

/// A place for one policy. Joined techniques are written in this order:
/// `c6a+package-sleep+packing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// The way in which a core waits for memory.
    Stalls,
    /// The depth of sleep of an idle core.
    Idle,
    /// The sleep of what cores share.
    Package,
    /// The frequency of cores.
    Speed,
    /// The cores that run kernel code.
    Kernel,
    /// The division of a cache between user and kernel.
    Cache,
    /// The dispatch of requests to cores.
    Dispatch,
    /// The interrupts of the network card.
    Input,
    /// The announcement of requests, and what is loaded before they come.
    Preheat,
}

impl Slot {
    /// Returns what the slot decides, for messages.
    #[must_use]
    pub fn decides(self) -> &'static str {
        match self {
            Slot::Stalls => "how a core waits for memory",
            Slot::Idle => "how an idle core sleeps",
            Slot::Package => "when what cores share sleeps",
            Slot::Speed => "how fast cores run",
            Slot::Kernel => "where kernel code runs",
            Slot::Cache => "how user and kernel share a cache",
            Slot::Dispatch => "how requests come to cores",
            Slot::Input => "when the network card interrupts",
            Slot::Preheat => "what is done before a request comes",
        }
    }
}
