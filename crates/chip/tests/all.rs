//! Every integration test of the crate in one program, so that its libraries are linked once.

mod golden;
mod interruption;
mod sample;
mod stream;
mod wake_up_droop;
