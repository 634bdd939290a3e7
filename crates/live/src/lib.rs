//! The ground that live programs stand on: system calls without libc, the time-stamp counter,
//! descriptors, BPF, a line between CPUs, what a core does while it is idle, and what all programs
//! share.
//!
//! Linux on x86-64 only: the crate is empty elsewhere.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod bpf;
pub mod clock;
pub mod descriptor;
#[cfg(feature = "program")]
pub mod idle;
#[cfg(feature = "program")]
pub mod line;
pub mod owner;
#[cfg(feature = "program")]
pub mod probe;
#[cfg(feature = "program")]
pub mod program;
pub mod sys;
