//! Warm caches for the next request of an unmodified server on stock Linux (after Gottschlag 2016).
//!
//! ```text
//!  announcement, SYN, timer ─▶ daemon: policy ─▶ BPF program: lines of the kernel
//!                                          └───▶ thread in the server: its own lines, its pages
//!  estimate: evict, one request, time a load of each candidate ─▶ set, bound to build ids
//! ```
//!
//! `crates/preheat-preload` is what servers are made to load; all that it does is here
//! ([`helper`]), so that it can be tested without a server.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod helper;
pub mod shared;

#[cfg(feature = "host")]
pub mod bpf;
#[cfg(feature = "host")]
pub mod kernel;

/// Name of the variable that tells the preload library where to report.
pub const VARIABLE: &str = "HALFWINK_PREHEAT";
