//! World `racks`: flows between servers whose racks share circuits, packet switches, or both.

mod job;
mod results;
mod source;

pub use job::Racks;
