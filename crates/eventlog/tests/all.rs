//! Every integration test of the crate in one program, so that its libraries are linked once.

mod full_disk;
mod logs;
mod parts;
mod preheat;
