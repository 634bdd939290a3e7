//! What a thread counts and where its time goes. One thread writes, others read.

use std::sync::atomic::{AtomicU64, Ordering};

use halfwink_engine::Histogram;

use crate::conn::Counts;

/// A count that one thread writes.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        // Nobody else writes it, so that no locked instruction is needed.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// States of a thread; ticks in each.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// The kernel has the CPU for others.
    pub(crate) sleeping: Count,
    /// Asks, and finds nothing.
    pub(crate) polling: Count,
    /// Time spent serving.
    pub(crate) working: Count,
    /// Begin of the time that is not booked yet.
    pub(crate) since: Count,
    /// Whether that time is sleep.
    pub(crate) sleeps: Count,
}

impl Times {
    /// Books the time until `now` to a state, and says what comes next.
    #[inline]
    pub(crate) fn book(&self, state: impl Fn(&Times) -> &Count, now: u64, sleeps: bool) {
        let since = self.since.get();
        state(self).add(now.saturating_sub(since));
        self.since.set(now);
        self.sleeps.set(u64::from(sleeps));
    }

    /// Returns the ticks of sleeping, polling and working until `now`. Time that is not booked yet
    /// counts as sleep or as work, since the result of a poll is not known yet.
    pub(crate) fn until(&self, now: u64) -> [u64; 3] {
        let open = now.saturating_sub(self.since.get());
        let (asleep, awake) = if self.sleeps.get() == 1 { (open, 0) } else { (0, open) };
        [self.sleeping.get() + asleep, self.polling.get(), self.working.get() + awake]
    }
}

/// Stages of an I/O; ticks in each.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    /// The socket is read.
    pub(crate) read: Count,
    /// Time of decoding requests.
    pub(crate) decode: Count,
    /// Time of the device.
    pub(crate) backend: Count,
    /// The policy is asked, and requests are given to other threads.
    pub(crate) hand_off: Count,
    /// Replies are put together and sent.
    pub(crate) reply: Count,
}

/// All of a worker.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) times: Times,
    pub(crate) stages: Stages,
    /// Waits that ended with something to do.
    pub(crate) wakes: Count,
    /// Reads of sockets that had something.
    pub(crate) batches: Count,
    /// I/Os completed on the thread that read them, and those that came from another.
    pub(crate) here: Count,
    pub(crate) given: Count,
    /// I/Os that were to go to another, whose mailbox was full.
    pub(crate) overflowed: Count,
    pub(crate) errors: Count,
}

/// Counters that change together, behind a lock that is taken once per batch.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    pub(crate) counts: Counts,
    pub(crate) latency: Histogram,
}
