//! The live router's receiver and a worker: no frame waits behind a worker that sleeps.
#![allow(dead_code)]

mod words;

#[path = "../../live-router/src/standing.rs"]
mod standing;

/// What `standing.rs` takes its words from.
mod sync {
    use loom::sync::atomic::AtomicU32 as Checked;

    use super::words;
    pub use super::words::{fence, AtomicBool, AtomicU64, Ordering};

    /// A word. Stores of zero, on which nothing depends, are exchanges: the checker does not know
    /// that an exchange of the other side stands next to the value that it read, and would let a
    /// later one read that once more.
    #[derive(Debug, Default)]
    pub struct AtomicU32(Checked);

    impl AtomicU32 {
        pub fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }
        pub fn store(&self, value: u32, order: Ordering) {
            if value == 0 {
                self.0.swap(value, Ordering::AcqRel);
            } else {
                self.0.store(value, order);
            }
        }
        pub fn swap(&self, value: u32, order: Ordering) -> u32 {
            self.0.swap(value, order)
        }
    }

    pub fn futex_wait(word: &AtomicU32, expected: u32, most_ns: u64, shared: bool) {
        words::futex_wait(&word.0, expected, most_ns, shared);
    }

    pub fn futex_wake(word: &AtomicU32, most: u32) {
        words::futex_wake(&word.0, most);
    }
}

use loom::sync::Arc;
use loom::thread;

use standing::Standing;
use sync::{AtomicU32, Ordering};

/// A queue of so many frames: what a ring's indices are to both sides.
#[derive(Default)]
struct Ring {
    put: AtomicU32,
    taken: AtomicU32,
}

impl Ring {
    fn waits(&self) -> bool {
        self.put.load(Ordering::Acquire) != self.taken.load(Ordering::Relaxed)
    }
}

/// Frames put one after the other, each followed by a ring; the worker sleeps without an alarm.
fn play(frames: u32) {
    words::every_order(move || {
        let standing = Arc::new(Standing::default());
        let ring = Arc::new(Ring::default());
        let (theirs, queue) = (standing.clone(), ring.clone());
        let worker = thread::spawn(move || {
            let mut served = 0;
            while served < frames {
                if queue.waits() {
                    served += 1;
                    queue.taken.store(served, Ordering::Release);
                    theirs.done.fetch_add(1, Ordering::Release);
                } else {
                    // A lost wake-up is a deadlock, which the checker tells.
                    theirs.sleep(u64::MAX >> 1, || queue.waits());
                }
            }
        });
        for frame in 1..=frames {
            ring.put.store(frame, Ordering::Release);
            standing.ring();
        }
        worker.join().unwrap();
        assert_eq!(standing.done.load(Ordering::Acquire), u64::from(frames));
    });
}

#[test]
fn one_frame_wakes_its_worker() {
    play(1);
}

#[test]
fn frames_that_follow_each_other_are_all_served() {
    play(2);
}
