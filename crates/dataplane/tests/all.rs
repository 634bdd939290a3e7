//! Every integration test of the crate in one program, so that its libraries are linked once.
//! Those that need an allocator of their own stand apart.

mod bed;

mod any_bytes;
mod forward;
mod ipsec;
mod neighbours;
mod netflow;
mod redundancy;
mod settings;
