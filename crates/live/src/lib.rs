//! The real Linux worlds and their instruments. Nothing else in halfwink touches the operating
//! system, and nothing else is unsafe.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod clock;
pub mod delegate;
pub mod descriptor;
pub mod idle;
pub mod measure;
pub mod probe;
pub mod prototype;
pub mod router;
pub mod steer;
pub mod sys;
pub mod traffic;
