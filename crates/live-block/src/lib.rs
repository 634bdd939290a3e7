//! A block device over NBD, served in two phases: who reads requests, and who completes them.
//!
//! ```text
//!  clients ══▶ worker: read many ──▶ decode ──▶ device ──▶ policy ──Here──▶ replies in one call
//!                                                             └──Give──▶ another CPU's worker
//!  flush, FUA ──▶ one thread: a flush of the device for all who wait
//! ```
//!
//! The policy is the object of `crates/policy/src/completion` that decides in the simulated
//! storage stack, in a host that can log what it was told. Linux on x86-64 only. Without the
//! feature `server` there is only the protocol.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[cfg(feature = "server")]
pub mod advise;
#[cfg(feature = "server")]
pub mod backend;
#[cfg(feature = "server")]
pub mod config;
#[cfg(feature = "server")]
mod conn;
#[cfg(feature = "server")]
mod control;
#[cfg(feature = "server")]
mod crew;
#[cfg(feature = "server")]
mod front;
#[cfg(feature = "server")]
mod lease;
#[cfg(feature = "server")]
mod meter;
#[cfg(feature = "server")]
mod out;
pub mod proto;
#[cfg(feature = "server")]
pub mod report;
#[cfg(feature = "server")]
mod ring;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod socket;
#[cfg(feature = "server")]
mod sync;
#[cfg(feature = "server")]
pub mod topology;
#[cfg(feature = "server")]
mod turn;
#[cfg(feature = "server")]
pub mod ublk;
#[cfg(feature = "server")]
pub mod vhost;
#[cfg(feature = "server")]
mod worker;

#[cfg(feature = "server")]
pub use conn::Counts;
#[cfg(feature = "server")]
pub use control::{Decides, EventLog, Next};
#[cfg(feature = "server")]
pub use front::{Done, Front};
#[cfg(feature = "server")]
pub use server::{Connections, Listen, Server, Setting};
#[cfg(feature = "server")]
pub use socket::raise_descriptor_limit;
