//! Block I/O on machines of several sockets (Nellans 2014, ch. 6).
//!
//! ```text
//!  issuing CPUs                      device                CPU 0            completing CPUs
//!  submit ─[request queue lock x2]─▶ latency, rate ─irq──▶ phase 1 ──IPI──▶ phase 2 ──▶ the issuer
//!                                                          [deferred ring]  [driver's map]
//! ```
//!
//! Every lock has a line that moves between caches: next to nothing within a core, tens of
//! nanoseconds within a socket, hundreds between sockets. Which CPU completes an I/O is a policy of
//! `halfwink-policy`; everything else of it is here: topology ([`Machine`]), lines
//! ([`Distances`]), locks ([`lock`]), device ([`device`]), and the world that plays them
//! ([`world`]). Closed forms stand beside it ([`closed_form`], [`application`]); what is issued may
//! be a user's own ([`load`]).

#![forbid(unsafe_code)]

pub mod application;
pub mod closed_form;
mod coherence;
mod description;
pub mod device;
mod faults;
pub mod load;
pub mod lock;
pub mod world;

pub use coherence::Distances;
pub use description::{
    Applications, Block, Coherence, DescriptionError, Device, Driver, LockKind, LockSpec, Machine,
    Power, Spec, Topology,
};
pub use faults::{Broken, FaultCounts, Faults};
