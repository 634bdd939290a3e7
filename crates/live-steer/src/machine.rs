//! A machine: who is in service, who waits, and whether it is awake.

use std::collections::VecDeque;

use halfwink_units::Time;
use tokio::sync::oneshot;

use super::meter::{Meter, State, Watts};
use super::power::Wanted;

/// Where a request that waited goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A worker of this machine serves it, under this policy.
    Serve(halfwink_policy::steering::Side, u32),
    /// Nobody will.
    Refuse(Refusal),
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its queue is full.
    Full,
    /// Its machine is lost, and so is the other one.
    Nowhere,
}

/// A request that waits.
#[derive(Debug)]
pub struct Waiter {
    /// Its number.
    pub id: u64,
    /// When it came.
    pub came: Time,
    /// Who waits to hear.
    pub tell: oneshot::Sender<Verdict>,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    /// Its power state.
    pub state: State,
    /// What the policy wants.
    pub wanted: Wanted,
    /// Requests in service, at most.
    pub workers: usize,
    /// Requests that wait, at most.
    pub room: usize,
    /// Requests in service.
    pub in_service: usize,
    /// Those of them that the policy does not know: an earlier one sent them here.
    pub stray: usize,
    /// Those that wait.
    pub queue: VecDeque<Waiter>,
    /// Since when it is on.
    pub on_since: Time,
    /// Connections that failed one after the other.
    pub failures: u32,
    /// It could not be put to sleep, and draws what it draws.
    pub insomniac: bool,
    /// Times in its states.
    pub meter: Meter,
    /// What it has done.
    pub counts: Counts,
}

/// What a machine has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Requests answered.
    pub served: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that were another one of the same request.
    pub retried: u64,
    /// Requests that had to wait.
    pub queued: u64,
    /// Requests that found its queue full.
    pub refused: u64,
    /// Requests that went to the other machine, since this one was lost.
    pub resteered: u64,
    /// Requests whose client went, or whose time was up, while they waited.
    pub given_up: u64,
    /// Times that it was asked to wake.
    pub wakes: u64,
    /// Times that it was asked to sleep.
    pub sleeps: u64,
    /// Times that waking or sending to sleep failed.
    pub power_failures: u64,
    /// Times that it was lost.
    pub losses: u64,
    /// Connections made.
    pub connections: u64,
}

impl Machine {
    /// One that is on.
    #[must_use]
    pub fn new(workers: usize, room: usize, watts: Watts) -> Machine {
        Machine {
            state: State::On,
            wanted: Wanted::Awake,
            workers,
            room,
            in_service: 0,
            stray: 0,
            queue: VecDeque::new(),
            on_since: Time::ZERO,
            failures: 0,
            insomniac: false,
            meter: Meter::start(Time::ZERO, workers, watts),
            counts: Counts::default(),
        }
    }

    /// Books the time until now, before anything changes.
    #[inline]
    pub fn book(&mut self, now: Time) {
        let awake = self.insomniac && self.state == State::Asleep;
        let state = if awake { State::On } else { self.state };
        self.meter.spent(now, state, self.in_service);
    }

    /// A change of state.
    pub fn become_(&mut self, now: Time, state: State) {
        self.book(now);
        if state == State::On {
            self.on_since = now;
            self.failures = 0;
            self.insomniac = false;
        }
        self.state = state;
    }

    /// Somebody may begin to be served.
    #[inline]
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.state == State::On && self.in_service < self.workers
    }
}
