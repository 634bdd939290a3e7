// SPDX-License-Identifier: GPL-2.0-or-later
//! The parts that both QEMU plugins share: the recorder of whole machines (`capture/plugin`) and
//! that of single programs (`capture/user`).
//!
//! ```text
//!  callbacks ──▶ Blocks, Batch ──▶ Sink (thread) ──▶ .hwt
//! ```

pub mod batch;
pub mod block;
pub mod blocks;
pub mod clock;
pub mod idt;
pub mod marker;
pub mod sink;
