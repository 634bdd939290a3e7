//! Words that threads share, and sleeping on one.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering};

pub use halfwink_live::sys::{futex_wait, futex_wake};

/// Locks data that is whole after every statement, also in a thread that panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
