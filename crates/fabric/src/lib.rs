//! Circuits instead of a core of packet switches (Strong 2013, ch. 4).
//!
//! ```text
//!            night       day           night       day
//!   circuit ──────┤████████████████├──────────┤████████████████├──  a slot: night + day
//!                    A sends to B               A sends to C        a week: all others
//! ```
//!
//! An optical switch joins each input to one output at a time. It draws a hundredth of what a
//! packet switch draws, but while it reconfigures (the night) nothing passes, and whoever is not
//! joined waits: hosts take turns.
//!
//! There are closed forms: how many switches a scale-out network has ([`scale_out`]), what an
//! optical core saves ([`DataCentre`]), what turns cost in throughput and round trips
//! ([`CircuitSwitch`]). And there is a world ([`world`]) in which hosts with ordinary network cards
//! take turns by policies of `halfwink-policy`; and TCP ([`tcp`]).

#![forbid(unsafe_code)]

mod circuit;
mod data_centre;
mod description;
mod faults;
pub mod flows;
mod hosts;
mod matching;
pub mod scale_out;
pub mod tcp;
pub mod world;

pub use circuit::CircuitSwitch;
pub use data_centre::{CorePower, DataCentre, Ports};
pub use description::{DescriptionError, Fabric, Spec};
pub use faults::{Broken, FaultCounts, Faults};
pub use hosts::{Card, Hosts, Power, Processor, Stalls, Tcp};
