//! When the writes and calls were done that other threads wait for, and who waits.

use std::sync::Arc;

use halfwink_units::Time;

use super::order::{OneThread, Threads};

/// State of the waits between the threads of a run, which are given as `T` while they wait.
pub(crate) struct Board<T> {
    of: Arc<Threads>,
    /// Time at which each post was done; never, if it was not yet.
    done: Vec<Time>,
    /// Threads that wait for posts.
    waiting: Vec<Waiting<T>>,
}

/// A thread that waits for a post, and the core that it left at a time.
pub(crate) struct Waiting<T> {
    post: u32,
    pub(crate) left: Time,
    pub(crate) core: usize,
    pub(crate) thread: T,
}

impl<T> Board<T> {
    /// Creates the board of the tasks that are threads of one recording; none, if they are not.
    pub(crate) fn of<'a>(
        mut tasks: impl Iterator<Item = Option<&'a OneThread>>,
    ) -> Option<Board<T>> {
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
        (left, core): (Time, usize),
        thread: T,
    ) -> Option<(Time, T)> {
        let done = self.done[post as usize];
        if done != Time::NEVER {
            return Some((left.max(done), thread));
        }
        self.waiting.push(Waiting { post, left, core, thread });
        None
    }

    /// A post is done at `at`; returns the threads that waited for it.
    pub(crate) fn post(&mut self, post: u32, at: Time) -> Vec<Waiting<T>> {
        debug_assert!(self.done[post as usize] == Time::NEVER, "a write is done once");
        self.done[post as usize] = at;
        self.waiting.extract_if(.., |waiting| waiting.post == post).collect()
    }

    /// A thread ends at `at`, perhaps before its recording does; returns the threads that waited
    /// for it.
    pub(crate) fn ends(&mut self, thread: usize, at: Time) -> Vec<Waiting<T>> {
        let of = Arc::clone(&self.of);
        let Some(thread) = of.threads.get(thread) else { return Vec::new() };
        let posts = thread.writes.iter().chain(&thread.calls).map(|&(_, post)| post);
        let left = posts.filter(|&post| self.done[post as usize] == Time::NEVER);
        let left: Vec<u32> = left.collect();
        left.into_iter().flat_map(|post| self.post(post, at)).collect()
    }

    /// True if no thread waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
