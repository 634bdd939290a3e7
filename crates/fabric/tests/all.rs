//! Every integration test of the crate in one program, so that its libraries are linked once.

mod chakra;
mod connections;
mod faults;
mod flows;
mod rack_faults;
mod tcp;
mod world;
