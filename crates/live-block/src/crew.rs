//! The threads of a front end: workers, and one that flushes for all.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::sync::Syncer;

/// Threads at work. None once they were told to end.
#[derive(Default)]
pub(crate) struct Crew {
    threads: Mutex<Vec<JoinHandle<()>>>,
    syncer: Mutex<Option<JoinHandle<()>>>,
}

impl Crew {
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn syncer(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.syncer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more thread, which works until it is told to end.
    pub(crate) fn spawn(
        &self,
        name: impl Into<String>,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let thread = Builder::new().name(name.into()).spawn(body)?;
        self.threads().push(thread);
        Ok(())
    }

    /// The one that flushes.
    pub(crate) fn spawn_syncer(&self, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        *self.syncer() = Some(Builder::new().name("block flush".to_owned()).spawn(body)?);
        Ok(())
    }

    /// Returns whether all threads are running.
    pub(crate) fn is_running(&self) -> bool {
        let threads = self.threads();
        !threads.is_empty() && threads.iter().all(|thread| !thread.is_finished())
    }

    /// Ends them: after `first`, which they still serve, all flushes are answered; then `tell` has
    /// them end. Whether there were any.
    pub(crate) fn end<T>(
        &self,
        syncer: &Syncer<T>,
        first: impl FnOnce(),
        tell: impl FnOnce(),
    ) -> bool {
        let threads = std::mem::take(&mut *self.threads());
        if threads.is_empty() {
            return false;
        }
        first();
        syncer.end();
        let flushing = self.syncer().take();
        flushing.into_iter().for_each(|thread| drop(thread.join()));
        tell();
        for thread in threads {
            // What it said when it died is on standard error; `is_running` told.
            let _ = thread.join();
        }
        true
    }
}
