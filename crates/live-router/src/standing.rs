//! What all know of a worker's queue, and how it sleeps without missing work.
//!
//! Its words come from `super::sync`: those of the machine, or of the model checker that plays all
//! orders of what threads see (`crates/interleavings`).

use super::sync::{fence, futex_wait, futex_wake, AtomicBool, AtomicU32, AtomicU64, Ordering};

/// State of a worker's queue that all threads share.
#[derive(Debug, Default)]
pub struct Standing {
    /// Frames served: rewritten and sent, or dropped.
    pub done: AtomicU64,
    /// Number of frames put.
    pub put: AtomicU64,
    /// 1 while its worker sleeps, or is about to.
    asleep: AtomicU32,
    /// Whether it is parked, and gets no frames.
    pub parked: AtomicBool,
}

impl Standing {
    /// Sleeps until rung, for so many nanoseconds at most, unless `busy` says there is work.
    pub fn sleep(&self, most_ns: u64, busy: impl FnOnce() -> bool) {
        // Whoever puts work exchanges this word after; so one of both sees the other. A store would
        // not do: by the rules of the language `busy` may come before it.
        self.asleep.swap(1, Ordering::SeqCst);
        if !busy() {
            futex_wait(&self.asleep, 1, most_ns, false);
        }
        self.asleep.store(0, Ordering::SeqCst);
    }

    /// Wakes its worker, if it sleeps; true if it did.
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        let slept = self.asleep.swap(0, Ordering::SeqCst) == 1;
        if slept {
            futex_wake(&self.asleep, 1);
        }
        slept
    }
}
