//! Every integration test of the crate in one program, so that its libraries are linked once.

mod golden;
mod held_out;
mod laws;
mod logs;
mod own_policy;
mod records;
