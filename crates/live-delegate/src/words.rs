//! Words that the mailbox's two sides share, and sleeping on one.

pub use core::sync::atomic::{fence, AtomicI64, AtomicU32, AtomicU64, Ordering};

pub use halfwink_live::{clock, sys};

/// Looks between two looks at the clock.
pub const SPIN_LOOKS: u32 = 16;
/// A caller's looks one after the other before the first rest, which is longer than a line's way.
/// (A worker rests between any two: it would take the line away while the caller still fills it.)
pub const EAGER_LOOKS: u32 = 64;
