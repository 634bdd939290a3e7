//! Events and actions of a machine whose caches are loaded ahead, between a world and its policy.

use crate::{Host, Log, Policy};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use halfwink_units::{LineAddr, Time};

/// A policy that prepares a machine for requests.
pub trait Preheat: Policy<Event = Event, Action = Action> + Send {}

impl<P: Preheat + ?Sized> Preheat for Box<P> {}

impl<P: Preheat, L: Log<Event, Action> + Send> Preheat for Host<P, L> {}

/// A boxed preheat policy.
pub type PreheatPolicy = Box<dyn Preheat>;

/// A dump that the world keeps until it is told what to do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SetId(pub u32);

/// The events that a policy wants to hear beside those that all hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hears {
    /// Each miss.
    pub misses: bool,
    /// Packets, before they are in memory.
    pub packets: bool,
    /// Restarts: a hook where sockets are closed (Gottschlag 2016, Sec 5.5).
    pub restarts: bool,
}

/// Events that a machine tells its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// A request will come.
    Announced {
        /// Name of the service in the announcement: its port, where ports are announced.
        service: u16,
        /// Time at which its first packet is due.
        #[cfg_attr(feature = "serde", serde(rename = "due_ps"))]
        due: Time,
    },
    /// The first packet of a request came. Told before its server runs.
    Arrived {
        /// Destination port of the packet.
        port: u16,
    },
    /// The processor has nothing to do: all requests are answered.
    Idle,
    /// Caches lost what they held, in a deep sleep or a flush. Not told of flushes that
    /// [`Action::Estimate`] asks for. Without it no set is ever filtered.
    Lost,
    /// The dump is done, in answer to [`Action::Dump`].
    Dumped {
        /// Service of the window.
        service: u16,
        /// The dump, which the world keeps until it is intersected, united or discarded.
        set: SetId,
        /// Number of lines in the dump.
        lines: u32,
    },
    /// The service has a set that can be loaded: answer to [`Action::Subtract`] and
    /// [`Action::Build`], and told at the start of sets from earlier runs.
    Built {
        /// Service of the set.
        service: u16,
        /// Number of lines in the set.
        lines: u32,
    },
    /// A load is over: done, stopped, or cut at its time. Also told of a sham request.
    Loaded {
        /// Service of the set.
        service: u16,
    },
    /// A listening socket is gone: its server stopped, or restarts.
    Closed {
        /// Port of the socket.
        port: u16,
    },
    /// An access missed the last level that the policy loads into.
    Missed {
        /// Line that missed.
        line: LineAddr,
        /// Address of the instruction.
        site: u64,
        /// Whether it is an instruction fetch.
        is_code: bool,
    },
    /// The network card has a packet for memory.
    Received {
        /// First line of the packet in memory.
        first: LineAddr,
        /// Number of lines.
        lines: u16,
    },
}

/// Order in which a set is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Order {
    /// Order of addresses: rows of DRAM stay open (Gottschlag 2016, Sec 4.1.1).
    #[default]
    Address,
    /// Order of first use by requests (Sec 6.6).
    FirstUse,
    /// Order of tags by cache set, without sorting (Sec 5.3, Fig 6.2).
    Tags,
}

/// Content of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Recorded {
    /// Lines of code that missed, by region, in the order of first misses (Schall 2022).
    CodeMisses,
    /// All lines that missed, likewise.
    Misses,
    /// Pages that were touched (Ustiugov 2021).
    Pages,
}

/// Actions that a policy requests of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// The machine wakes, if it sleeps.
    Wake,
    /// Opens a window of estimation: no prefetchers, caches flushed (Gottschlag 2016, Sec 3.2).
    /// There is one at a time.
    Estimate {
        /// Service whose request is expected in it.
        service: u16,
    },
    /// Ends the window: reads all tags, then prefetchers are on again. Always answered with
    /// [`Event::Dumped`].
    Dump {
        /// Service of the window.
        service: u16,
    },
    /// Ends the window without a dump.
    Abandon {
        /// Service of the window.
        service: u16,
    },
    /// The estimate of the service keeps what is in this dump too; all of it if it is the first.
    Intersect {
        /// Service of the estimate.
        service: u16,
        /// The dump, which the world need not keep.
        set: SetId,
    },
    /// The estimate of the service gets what is in this dump.
    Unite {
        /// Service of the estimate.
        service: u16,
        /// The dump, which the world need not keep.
        set: SetId,
    },
    /// The dump is of no use.
    Discard {
        /// Which the world need not keep.
        set: SetId,
    },
    /// Dumps the cache at the point where a load would begin, in place of the load. Subtracts that
    /// dump from the estimate, sorts and encodes it (Sec 4.1.1). Answered with [`Event::Built`].
    Subtract {
        /// Service of the estimate.
        service: u16,
    },
    /// Sorts and encodes the estimate, or ends the recording, as it is. Answered with
    /// [`Event::Built`].
    Build {
        /// Service of the estimate.
        service: u16,
    },
    /// Loads the set of a service. Answered with [`Event::Loaded`].
    Load {
        /// Service of the set.
        service: u16,
        /// Time at which the load is cut, if it is not done by then.
        #[cfg_attr(feature = "serde", serde(rename = "until_ps"))]
        until: Option<Time>,
        /// Number of cores that load, each a part; 0 where hardware does.
        cores: u8,
        /// Order of the lines.
        order: Order,
    },
    /// Stops a load. Answered with [`Event::Loaded`].
    Stop {
        /// Service of the set.
        service: u16,
    },
    /// The server of a request that arrived does not run before [`Event::Loaded`].
    Hold {
        /// Service whose set is being loaded.
        service: u16,
    },
    /// Drops the set and the estimate of a service, with what is being loaded or recorded; a
    /// request that is held runs. Of what is dropped neither [`Event::Loaded`] nor
    /// [`Event::Built`] comes.
    Forget {
        /// Service of the set.
        service: u16,
    },
    /// Plays a request of no effect to the server on this port, whatever that takes. Always
    /// answered with [`Event::Loaded`], also if the server is gone.
    Sham {
        /// Port of the server.
        service: u16,
    },
    /// Records what the service uses from now on, until [`Action::Build`].
    Record {
        /// Service to record.
        service: u16,
        /// Content of the recording.
        what: Recorded,
    },
    /// Loads lines that may be wanted soon.
    Fetch {
        /// First line to load.
        first: LineAddr,
        /// Number of lines.
        lines: u16,
    },
    /// The network card writes these lines of its packet into the last-level cache, the others into
    /// memory.
    Place {
        /// First line to place.
        first: LineAddr,
        /// Number of lines.
        lines: u16,
    },
}

/// Lines that memory can have: addresses of 64 bits, lines of 64 bytes.
const MOST_LINES: u64 = 1 << 58;

impl Action {
    /// Checks that a machine can do it.
    ///
    /// # Errors
    /// The value found and the values allowed.
    pub fn check(&self) -> Result<(), String> {
        match *self {
            Action::Fetch { first, lines } | Action::Place { first, lines } => {
                let end = first.0.checked_add(lines.into());
                end.filter(|&end| end <= MOST_LINES).map(|_| ()).ok_or_else(|| {
                    format!(
                        "named {lines} lines from {} on, expected an end by {MOST_LINES}",
                        first.0
                    )
                })
            }
            _ => Ok(()),
        }
    }
}

impl Event {
    /// Checks that its machine does an action in answer to it: while a request runs or a packet
    /// comes in, it does nothing else.
    ///
    /// # Errors
    /// The action, and what is done.
    pub fn takes(&self, action: &Action) -> Result<(), String> {
        let expected = match (self, action) {
            (Event::Missed { .. }, Action::Fetch { .. }) => return Ok(()),
            (Event::Received { .. }, Action::Place { .. }) => return Ok(()),
            (Event::Missed { .. }, _) => "`fetch` alone",
            (Event::Received { .. }, _) => "`place` alone",
            (_, Action::Place { .. }) => "`place` in answer to `received`",
            _ => return Ok(()),
        };
        Err(format!("requested {action:?}, expected {expected}"))
    }
}
