//! All integration tests of this crate, linked once.

mod closed_forms;
mod closed_loops;
mod common;
mod engines;
mod inputs;
mod moved;
