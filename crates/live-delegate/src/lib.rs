//! System calls of an unmodified program, made by a thread on another core.
//!
//! ```text
//!  program's thread (its own CPUs)                     OS CPU
//!  read(fd, ..) ─▶ wrapper ─▶ policy: stay ─▶ kernel
//!                               │
//!                               └ move ─▶ may it? ─▶ mailbox ─▶ worker ─▶ kernel
//!                                          no: here              │
//!                  errno, result ◀──────────────────────────────┘
//! ```
//!
//! `crates/delegate` holds the wrappers that a program is made to load; all that they decide and
//! count is here, so that it can be tested without them. What the policy is told in nanoseconds it
//! calls instructions: one nanosecond is one unit of its lengths and thresholds.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod calls;
pub mod chooser;
#[cfg(feature = "host")]
pub mod config;
#[cfg(feature = "host")]
pub mod events;
pub mod files;
pub mod histogram;
pub mod hub;
mod image;
mod local;
pub mod log;
pub mod mailbox;
#[cfg(feature = "host")]
pub mod measure;
#[cfg(feature = "host")]
pub mod place;
pub mod process;
#[cfg(feature = "host")]
pub mod report;
pub mod shared;
pub mod thread;
mod words;
pub mod worker;

/// Name of the variable that tells the preload library where to report.
pub const VARIABLE: &str = "HALFWINK_DELEGATE";

/// Returns the features of this machine that delegation and measurements use, with reasons for
/// missing ones.
#[cfg(feature = "host")]
#[must_use]
pub fn features() -> Vec<halfwink_live::probe::Feature> {
    let ring = io_uring::IoUring::new(2).err().map(|e| e.to_string());
    let hardware = measure::waits_in_hardware();
    let waits = if hardware { "" } else { "neither WAITPKG nor MONITORX" };
    vec![("io_uring", ring.unwrap_or_default()), ("waiting in hardware", waits.to_owned())]
}
