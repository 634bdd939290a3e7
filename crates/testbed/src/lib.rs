//! What live programs are tested with: traffic for routers, and the prototype of a hybrid server
//! with its load.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod prototype;
pub mod traffic;
