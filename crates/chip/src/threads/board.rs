//! When the writes and calls were done that other threads wait for, and who waits.

use std::sync::Arc;

use halfwink_units::Time;

use super::{OneThread, Threads};
use crate::core::Thread;

/// State of the waits between the threads of a run.
pub(crate) struct Board {
    of: Arc<Threads>,
    /// Time at which each post was done; never, if it was not yet.
    done: Vec<Time>,
    /// Threads that wait: for which post, and on which core.
    waiting: Vec<(u32, usize, Box<Thread>)>,
}

impl Board {
    /// Creates the board of the tasks that are threads of one recording; none, if they are not.
    pub(crate) fn of<'a>(mut tasks: impl Iterator<Item = Option<&'a OneThread>>) -> Option<Board> {
        let of = Arc::clone(&tasks.next()??.of);
        let done = vec![Time::NEVER; of.posts as usize];
        Some(Board { of, done, waiting: Vec::new() })
    }

    /// Returns whether a post was done before `at`; all cores have come as far.
    pub(crate) fn is_done(&self, post: u32, at: Time) -> bool {
        self.done[post as usize] < at
    }

    /// A thread that left its core waits for a post; it is given back with the time at which it may
    /// go on, if that is known already.
    pub(crate) fn wait(
        &mut self,
        post: u32,
        core: usize,
        thread: Box<Thread>,
    ) -> Option<(Time, Box<Thread>)> {
        let done = self.done[post as usize];
        if done == Time::NEVER {
            self.waiting.push((post, core, thread));
            return None;
        }
        Some((done, thread))
    }

    /// A post is done at `at`; `release` gets the threads that waited for it, with their cores.
    pub(crate) fn post(
        &mut self,
        post: u32,
        at: Time,
        mut release: impl FnMut(Time, usize, Box<Thread>),
    ) {
        debug_assert!(self.done[post as usize] == Time::NEVER, "a write is done once");
        self.done[post as usize] = at;
        for (_, core, thread) in self.waiting.extract_if(.., |(on, ..)| *on == post) {
            release(at.max(thread.left.0), core, thread);
        }
    }

    /// A thread ends at `at`, perhaps before its recording does: nothing waits for it any more.
    pub(crate) fn ends(
        &mut self,
        thread: usize,
        at: Time,
        mut release: impl FnMut(Time, usize, Box<Thread>),
    ) {
        let of = Arc::clone(&self.of);
        let Some(thread) = of.threads.get(thread) else { return };
        for &(_, post) in thread.writes.iter().chain(&thread.calls) {
            if self.done[post as usize] == Time::NEVER {
                self.post(post, at, &mut release);
            }
        }
    }

    /// True if no thread waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
