//! Every integration test of the crate in one program, so that its libraries are linked once.

mod common;

mod faults;
mod golden;
mod load;
mod referee;
mod world;
