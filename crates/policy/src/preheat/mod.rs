//! What is loaded into cold caches before a request comes (Gottschlag 2016).
//!
//! ```text
//!              Announced, Arrived, Idle, Lost, Dumped, Built, Loaded, Closed
//!   machine  ────────────────────────────────────────────────────────────────▶  policy
//!            ◀────────────────────────────────────────────────────────────────
//!              Wake, Estimate .. Dump, Intersect, Subtract, Load, Hold, Forget
//! ```
//!
//! A machine that slept deeply has cold caches. A network whose arbiter plans every packet tells
//! the receiver what comes before it comes; the policy wakes the machine, and has the lines loaded
//! that such requests were seen to use.
//!
//! **Sets of lines are big and stay in the world**: a policy says what is done with the set of a
//! service, and allocates nothing. What a world makes of its dumps is [`estimate::Estimate`]. A
//! world wakes by itself when a packet comes to a machine that sleeps.

mod ahead;
pub mod announce;
pub mod arbiter;
pub mod churn;
pub mod estimate;
pub mod lines;
mod next_line;
mod no_preheat;
mod preheater;
pub mod regions;
mod replayer;
pub mod rle;
mod service;
pub mod set_file;
mod sham_request;
mod stash;
mod stride;
mod wake_only;

use alloc::boxed::Box;

use halfwink_units::{LineAddr, Time};

use crate::{Host, Log, Policy};

pub use estimate::{Dump, Estimate, WorkingSet};
pub use lines::{LineSet, Run};
pub use next_line::NextLine;
pub use no_preheat::NoPreheat;
pub use preheater::{Begin, Late, Ports, Preheater, PreheaterParameters, Sets};
pub use replayer::{Replayer, ReplayerParameters, Trigger};
pub use sham_request::ShamRequest;
pub use stash::Stash;
pub use stride::{Stride, StrideParameters};
pub use wake_only::WakeOnly;

/// A policy that prepares a machine for requests.
pub trait Preheat: Policy<Event = Event, Action = Action> + Send {}

impl<P: Preheat + ?Sized> Preheat for Box<P> {}

impl<P: Preheat, L: Log<Event, Action> + Send> Preheat for Host<P, L> {}

/// Any of them.
pub type PreheatPolicy = Box<dyn Preheat>;

/// A dump that the world keeps until it is told what to do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SetId(pub u32);

/// What a machine tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// A request will come.
    Announced {
        /// What the announcement calls its service: its port, where ports are announced.
        service: u16,
        /// When its first packet is due.
        #[cfg_attr(feature = "serde", serde(rename = "due_ps"))]
        due: Time,
    },
    /// The first packet of a request came. Told before its server runs.
    Arrived {
        /// Its destination port.
        port: u16,
    },
    /// The processor has nothing to do: all requests are answered.
    Idle,
    /// Caches lost what they held, in a deep sleep or a flush. Not told of flushes that
    /// [`Action::Estimate`] asks for. Without it no set is ever filtered.
    Lost,
    /// Answer to [`Action::Dump`].
    Dumped {
        /// Of its window.
        service: u16,
        /// The dump, which the world keeps until it is intersected, united or discarded.
        set: SetId,
        /// How many lines it has.
        lines: u32,
    },
    /// The service has a set that can be loaded: answer to [`Action::Subtract`] and
    /// [`Action::Build`], and told at the start of sets from earlier runs.
    Built {
        /// Whose.
        service: u16,
        /// How many lines it has.
        lines: u32,
    },
    /// A load is over: done, stopped, or cut at its time. Also told of a sham request.
    Loaded {
        /// Whose set.
        service: u16,
    },
    /// A listening socket is gone: its server stopped, or restarts.
    Closed {
        /// Its port.
        port: u16,
    },
    /// An access missed the last level that the policy loads into.
    Missed {
        /// Its line.
        line: LineAddr,
        /// Address of the instruction.
        site: u64,
        /// It is fetched to be run.
        is_code: bool,
    },
    /// The network card has a packet for memory.
    Received {
        /// Its first line there.
        first: LineAddr,
        /// How many.
        lines: u16,
    },
}

/// In which order a set is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Order {
    /// By address: rows of DRAM stay open (Gottschlag 2016, Sec 4.1.1).
    #[default]
    Address,
    /// As requests use the lines: what is needed first comes first (Sec 6.6).
    FirstUse,
    /// As tags are read, by cache set: no order was made (Sec 5.3, Fig 6.2).
    Tags,
}

/// What a recording consists of.
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

/// What a policy asks of its machine.
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
        /// Whose request is expected in it.
        service: u16,
    },
    /// Ends the window: reads all tags, then prefetchers are on again. Always answered with
    /// [`Event::Dumped`].
    Dump {
        /// Of the window.
        service: u16,
    },
    /// Ends the window without a dump.
    Abandon {
        /// Of the window.
        service: u16,
    },
    /// The estimate of the service keeps what is in this dump too; all of it if it is the first.
    Intersect {
        /// Whose.
        service: u16,
        /// The dump, which the world need not keep.
        set: SetId,
    },
    /// The estimate of the service gets what is in this dump.
    Unite {
        /// Whose.
        service: u16,
        /// The dump, which the world need not keep.
        set: SetId,
    },
    /// The dump is of no use.
    Discard {
        /// Which the world need not keep.
        set: SetId,
    },
    /// Where a load would begin, and in its place, dumps what is cached by then, takes that from
    /// the estimate, sorts and encodes it (Sec 4.1.1). Answered with [`Event::Built`].
    Subtract {
        /// Whose.
        service: u16,
    },
    /// Sorts and encodes the estimate, or ends the recording, as it is. Answered with
    /// [`Event::Built`].
    Build {
        /// Whose.
        service: u16,
    },
    /// Loads the set of a service. Answered with [`Event::Loaded`].
    Load {
        /// Whose.
        service: u16,
        /// When it is cut, if it is not done by then.
        #[cfg_attr(feature = "serde", serde(rename = "until_ps"))]
        until: Option<Time>,
        /// How many cores load, each a part; 0 where hardware does.
        cores: u8,
        /// In which order.
        order: Order,
    },
    /// Stops a load. Answered with [`Event::Loaded`].
    Stop {
        /// Whose set.
        service: u16,
    },
    /// The server of a request that arrived does not run before [`Event::Loaded`].
    Hold {
        /// Whose set is being loaded.
        service: u16,
    },
    /// Drops the set and the estimate of a service, with what is being loaded or recorded; a
    /// request that is held runs. Of what is dropped neither [`Event::Loaded`] nor
    /// [`Event::Built`] comes.
    Forget {
        /// Whose.
        service: u16,
    },
    /// Plays a request of no effect to the server on this port, whatever that takes. Always
    /// answered with [`Event::Loaded`], also if the server is gone.
    Sham {
        /// Whose.
        service: u16,
    },
    /// Records what the service uses from now on, until [`Action::Build`].
    Record {
        /// Whose.
        service: u16,
        /// What.
        what: Recorded,
    },
    /// Loads lines that may be wanted soon.
    Fetch {
        /// The first.
        first: LineAddr,
        /// How many.
        lines: u16,
    },
    /// The network card writes these lines of its packet into the last-level cache, the others into
    /// memory.
    Place {
        /// The first.
        first: LineAddr,
        /// How many.
        lines: u16,
    },
}
