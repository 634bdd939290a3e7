//! The mailbox of delegated calls: every call is answered once, whoever sleeps when, and a worker
//! that is told to stop does.
#![allow(dead_code)]

#[path = "words/mod.rs"]
mod checked;

#[path = "../../live-delegate/src/mailbox.rs"]
mod mailbox;

/// What `mailbox.rs` takes its words from.
mod words {
    pub use super::checked::{fence, AtomicI64, AtomicU64, Ordering};

    /// Looks before the clock is looked at: one is as good as many, where all orders are played.
    pub const SPIN_LOOKS: u32 = 1;
    /// See `SPIN_LOOKS`.
    pub const EAGER_LOOKS: u32 = 1;

    use loom::sync::atomic::AtomicU32 as Checked;

    /// A word whose exchanges are barriers, too, as they are on x86-64, on which the mailbox
    /// relies: there is no other.
    #[derive(Debug, Default)]
    pub struct AtomicU32(pub Checked);

    impl AtomicU32 {
        pub fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }
        pub fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, order);
        }
        pub fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
            self.0.fetch_add(value, order)
        }
        pub fn swap(&self, value: u32, order: Ordering) -> u32 {
            let before = self.0.swap(value, order);
            fence(Ordering::SeqCst);
            before
        }
    }

    pub mod sys {
        use super::super::checked;
        use super::AtomicU32;

        pub fn futex_wait(word: &AtomicU32, expected: u32, most_ns: u64, shared: bool) {
            checked::futex_wait(&word.0, expected, most_ns, shared);
        }
        pub fn futex_wake(word: &AtomicU32, most: u32) {
            checked::futex_wake(&word.0, most);
        }
        pub fn yield_now() {
            loom::thread::yield_now();
        }
    }

    pub mod clock {
        /// Every look is later than any patience: both sides sleep at once.
        pub fn ticks() -> u64 {
            use std::sync::atomic::{AtomicU64, Ordering};
            static TICKS: AtomicU64 = AtomicU64::new(0);
            TICKS.fetch_add(1, Ordering::Relaxed)
        }
    }
}

use loom::sync::Arc;
use loom::thread;

use mailbox::{Mailbox, Patience, Request};

const NONE: Patience = Patience { worker: 0, caller: 0, yields: u64::MAX };

fn request(n: u64) -> Request {
    Request { number: n as u32, check: 0, args: [n; 6] }
}

#[test]
fn a_call_is_answered_whoever_sleeps_when() {
    checked::every_order(|| {
        let mailbox = Arc::new(Mailbox::default());
        let theirs = mailbox.clone();
        let worker = thread::spawn(move || theirs.work(NONE, |r| r.args[5] as i64 + 1));
        mailbox.life.store(mailbox::life::ALIVE, words::Ordering::SeqCst);
        let ticket = mailbox.post(&request(7));
        let answer = mailbox.wait(ticket, NONE);
        assert_eq!(answer, Some(8));
        mailbox.stop();
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_that_is_told_to_stop_does() {
    checked::every_order(|| {
        let mailbox = Arc::new(Mailbox::default());
        let theirs = mailbox.clone();
        let worker = thread::spawn(move || theirs.work(NONE, |_| 0));
        mailbox.stop();
        worker.join().unwrap();
    });
}
