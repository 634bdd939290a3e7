//! DreamWeaver: a machine of many workers sleeps, with what it has in service, whenever one of them
//! is idle; no request is held up for longer than a bound.
//!
//! ```text
//!   on ── a request is done, and fewer are there than workers, none held up for `delay` ──▶ sleeps
//!   asleep ── as many requests as workers, or one held up for `delay` ──▶ wakes
//! ```
//!
//! Weave scheduling of Meisner, Wenisch, "DreamWeaver: Architectural Support for Deep Sleep"
//! (ASPLOS 2012), as the authors' simulator does it (`DreamWeaverServer.java` of BigHouse): looks
//! for sleep at departures only; a request held up to the bound is not stopped again; the time to
//! wake comes on top of the bound. Deviations: the bound counts all of a request's time in the
//! server while that sleeps or wakes, so also what it spends queued there (BigHouse: from when a
//! core is free); the other machine of the pair takes requests while this one is lost.
//!
//! How long each request has been held up is the difference of one sum, of all stalls so far, from
//! what that sum was when the request came. Requests that came under the same sum share a row, and
//! a finished one's latency tells which. Rows beyond the room share the last one, whose requests
//! then count as held up for too long, never for too short.

use alloc::vec::Vec;

use halfwink_units::Time;

use super::machines::Machines;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Parameters of DreamWeaver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DreamWeaverParameters {
    /// The machine that serves. The other one sleeps for ever.
    pub side: Side,
    /// Requests that it has in service at most.
    pub workers: u32,
    /// Longest time that a request may be delayed by sleep.
    pub delay: Time,
}

impl DreamWeaverParameters {
    /// The big machine with so many workers, and this bound.
    #[must_use]
    pub fn published(workers: u32, delay: Time) -> DreamWeaverParameters {
        DreamWeaverParameters { side: Side::Big, workers, delay }
    }
}

/// Unfinished requests that came under the same sum of stalls.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Arrival time of the first of them.
    first: Time,
    /// Sum of stalls at that time.
    stalled: Time,
    requests: u32,
}

/// Policy of DreamWeaver.
#[derive(Clone, Debug)]
pub struct DreamWeaver {
    parameters: DreamWeaverParameters,
    machines: Machines,
    rows: Vec<Row>,
    room: usize,
    /// Sum of all stalls that are over.
    stalled: Time,
    /// Since when it stalls.
    since: Option<Time>,
}

impl DreamWeaver {
    /// Both machines sleep at first.
    ///
    /// # Panics
    /// If there are no workers.
    #[must_use]
    pub fn new(parameters: DreamWeaverParameters) -> DreamWeaver {
        assert!(parameters.workers > 0, "workers");
        // While it sleeps fewer come than there are workers; others while it wakes.
        let room = 2 * parameters.workers as usize + 64;
        let mut policy = DreamWeaver {
            parameters,
            machines: Machines::NEW,
            rows: Vec::with_capacity(room),
            room,
            stalled: Time::ZERO,
            since: None,
        };
        policy.settle(Time::ZERO);
        policy
    }

    /// Sum of all stalls until now.
    #[inline]
    fn stalled(&self, now: Time) -> Time {
        self.since.map_or(self.stalled, |since| self.stalled + (now - since))
    }

    #[inline]
    fn came(&mut self, now: Time) {
        let stalled = self.stalled(now);
        let full = self.rows.len() == self.room;
        match self.rows.last_mut() {
            Some(row) if full || row.stalled == stalled => row.requests += 1,
            _ => self.rows.push(Row { first: now, stalled, requests: 1 }),
        }
    }

    /// A request that came at `arrival` is done, or given up.
    #[inline]
    fn left(&mut self, arrival: Time) {
        let after = self.rows.partition_point(|row| row.first <= arrival);
        let index = after.saturating_sub(1);
        if let Some(row) = self.rows.get_mut(index) {
            row.requests -= 1;
            if row.requests == 0 {
                self.rows.remove(index);
            }
        }
    }

    /// Returns the sum of stalls at which the oldest request has been delayed for too long.
    #[inline]
    fn limit(&self) -> Option<Time> {
        self.rows.first().map(|row| row.stalled.saturating_add(self.parameters.delay))
    }

    #[inline]
    fn settle(&mut self, now: Time) {
        let DreamWeaverParameters { side, workers, .. } = self.parameters;
        self.machines.rest(side.other());
        let idle = self.machines.is_on(side) && self.machines.of(side).load < workers;
        if idle && self.limit().is_none_or(|limit| self.stalled < limit) {
            self.since = Some(now);
            self.machines.freeze(side);
        }
    }

    #[inline]
    fn arrive(&mut self, now: Time) {
        let DreamWeaverParameters { side, workers, .. } = self.parameters;
        if self.machines.queue(side) != side {
            self.machines.wake(side.other());
            return;
        }
        self.came(now);
        if self.machines.of(side).load >= workers {
            self.machines.wake(side);
        }
    }
}

impl Policy for DreamWeaver {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        let this = self.parameters.side;
        self.machines.note(event);
        match *event {
            Event::Arrive => self.arrive(now),
            Event::Finish { side, latency } => {
                if side == this {
                    self.left(now.saturating_sub(latency));
                }
                self.settle(now);
            }
            Event::Awake { side } | Event::Back { side } => {
                if side == this {
                    self.stalled = self.stalled(now);
                    self.since = None;
                }
                self.settle(now);
            }
            Event::Asleep { .. } | Event::Lost { .. } => {}
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.next_timer().is_some_and(|at| at <= now) {
            self.machines.wake(self.parameters.side);
        }
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        let since = self.since?;
        if self.machines.of(self.parameters.side).is_up() {
            return None;
        }
        self.limit().map(|limit| since.saturating_add(limit.saturating_sub(self.stalled)))
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = self.machines.snapshot();
        state.push(("stalled_ns", (self.stalled.0 / 1_000) as i64));
        state.push(("oldest_stalled_ns", {
            let oldest = self.rows.first().map_or(self.stalled, |row| row.stalled);
            (self.stalled.saturating_sub(oldest).0 / 1_000) as i64
        }));
        state
    }
}

impl Steering for DreamWeaver {}
