//! Every integration test of the crate in one program, so that its libraries are linked once.

mod common;

mod capping;
mod faults;
mod fleet;
mod hybrid;
mod levels;
mod others;
mod sets;
mod year;
