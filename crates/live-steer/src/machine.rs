//! A machine: who is in service, who waits, and whether it is awake.

use std::collections::VecDeque;

use halfwink_policy::steering::{Budget, Rest, Side};
use halfwink_units::Time;
use tokio::sync::oneshot;

use super::config::Config;
use super::meter::{Meter, State, Watts};
use super::power::Wanted;

/// Decision on a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A worker of this machine serves it, under this policy.
    Serve(Side, u32),
    /// The request is rejected.
    Refuse(Refusal),
}

/// Reason why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is full.
    Full,
    /// No machine can be reached.
    Nowhere,
}

/// A request that waits.
#[derive(Debug)]
pub struct Waiter {
    /// Number of the request.
    pub id: u64,
    /// Time at which it arrived.
    pub came: Time,
    /// Channel for the decision.
    pub tell: oneshot::Sender<Verdict>,
}

/// State of a machine.
#[derive(Debug)]
pub struct Machine {
    /// The machine as policies name it.
    pub side: Side,
    /// Power state of the machine.
    pub state: State,
    /// Level of sleep, from 0, at which it is, or to or from which it is on its way.
    pub level: usize,
    /// Number of levels of sleep.
    pub levels: usize,
    /// Power state that the policy wants.
    pub wanted: Wanted,
    /// Requests in service, at most.
    pub workers: usize,
    /// Requests that wait, at most.
    pub room: usize,
    /// Number of requests in service.
    pub in_service: usize,
    /// Number of these that the policy does not know: an earlier policy sent them here.
    pub stray: usize,
    /// Requests that wait.
    pub queue: VecDeque<Waiter>,
    /// Since when it is on.
    pub on_since: Time,
    /// Connections that failed one after the other.
    pub failures: u32,
    /// Set if it could not be put to sleep, and so keeps its power.
    pub insomniac: bool,
    /// Set while another program keeps it switched off: the proxy does not wake it against that.
    pub taken: bool,
    /// Set once `may_sleep` has kept it on, until it is asked to sleep again.
    pub stays: bool,
    /// Bounds on its sleeps.
    pub rest: Rest,
    /// Budget of its sleeps.
    pub budget: Budget,
    /// While it goes down: time until which it stays on.
    pub held: Time,
    /// Number of the group with which it wakes and sleeps, if it is in one.
    pub group: Option<u8>,
    /// While it goes down: how far it has come.
    pub leave: Leave,
    /// Set while it goes down and stays on for the sake of its group.
    pub kept: bool,
    /// Set if it was woken for the sake of its group, so that the policy takes it for asleep.
    pub follows: bool,
    /// Times in its states.
    pub meter: Meter,
    /// Counters of the machine.
    pub counts: Counts,
}

/// Progress of a machine that goes down from service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    /// The machine has not been asked yet whether it may sleep.
    #[default]
    Unasked,
    /// The machine may sleep, once all machines of its group may.
    Allowed,
    /// Power is being changed: the machine cannot serve before it was woken again.
    Begun,
}

/// Counters of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Number of requests answered.
    pub served: u64,
    /// Number of failed attempts.
    pub failed: u64,
    /// Attempts that were another one of the same request.
    pub retried: u64,
    /// Requests that had to wait.
    pub queued: u64,
    /// Requests that found its queue full.
    pub refused: u64,
    /// Requests that went to another machine, since this one was lost.
    pub resteered: u64,
    /// Requests whose client went, or whose time was up, while they waited.
    pub given_up: u64,
    /// Times that it was asked to wake.
    pub wakes: u64,
    /// Times that it was asked to sleep.
    pub sleeps: u64,
    /// Times that it was woken because another machine of its group was.
    pub followed: u64,
    /// Sleeps that `least_awake_ms` or `sleeps_per_day` put off until they were wanted no more.
    pub spared: u64,
    /// Times that `may_sleep` kept it on.
    pub declined: u64,
    /// Times that waking or sending to sleep failed.
    pub power_failures: u64,
    /// Times that its power state was found changed by another program or an operator.
    pub overridden: u64,
    /// Times that it was lost.
    pub losses: u64,
    /// Number of connections made.
    pub connections: u64,
}

impl Machine {
    /// One that is on.
    #[must_use]
    pub fn new(side: Side, workers: usize, room: usize, watts: Watts) -> Machine {
        Machine {
            side,
            state: State::On,
            level: 0,
            levels: 1,
            wanted: Wanted::Awake,
            workers,
            room,
            in_service: 0,
            stray: 0,
            queue: VecDeque::new(),
            on_since: Time::ZERO,
            failures: 0,
            insomniac: false,
            taken: false,
            stays: false,
            rest: Rest::default(),
            budget: Budget::default(),
            held: Time::ZERO,
            group: None,
            leave: Leave::default(),
            kept: false,
            follows: false,
            meter: Meter::start(Time::ZERO, workers, watts),
            counts: Counts::default(),
        }
    }

    /// Creates a machine that is on, with the bounds of its description.
    #[must_use]
    pub fn described(config: &Config, side: Side, watts: Watts) -> Machine {
        let machine = config.machine(side);
        let new = Machine::new(side, machine.workers, machine.queue, watts);
        let (levels, group) = (machine.count_levels(), config.group(side));
        Machine { levels, group, ..new.resting(machine.rest()) }
    }

    /// Takes other bounds and watts up to now.
    pub fn change(&mut self, now: Time, config: &Config, watts: Watts) {
        let described = config.machine(self.side);
        self.book(now);
        self.meter.set_watts(watts);
        (self.workers, self.room) = (described.workers, described.queue);
        (self.rest, self.levels) = (described.rest(), described.count_levels());
        self.group = config.group(self.side);
    }

    /// Sets bounds on its sleeps.
    #[must_use]
    pub fn resting(self, rest: Rest) -> Machine {
        Machine { rest, ..self }
    }

    /// Books the time until now, before anything changes.
    #[inline]
    pub fn book(&mut self, now: Time) {
        if self.is_leaving() {
            let until = if self.kept { now } else { self.held.min(now) };
            self.meter.on_until(until, self.in_service);
        }
        let awake = self.insomniac && self.state == State::Asleep;
        let state = if awake { State::On } else { self.state };
        self.meter.spent(now, state, self.level, self.in_service);
    }

    /// A change of state.
    pub fn become_(&mut self, now: Time, state: State) {
        self.book(now);
        if state == State::On {
            self.on_since = now;
            self.failures = 0;
            self.insomniac = false;
            self.level = 0;
            self.follows = false;
        }
        (self.leave, self.kept) = (Leave::Unasked, false);
        self.state = state;
    }

    /// Returns its state, and a number that changes with each of its changes.
    #[must_use]
    pub fn moment(&self) -> (State, u64) {
        let Counts { wakes, sleeps, followed, losses, power_failures, .. } = self.counts;
        (self.state, wakes + sleeps + followed + losses + power_failures)
    }

    /// Returns a machine to service to which nothing was done yet. If its sleep was put off, it was
    /// on all the time.
    pub fn return_to_service(&mut self, now: Time) {
        let is_held = self.leave == Leave::Allowed || self.kept || now < self.held;
        if is_held {
            // All of the time up to now is booked as on.
            self.held = Time::NEVER;
        }
        let since = if is_held { self.on_since } else { now };
        // One that its group has woken did sleep.
        self.counts.spared += u64::from(is_held && !self.follows);
        self.become_(now, State::On);
        self.on_since = since;
    }

    /// Returns whether nothing has been done yet to put it to sleep, as it was asked to.
    #[inline]
    #[must_use]
    pub fn is_held(&self, now: Time) -> bool {
        let is_put_off = self.kept || self.stray > 0 || now < self.held;
        self.is_leaving() && self.leave != Leave::Begun && is_put_off
    }

    /// Returns whether it can serve at once although it goes down.
    pub(super) fn can_return(&self, now: Time) -> bool {
        self.is_held(now) || (self.is_leaving() && self.leave == Leave::Allowed)
    }

    /// Returns whether it goes down from service, not from one level of sleep to the next.
    pub(super) fn is_leaving(&self) -> bool {
        self.state == State::GoingDown && self.level == 0
    }

    /// Returns whether a worker is free.
    #[inline]
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.state == State::On && self.in_service < self.workers
    }
}
