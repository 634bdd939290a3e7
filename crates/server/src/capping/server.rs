//! One server between two epochs.
//!
//! Servers hear of each other only when caps are shared out, and between two such moments a
//! server's speed is constant. So each is played from one to the next by itself; and in there a
//! request needs no event: the queue is first come, first served, so the next request starts on the
//! core that is free first, and its finish is known at once (the recursion of Kiefer and Wolfowitz,
//! 1955). A test plays the same world one event at a time, and compares every response.

use std::collections::VecDeque;

use halfwink_engine::{stream, Stream};

use super::sampler::Sampler;

/// Rate of a server's work at its present speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Time that the rest of a request is given, for each unit of it.
    pub(super) span: f64,
    /// Work that is counted as done when a request is interrupted, for each unit of time.
    pub(super) credit: f64,
}

impl Pace {
    pub(super) const FULL: Pace = Pace { span: 1.0, credit: 1.0 };
}

/// Receives the responses of an epoch.
pub(super) trait Tally {
    /// A request left: from arrival to finish, in picoseconds.
    fn response(&mut self, ps: u64);
}

/// A server: cores that share one queue.
#[derive(Clone, Debug)]
pub(super) struct Server {
    gaps: Stream,
    sizes: Stream,
    coming: u64,
    /// Time at which each core is free.
    free: Vec<u64>,
    /// Work of each core that is not free.
    work: Vec<Work>,
    queue: VecDeque<(u64, u64)>,
    pace: Pace,
    /// Core time in which there was a request, from requests; and in which there was none, from
    /// cores: picoseconds.
    pub(super) busy: u64,
    pub(super) idle: u64,
    pub(super) arrived: u64,
}

/// A request in service.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    arrival: u64,
    /// Since when its finish is planned.
    since: u64,
    /// Work that was left then.
    left: u64,
}

impl Server {
    pub(super) fn new(cores: usize, seed: u64, number: usize, arrivals: &Sampler) -> Server {
        let mut gaps = stream(seed, &format!("server{number}.arrivals"));
        Server {
            coming: arrivals.draw(&mut gaps),
            gaps,
            sizes: stream(seed, &format!("server{number}.sizes")),
            free: vec![0; cores],
            work: vec![Work::default(); cores],
            queue: VecDeque::new(),
            pace: Pace::FULL,
            busy: 0,
            idle: 0,
            arrived: 0,
        }
    }

    /// Cores that still work at `now`.
    pub(super) fn busy_cores(&self, now: u64) -> usize {
        self.free.iter().filter(|&&free| free > now).count()
    }

    /// Requests that have come and not left by `now`, to which it was played.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Plays all that happens after `from` until `until`, that included, at a new pace.
    pub(super) fn play(
        &mut self,
        (from, until): (u64, u64),
        pace: Pace,
        [arrivals, sizes]: [&Sampler; 2],
        tally: &mut impl Tally,
    ) {
        let old = std::mem::replace(&mut self.pace, pace);
        // Only requests in service hear of the new pace; those that wait are planned at it when
        // they start.
        for core in 0..self.free.len() {
            if self.free[core] > from {
                self.work[core].look(from, old);
                self.plan(core, until, tally);
            }
        }
        while !self.queue.is_empty() {
            let core = self.first_free();
            if self.free[core] > until {
                break;
            }
            let (arrival, size) = self.queue.pop_front().expect("it is not empty");
            self.start(core, self.free[core], arrival, size, until, tally);
        }
        while self.coming <= until {
            let (arrival, size) = (self.coming, sizes.draw(&mut self.sizes));
            self.coming += arrivals.draw(&mut self.gaps);
            self.arrived += 1;
            let core = self.first_free();
            if self.free[core] > until {
                self.queue.push_back((arrival, size));
                continue;
            }
            let free = self.free[core];
            let start = free.max(arrival);
            // Idle time from cores and busy time from requests are counted apart, so that the books
            // can contradict each other.
            self.idle += start - free;
            self.start(core, start, arrival, size, until, tally);
        }
    }

    /// Closes the books of time: cores without work stay so until `end`.
    pub(super) fn finish(&mut self, end: u64) {
        for free in &mut self.free {
            self.idle += end.saturating_sub(*free);
        }
    }

    #[inline]
    fn first_free(&self) -> usize {
        let (mut first, mut least) = (0, self.free[0]);
        for (core, &free) in self.free.iter().enumerate().skip(1) {
            if free < least {
                (first, least) = (core, free);
            }
        }
        first
    }

    #[inline]
    fn start(
        &mut self,
        core: usize,
        since: u64,
        arrival: u64,
        left: u64,
        until: u64,
        tally: &mut impl Tally,
    ) {
        self.work[core] = Work { arrival, since, left };
        self.plan(core, until, tally);
    }

    /// Sets when a core is free again.
    #[inline]
    fn plan(&mut self, core: usize, until: u64, tally: &mut impl Tally) {
        let Work { arrival, since, left } = self.work[core];
        let finish = since + (left as f64 * self.pace.span + 0.5) as u64;
        self.free[core] = finish;
        // What lies behind the epoch is counted when it is planned anew there.
        self.busy += finish.min(until) - since;
        if finish <= until {
            tally.response(finish - arrival);
        }
    }
}

impl Work {
    /// Counts what was done until now.
    fn look(&mut self, now: u64, pace: Pace) {
        let done = ((now - self.since) as f64 * pace.credit + 0.5) as u64;
        self.left = self.left.saturating_sub(done);
        self.since = now;
    }
}
