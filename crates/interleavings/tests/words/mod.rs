//! Words whose every order is played, and sleeping on them: a futex without time-outs, so that a
//! wake-up that is lost is a deadlock.

// Each test binary uses its own part of it.
#![allow(dead_code, unused_imports)]

pub use loom::sync::atomic::{fence, AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use loom::sync::{Condvar, Mutex};

loom::lazy_static! {
    /// The kernel's list of sleepers; one for all words, so that wake-ups may be for nothing.
    static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// Sleeps if the word has this value. The kernel compares under its list's lock.
pub fn futex_wait(word: &AtomicU32, expected: u32, _: u64, _: bool) {
    let guard = SLEEPERS.0.lock().unwrap();
    if word.load(Ordering::SeqCst) == expected {
        drop(SLEEPERS.1.wait(guard).unwrap());
    }
}

/// Wakes who sleeps on the word.
pub fn futex_wake(_: &AtomicU32, _: u32) {
    drop(SLEEPERS.0.lock().unwrap());
    SLEEPERS.1.notify_all();
}

/// Plays a model in every order, up to three changes of thread that nobody asked for: more are
/// hardly ever needed to break something (Musuvathi 2007), and take minutes.
pub fn every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
