//! Measures the machine that it runs on, in user mode and without counters, and records programs
//! on it instruction by instruction.
//!
//! ```text
//!  kernels (machine code) ─▶ times of many pinned runs ─▶ minimum, spread ─▶ Host
//!  program ─▶ single steps ─▶ registers ─▶ addresses ─▶ trace
//! ```
//!
//! What is made of the numbers is elsewhere: nothing here knows what a machine file looks like.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod arena;
mod bench;
pub mod code;
pub mod fit;
mod record;
pub mod sample;

use std::io;

pub use bench::{forget_branches, measure, Curve, Host};
pub use record::{record, RecordFault, Recorded};

/// Reason why a machine was not measured.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No stable clock counts cycles.
    #[error("no stable clock: {0}")]
    Clock(String),
    /// Repeating gives something else.
    #[error(
        "too noisy: {what} repeats within {spread_pct:.1} % ({runs} runs), expected at most \
         {most_pct} %"
    )]
    Noisy {
        /// Quantity that was measured.
        what: String,
        /// Spread of its runs.
        spread_pct: f64,
        /// Number of runs.
        runs: usize,
        /// Largest spread that is accepted.
        most_pct: f64,
    },
    /// A CPU that this process may not use.
    #[error("CPU {0}: {1}")]
    Cpu(usize, io::Error),
    /// The kernel does not allow executable memory.
    #[error("cannot run assembled code here: {0}")]
    Code(io::Error),
    /// No memory is left.
    #[error("no memory to measure in: {0}")]
    Memory(io::Error),
    /// No run could be timed.
    #[error("no run could be timed")]
    Nothing,
}
