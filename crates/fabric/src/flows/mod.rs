//! Flows between servers of racks that share circuits, packet switches, or both.
//!
//! ```text
//!   flows ──▶ wait for their pair of racks ──▶ circuit that is up ──▶ end
//!                    ▲                         several circuits of a path (short flows)
//!   policy ── who has a circuit to whom ──▶    a rack between (what is left of a day)
//!                                              packet switch (all, or short flows)
//! ```
//!
//! Between two events (a flow begins or ends, a day begins or ends) every rate stays: flows share
//! servers' ports and circuits max-min fair, as ideal transport would; so an event costs what runs,
//! not how much is sent. What transport protocols lose to that, packets' own queueing and
//! acknowledgements are left out: [`crate::world`] is for these.

mod books;
pub mod chakra;
pub mod collective;
mod error;
mod fault_spec;
mod faults;
pub mod files;
pub mod htsim;
mod layout;
mod parts;
mod paths;
mod pieces;
mod planes;
mod racks;
mod relays;
mod sharing;
pub mod traffic;
pub mod workload;
mod world;

use halfwink_engine::Closed;
use halfwink_units::Time;

pub use error::{FlowsError, RacksBroken};
pub use fault_spec::RackFaults;
pub use faults::RackFaultCounts;
pub use racks::{RackPower, Racks, Roofline};
pub use traffic::{Flow, Traffic};
pub use world::play;

use crate::CircuitSwitch;

/// Setting of a run: racks, switches, traffic rules and seed.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Racks, and what joins them.
    pub racks: &'a Racks,
    /// Each of their circuit switches.
    pub switch: &'a CircuitSwitch,
    /// Routing of flows in fabrics with circuits.
    pub routes: Routes,
    /// Time limit of the run; flows that are open then stay unfinished.
    pub at_most: Time,
    /// Seed of the faults.
    pub seed: u64,
}

/// Routing of flows over circuits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Routes {
    /// Flows of fewer bytes do not wait for a circuit of their own: they go over several that are
    /// up (Mellette 2020, Opera, Sec 3.2).
    pub hops_below_bytes: f64,
    /// Uses a day's spare capacity for flows of other racks: they go to the rack at the end of the
    /// circuit and wait there for their own (Mellette 2017, RotorNet, Sec 4.2; Valiant).
    pub relays: bool,
    /// A server has an equal part of each circuit of its rack, in whole frames, also if the others
    /// have nothing to send, and not what is fair (opera-sim, `rlbmodule.cpp`).
    pub even_parts: bool,
}

/// Results of a run. Everything is modelled.
#[derive(Debug)]
pub struct Run {
    /// End of the last flow, or [`Setting::at_most`].
    pub duration: Time,
    /// Completion time of each flow, by number; none if it has not ended.
    pub times: Vec<Option<Time>>,
    /// Time from the first begin of a flow of a group to its last end.
    pub groups: Vec<Option<Time>>,
    /// Bytes that arrived where they should.
    pub delivered: f64,
    /// Bytes on circuits between racks, each time they cross one.
    pub on_circuits: f64,
    /// Bytes on the packet switch.
    pub on_packets: f64,
    /// Days that began, of all planes.
    pub days: u64,
    /// Share of time in which circuits of a plane were up; the mean of all.
    pub up: f64,
    /// Number of events played.
    pub events: u64,
    /// Number of faults injected.
    pub faults: RackFaultCounts,
    /// Ledger of time and energy.
    pub books: Closed,
}

impl Run {
    fn begin(flows: usize) -> Run {
        Run {
            duration: Time::ZERO,
            times: vec![None; flows],
            groups: vec![],
            delivered: 0.0,
            on_circuits: 0.0,
            on_packets: 0.0,
            days: 0,
            up: 0.0,
            events: 0,
            faults: RackFaultCounts::default(),
            books: Closed { components: vec![], rows: Default::default(), duration: Time::ZERO },
        }
    }
}
