// SPDX-License-Identifier: GPL-2.0-or-later
//! A plugin of QEMU's user mode that records what a program executes, in all of its threads, into
//! a halfwink trace.
//!
//! ```text
//!  skip, or up to a start marker   instructions are counted, or nothing is hooked
//!  window                          callbacks ──▶ Recorder ──▶ Batch ──▶ Sink (thread) ──▶ .hwt
//!  limit, marker or end            the file is completed
//! ```
//!
//! Threads take turns, as on one CPU ([`turns`]): the trace is one sequence, and says at each
//! change whose instructions follow. System calls are events; the kernel's own instructions are not
//! there.

pub mod args;
pub mod death;
pub mod exec;
mod ffi;
pub mod out;
mod plugin;
pub mod recorder;
mod report;
pub mod samples;
pub mod turns;
