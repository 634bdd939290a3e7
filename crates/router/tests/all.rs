//! Every integration test of the crate in one program, so that its libraries are linked once.

mod common;

mod faults;
mod others;
mod world;
