//! World `racks`: flows between servers whose racks share circuits, packet switches, or both.

#[cfg(test)]
mod fault_tests;
mod job;
mod results;
mod source;

pub use job::Racks;
