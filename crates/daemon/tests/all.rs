//! Every integration test of the crate in one program, so that its libraries are linked once.

mod log;
mod notify;
mod signals;
