//! A thread's way through its waits.

use std::collections::VecDeque;
use std::sync::Arc;

use halfwink_trace::{Address, Program, TemplateId};
use halfwink_units::Time;

use super::order::OneThread;

/// The number of no post. Queued stores hold one each, and would grow by an option.
pub(crate) const NO_POST: u32 = u32::MAX;

/// State of the wait in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The pipeline has not come to it.
    New,
    /// The pipeline came to it at this time. The chip decides whether it was over then, once all
    /// cores have come as far.
    Asked(Time),
    /// The thread may go on.
    Over,
    /// The thread has to leave its core until it is over.
    Waits,
}

/// Reaction of a thread to a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The thread asks whether the wait is over, and looks again a cycle later.
    Asks,
    GoesOn,
    Leaves,
}

/// The place of a thread in what it waits for, and what waits for it.
#[derive(Debug)]
pub(crate) struct Turns {
    thread: OneThread,
    program: Arc<Program>,
    /// Accesses to synchronisation words, writes among them, and system calls so far; of accesses
    /// and writes, those of the run in front are counted when it begins.
    accesses: u64,
    writes: u64,
    calls: u64,
    /// Next of each list of the thread.
    next_access: usize,
    next_call: usize,
    next_write: usize,
    next_posted_call: usize,
    /// Waits in the run in front: which of its accesses, and for which post.
    waits: VecDeque<(u16, u32)>,
    /// Accesses of the run in front that others wait for.
    posts: Vec<(u16, u32)>,
    state: State,
}

impl Turns {
    pub(crate) fn new(thread: OneThread, program: Arc<Program>) -> Turns {
        Turns {
            thread,
            program,
            accesses: 0,
            writes: 0,
            calls: 0,
            next_access: 0,
            next_call: 0,
            next_write: 0,
            next_posted_call: 0,
            waits: VecDeque::new(),
            posts: Vec::new(),
            state: State::New,
        }
    }

    /// A run begins with these addresses; returns its accesses to synchronisation words.
    pub(crate) fn begin_run(&mut self, template: TemplateId, addresses: &[Address]) -> u64 {
        debug_assert!(self.waits.is_empty(), "a wait of the run before is left");
        self.posts.clear();
        let OneThread { of, number } = &self.thread;
        let own = &of.threads[*number];
        let before = self.accesses;
        let sites = self.program.sites_of(self.program.template(template));
        for (n, (site, address)) in (0..).zip(sites.iter().zip(addresses)) {
            if !of.words.touch(address.phys.0, site.size) {
                continue;
            }
            while let Some(&(_, post)) =
                own.at_accesses.get(self.next_access).filter(|&&(at, _)| at == self.accesses)
            {
                self.waits.push_back((n, post));
                self.next_access += 1;
            }
            self.accesses += 1;
            if site.write {
                let next = own.writes.get(self.next_write);
                if let Some(&(_, post)) = next.filter(|&&(at, _)| at == self.writes) {
                    self.posts.push((n, post));
                    self.next_write += 1;
                }
                self.writes += 1;
            }
        }
        self.accesses - before
    }

    /// Returns the accesses to synchronisation words of a run behind that in front, with so many
    /// `before` it; none if it has to wait for one of them.
    pub(crate) fn accesses_without_wait(
        &self,
        template: TemplateId,
        addresses: &[Address],
        before: u64,
    ) -> Option<u64> {
        let OneThread { of, number } = &self.thread;
        let sites = self.program.sites_of(self.program.template(template));
        let touches = sites.iter().zip(addresses);
        let touches = touches.filter(|(site, address)| of.words.touch(address.phys.0, site.size));
        let accesses = touches.count() as u64;
        let next = of.threads[*number].at_accesses.get(self.next_access);
        let waits = next.is_some_and(|&(at, _)| at < self.accesses + before + accesses);
        (!waits).then_some(accesses)
    }

    /// Returns what others wait for, if this access of the run in front does it, or [`NO_POST`].
    pub(crate) fn post_of(&self, access: u16) -> u32 {
        self.posts.iter().find(|(n, _)| *n == access).map_or(NO_POST, |&(_, post)| post)
    }

    /// The thread makes a system call; returns what others wait for, if it is that.
    pub(crate) fn calls(&mut self) -> Option<u32> {
        let calls = &self.thread.of.threads[self.thread.number].calls;
        let post = calls.get(self.next_posted_call).filter(|&&(at, _)| at == self.calls);
        self.calls += 1;
        let &(_, post) = post?;
        self.next_posted_call += 1;
        Some(post)
    }

    /// Returns the access of the run in front that waits next.
    #[inline]
    pub(crate) fn wait_in_run(&self) -> Option<u16> {
        self.waits.front().map(|&(access, _)| access)
    }

    /// True if the thread waits before its next run.
    pub(crate) fn waits_after_call(&self) -> bool {
        self.wait_after_call().is_some()
    }

    fn wait_after_call(&self) -> Option<u32> {
        let waits = &self.thread.of.threads[self.thread.number].at_calls;
        waits.get(self.next_call).filter(|&&(at, _)| at == self.calls).map(|&(_, post)| post)
    }

    /// Returns what the thread waits for next.
    fn front(&self) -> Option<u32> {
        self.waits.front().map(|&(_, post)| post).or_else(|| self.wait_after_call())
    }

    /// The pipeline has come to what lies in front at `now`; none if that is no wait.
    pub(crate) fn turn(&mut self, now: Time) -> Option<Turn> {
        self.front()?;
        Some(match self.state {
            State::New => {
                self.state = State::Asked(now);
                Turn::Asks
            }
            State::Asked(_) => {
                debug_assert!(false, "the chip decides before the core goes on");
                Turn::Asks
            }
            State::Waits => Turn::Leaves,
            State::Over => {
                self.state = State::New;
                if self.waits.pop_front().is_none() {
                    self.next_call += 1;
                }
                Turn::GoesOn
            }
        })
    }

    /// Returns what is to be decided: a post, and the time before which it has to be done.
    pub(crate) fn asks(&self) -> Option<(u32, Time)> {
        match self.state {
            State::Asked(at) => Some((self.front()?, at)),
            State::New | State::Over | State::Waits => None,
        }
    }

    /// The chip has decided.
    pub(crate) fn decide(&mut self, is_over: bool) {
        self.state = if is_over { State::Over } else { State::Waits };
    }

    /// The thread has left its core; returns the post that it waits for, if that is the reason.
    /// When it comes back the wait is over.
    pub(crate) fn leaves(&mut self) -> Option<u32> {
        if self.state != State::Waits {
            return None;
        }
        self.state = State::Over;
        self.front()
    }
}
