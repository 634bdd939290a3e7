//! The threads of a recording, and the order that they keep among each other.

use std::sync::Arc;

use halfwink_trace::{Source, TraceError};

use super::scan::scan;
use super::stream::ThreadStream;
use super::words::Words;

/// The threads of a recording, and what each of them waits for.
#[derive(Debug)]
pub struct Threads {
    pub(super) words: Words,
    pub(super) threads: Vec<Thread>,
    /// Number of writes and calls that others wait for.
    pub(super) posts: u32,
}

/// A thread of a recording: where it waits, and what others wait for.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Number that the recording gives the thread.
    pub(super) recorded: u16,
    /// Waits before its accesses to synchronisation words, by number.
    pub(super) at_accesses: Vec<(u64, u32)>,
    /// Waits after its system calls, by number of calls.
    pub(super) at_calls: Vec<(u64, u32)>,
    /// Writes to synchronisation words that others wait for, by number.
    pub(super) writes: Vec<(u64, u32)>,
    /// System calls that others wait for, by number.
    pub(super) calls: Vec<(u64, u32)>,
}

/// A thread of [`Threads`], as a task plays it.
#[derive(Clone, Debug)]
pub struct OneThread {
    pub(crate) of: Arc<Threads>,
    pub(crate) number: usize,
}

impl Threads {
    /// Goes through a whole recording twice; `open` begins it anew.
    ///
    /// # Errors
    /// If the recording is damaged.
    pub fn of<S: Source>(mut open: impl FnMut() -> S) -> Result<Threads, TraceError> {
        let words = Words::of(&mut open())?;
        scan(&mut open(), words)
    }

    /// Number of threads that execute an instruction, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// True if any instruction of the recording is atomic.
    #[must_use]
    pub fn synchronise(&self) -> bool {
        !self.words.is_empty()
    }

    /// Returns the instructions of one thread, from a `source` of the whole recording, and the
    /// thread, for its task.
    pub fn thread(
        self: &Arc<Threads>,
        number: usize,
        source: impl Source + 'static,
    ) -> (Box<dyn Source>, OneThread) {
        let stream = ThreadStream::new(source, self.threads[number].recorded);
        (Box::new(stream), OneThread { of: Arc::clone(self), number })
    }
}
