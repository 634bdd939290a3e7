//! A block device over NBD, served in two phases: who reads requests, and who completes them.
//!
//! ```text
//!  clients ══▶ worker: read many ──▶ decode ──▶ device ──▶ policy ──Here──▶ replies in one call
//!                                                             └──Give──▶ another CPU's worker
//!  flush, FUA ──▶ one thread: a flush of the device for all who wait
//! ```
//!
//! The policy is the object of `crates/policy/src/completion` that decides in the simulated
//! storage stack, in a host that can log what it was told. Linux on x86-64 only.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod advise;
pub mod backend;
mod conn;
mod control;
mod meter;
mod out;
pub mod proto;
pub mod report;
mod server;
mod socket;
mod sync;
pub mod topology;
pub mod vhost;
mod worker;

pub use conn::Counts;
pub use control::EventLog;
pub use server::{Connections, Listen, Server, Setting};
pub use socket::raise_descriptor_limit;
