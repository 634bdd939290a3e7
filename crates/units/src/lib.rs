//! Quantities as types: time in integer picoseconds, energy in integer attojoules, clocks as exact
//! fractions, addresses that cannot be mixed up, and the scale of all histograms.
//!
//! Everything here is `no_std`, copyable and totally ordered, so that a simulation built on it is
//! reproducible bit for bit: no floating-point number takes part in ordering events or in adding
//! up energy. Floating point appears only in constructors (from a machine description) and in
//! accessors for reports.
#![no_std]

mod address;
mod basis;
mod clock;
mod energy;
mod log_scale;
mod time;

pub use address::{Asid, LineAddr, PhysAddr, VirtAddr, LINE_BYTES, LINE_SHIFT, PAGE_SHIFT};
pub use basis::PowerBasis;
pub use clock::{Clock, Cycle};
pub use energy::{Energy, Power};
pub use log_scale::LogScale;
pub use time::Time;
