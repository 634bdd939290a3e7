//! Words that threads share, and sleeping on one.

pub use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};

pub use halfwink_live::sys::{futex_wait, futex_wake};
