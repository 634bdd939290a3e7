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

pub mod calls;
pub mod chooser;
pub mod files;
pub mod histogram;
pub mod hub;
mod local;
pub mod log;
pub mod mailbox;
pub mod process;
pub mod report;
pub mod shared;
pub mod thread;
pub mod worker;

/// Name of the variable that tells the preload library where to report.
pub const VARIABLE: &str = "HALFWINK_DELEGATE";
