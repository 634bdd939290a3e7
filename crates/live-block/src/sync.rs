//! Stable storage: one thread that flushes for all connections, many flushes at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use halfwink_engine::Histogram;
use halfwink_units::Time;

use crate::backend::Backend;
use crate::conn::Conn;
use crate::out::{Pending, Scratch};
use crate::proto::Errno;

/// What waits for the next flush of the device.
#[derive(Default)]
pub(crate) struct Syncer {
    inner: Mutex<Inner>,
    rung: Condvar,
}

#[derive(Default)]
struct Inner {
    waiting: Vec<(Arc<Conn>, Pending)>,
    ends: bool,
    flushes: u64,
    answered: u64,
    failed: u64,
    took: Histogram,
}

/// What it has done.
#[derive(Clone, Debug)]
pub(crate) struct Synced {
    pub(crate) flushes: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) took: Histogram,
}

impl Syncer {
    fn locked(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers this once all that was written before it is on stable storage.
    pub(crate) fn give(&self, conn: Arc<Conn>, pending: Pending) {
        self.locked().waiting.push((conn, pending));
        self.rung.notify_one();
    }

    pub(crate) fn end(&self) {
        self.locked().ends = true;
        self.rung.notify_one();
    }

    pub(crate) fn look(&self) -> Synced {
        let inner = self.locked();
        let Inner { flushes, answered, failed, .. } = *inner;
        Synced { flushes, answered, failed, took: inner.took.clone() }
    }

    /// Flushes until it is told to end, and then once more.
    pub(crate) fn run(&self, backend: &dyn Backend) {
        let mut scratch = Scratch::default();
        loop {
            let mut inner = self.locked();
            while inner.waiting.is_empty() && !inner.ends {
                inner = self.rung.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
            let waiting = std::mem::take(&mut inner.waiting);
            let ends = inner.ends;
            drop(inner);
            if !waiting.is_empty() {
                // Whatever was answered on any connection before this call is covered by it.
                let begun = Instant::now();
                let error = backend.flush().err().as_ref().map(Errno::of);
                let took = Time(begun.elapsed().as_nanos() as u64 * 1_000);
                let mut inner = self.locked();
                inner.flushes += 1;
                inner.answered += waiting.len() as u64;
                inner.failed += u64::from(error.is_some());
                inner.took.record(took);
                drop(inner);
                for (conn, mut pending) in waiting {
                    pending.error = error;
                    conn.answer(pending, backend, &mut scratch);
                    scratch.latencies.clear();
                }
            }
            if ends {
                return;
            }
        }
    }
}
