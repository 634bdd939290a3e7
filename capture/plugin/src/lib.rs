// SPDX-License-Identifier: GPL-2.0-or-later
//! A QEMU plugin that records what one CPU of a Linux guest executes, user and kernel, into a
//! halfwink trace.
//!
//! ```text
//!  guest boots        only marker instructions are hooked: full speed
//!  start marker       QEMU forgets all translations; from now on every block is hooked
//!  recording          callbacks ──▶ Recorder ──▶ Batch ──▶ Sink (thread) ──▶ .hwt
//!  limit or marker    the file is completed, the process ends
//! ```
//!
//! One CPU is told from another by the number in QEMU's callbacks. With several CPUs on one
//! thread QEMU fixes that number when it translates a block, so the CPUs must not share
//! translations: the guest sets EFER.SVME on the recorded CPU alone, which is part of what QEMU
//! looks translations up by (see `docs/capture.md`). The plugin checks that it did.

pub use halfwink_capture_stream::{batch, block, blocks, clock, idt, marker, sink};

pub mod args;
pub mod events;
mod ffi;
mod plugin;
pub mod recorder;
mod report;
pub mod translate;
