//! Stable storage: one thread that flushes for all connections, many flushes at once.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use halfwink_engine::Histogram;
use halfwink_units::Time;

use crate::backend::Backend;

/// Requests that wait for the next flush of the device.
pub(crate) struct Syncer<T> {
    inner: Mutex<Inner<T>>,
    rung: Condvar,
}

struct Inner<T> {
    waiting: Vec<T>,
    ends: bool,
    flushes: u64,
    answered: u64,
    failed: u64,
    took: Histogram,
}

/// Counters of the flushing thread.
#[derive(Clone, Debug)]
pub(crate) struct Synced {
    pub(crate) flushes: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) took: Histogram,
}

impl<T> Default for Syncer<T> {
    fn default() -> Syncer<T> {
        let inner = Inner {
            waiting: Vec::new(),
            ends: false,
            flushes: 0,
            answered: 0,
            failed: 0,
            took: Histogram::default(),
        };
        Syncer { inner: Mutex::new(inner), rung: Condvar::new() }
    }
}

impl<T> Syncer<T> {
    fn locked(&self) -> std::sync::MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers this once all that was written before it is on stable storage.
    pub(crate) fn give(&self, request: T) {
        self.locked().waiting.push(request);
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

    /// Flushes until it is told to end, and then once more; `answer` is told of each request why
    /// the flush failed, if it did.
    pub(crate) fn run(&self, backend: &dyn Backend, mut answer: impl FnMut(T, Option<&io::Error>)) {
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
                let error = backend.flush().err();
                let took = Time(begun.elapsed().as_nanos() as u64 * 1_000);
                let mut inner = self.locked();
                inner.flushes += 1;
                inner.answered += waiting.len() as u64;
                inner.failed += u64::from(error.is_some());
                inner.took.record(took);
                drop(inner);
                for request in waiting {
                    answer(request, error.as_ref());
                }
            }
            if ends {
                return;
            }
        }
    }
}
