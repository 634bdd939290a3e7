//! Cores that are set aside for the kernel: threads that go to them and come back (Mogul 2007, Sec
//! 3; Strong 2013, ch. 3; Nellans 2014, Sec 4.4).
//!
//! ```text
//!          enters the kernel: the offload policy decides
//!  core n ──── drains, switches ───▶ queue ──▶ OS core   kernel runs there, pulling lines over
//!    ▲                                            │      as it needs them (MESI)
//!    └──── queue ◀──── drains, switches ──────────┘ returns to user mode
//! ```
//!
//! A core without a thread is as one that the operating system has halted: a gating policy may
//! power it down. A thread that is halted leaves its core to others until it wakes.
//!
//! Assumptions: half of a switch is work of the core that is left, half of the core that is
//! entered, each at its own clock; queues are served in the order of arrival; a thread always goes
//! to the same OS core, and always comes back to the core that it began on.

mod entry;
mod thread;

pub use entry::kernel_entry;
pub use thread::{add_calls, Call, Calls};
pub(crate) use thread::{Crossed, Departure, OsThread};

/// The OS core that a thread goes to.
pub(crate) fn os_core_of(home: usize, os_cores: usize) -> usize {
    home % os_cores
}
