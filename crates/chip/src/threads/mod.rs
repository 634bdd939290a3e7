//! Threads of one recording, each on a core of its own, in one memory.
//!
//! A recording of a program with several threads is one sequence: it was made as on a machine with
//! one CPU, and an [`Event::Cpu`](halfwink_trace::Event::Cpu) says which thread goes on. Played as
//! [`Threads`], each thread has a stream of its own, and what they tell each other keeps its order.
//!
//! **Synchronisation words** are the aligned four bytes that any thread accesses by an atomic
//! instruction: locks, counters, flags, futexes. An access to one of them, atomic or plain, waits
//! until the last write to it that was recorded before, if that is another thread's, has been done
//! in the caches ([`scan`]). A thread that was blocked in a futex call goes on after the call that
//! woke it; one that was begun, after the call that began it. All other accesses go to the caches
//! without regard to others, which coherence alone orders.
//!
//! **No deadlock**: the recorded order is total, and a thread waits only for what was recorded
//! before (an assertion of the scan). So of the accesses that are not done yet the one that was
//! recorded first waits for nothing. A thread that ends, since the recording or its limit does,
//! releases all that wait for it.
//!
//! **Exactness**: whether a write was done is decided at a fixed time of the reader, once all cores
//! have come as far ([`Turns`]); so it does not matter which core is simulated first.

mod board;
mod contended;
mod locked;
mod scan;
mod stream;
mod turns;
mod words;

use std::sync::Arc;

use halfwink_trace::{Source, TraceError};

pub(crate) use board::Board;
pub(crate) use contended::Contended;
use stream::ThreadStream;
pub(crate) use turns::{Turn, Turns};
use words::Words;

/// The threads of a recording, and what each of them waits for.
#[derive(Debug)]
pub struct Threads {
    words: Words,
    threads: Vec<Thread>,
    /// Number of writes and calls that others wait for.
    posts: u32,
}

/// A thread of a recording: where it waits, and what others wait for.
#[derive(Debug, Default)]
struct Thread {
    /// Its number in the recording.
    recorded: u16,
    /// Waits before its accesses to synchronisation words, by number.
    at_accesses: Vec<(u64, u32)>,
    /// Waits after its system calls, by number of calls.
    at_calls: Vec<(u64, u32)>,
    /// Those of its writes to synchronisation words that others wait for, by number.
    writes: Vec<(u64, u32)>,
    /// Those of its system calls that others wait for, by number.
    calls: Vec<(u64, u32)>,
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
        scan::scan(&mut open(), words)
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

    /// The instructions of one thread, from a `source` of the whole recording; and the thread, for
    /// its task.
    pub fn thread(
        self: &Arc<Threads>,
        number: usize,
        source: impl Source + 'static,
    ) -> (Box<dyn Source>, OneThread) {
        let stream = ThreadStream::new(source, self.threads[number].recorded);
        (Box::new(stream), OneThread { of: Arc::clone(self), number })
    }
}
