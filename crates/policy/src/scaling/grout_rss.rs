//! grout's proposed scaling of receive queues: the redirect table is narrowed to the fewest queues
//! that absorb the load, and the workers of the others are parked.
//!
//! ```text
//!  4 full bursts in a row: saturated    any saturated, none idle ─▶ one queue more, at once
//!  10 000 empty polls in a row: idle    each period: all idle, or busy for less than 40 %
//!                                       of the time ─▶ one queue fewer; parked a while later
//! ```
//!
//! Follows pull request 624 of DPDK/grout, "Adaptive RSS auto-scaling" (2026): its
//! `rss_autoscale.c` (`decide_port`, `scale_down_timer_cb`, `deferred_park_cb`) and
//! `rss_autoscale.h` (`rxq_health_update`). Queues that take part share the table evenly, entry i
//! at queue i mod n. Their workers still take grout's micro-sleeps.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::grout::{GroutParameters, Ramp, WINDOW};
use super::queue::Actions;
use super::{Action, Event, RedirectTable, Rest, Scaling};
use crate::{Policy, Snapshot};

/// Value of `RSS_AUTOSCALE_CONSEC_FULL`.
const FULL: u32 = 4;
/// Value of `RSS_AUTOSCALE_CONSEC_EMPTY`.
const EMPTY: u32 = 10_000;
/// Busy for less than so many per cent of the time is too little.
const BUSY_PERCENT: u64 = 40;

/// Parameters of the scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroutRssParameters {
    /// Cores and their sleeps.
    pub workers: GroutParameters,
    /// Packets of a full burst.
    pub burst: u32,
    /// Between looks whether fewer queues would do. Published: 600 s.
    pub period: Time,
    /// Time from leaving the table until parked. Published: 100 ms.
    pub park_after: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    ramp: Ramp,
    full: u32,
    empty: u32,
    /// Since when it is busy.
    since: Option<Time>,
    busy: Time,
    parked: bool,
}

/// Policy of grout's RSS scaling.
#[derive(Clone, Debug)]
pub struct GroutRss {
    parameters: GroutRssParameters,
    workers: Vec<Worker>,
    table: RedirectTable,
    active: u8,
    /// Begin of this period, and the busy time of workers until then.
    begun: (Time, Time),
    park_at: Option<Time>,
    actions: Actions,
}

impl GroutRss {
    /// Starts with one queue, the other workers parked, and says so.
    #[must_use]
    pub fn new(parameters: GroutRssParameters) -> GroutRss {
        let cores = parameters.workers.cores;
        let mut actions = Actions::new();
        let mut workers = vec![Worker::default(); usize::from(cores)];
        for entry in 0..super::ENTRIES as u8 {
            actions.push(Action::Move { entry, to: 0, in_order: false });
        }
        for core in 1..cores {
            workers[usize::from(core)].parked = true;
            actions.push(Action::Park { core });
        }
        let (table, active) = (RedirectTable::even(1), 1);
        let begun = (Time::ZERO, Time::ZERO);
        GroutRss { parameters, workers, table, active, begun, park_at: None, actions }
    }

    fn serving(&self) -> &[Worker] {
        &self.workers[..usize::from(self.active)]
    }

    /// More queues, if any is saturated and none idle: one flow that fills its queue alone does
    /// not spread over more.
    fn decide(&mut self, now: Time) {
        let saturated = self.serving().iter().any(|w| w.full >= FULL);
        let idle = self.serving().iter().any(|w| w.empty >= EMPTY);
        if saturated && !idle && self.active < self.parameters.workers.cores {
            self.apply(now, self.active + 1);
        }
    }

    fn apply(&mut self, now: Time, queues: u8) {
        for core in self.active..queues {
            let worker = &mut self.workers[usize::from(core)];
            (worker.full, worker.empty) = (0, 0);
            if worker.parked {
                worker.parked = false;
                self.actions.push(Action::Wake { core });
            }
        }
        self.active = queues;
        self.table.spread(queues, &mut self.actions);
        self.begun = (now, self.busy(now));
        if self.park_at.is_none() {
            self.park_at = Some(now + self.parameters.park_after);
        }
    }

    /// Returns the busy time of all workers of queues in use.
    fn busy(&self, now: Time) -> Time {
        let of = |w: &Worker| w.busy + w.since.map_or(Time::ZERO, |since| Time(now.0 - since.0));
        self.serving().iter().map(of).fold(Time::ZERO, |sum, busy| sum + busy)
    }

    fn narrow(&mut self, now: Time) {
        let busy = self.busy(now);
        let (since, before) = self.begun;
        self.begun = (now, busy);
        let all_idle = self.serving().iter().all(|w| w.empty >= EMPTY);
        let total = (now.0 - since.0) * u64::from(self.active);
        let little = (busy.0.saturating_sub(before.0)) * 100 < total * BUSY_PERCENT;
        if self.active > 1 && (all_idle || little) {
            self.apply(now, self.active - 1);
        }
    }

    fn park(&mut self) {
        self.park_at = None;
        for core in self.active..self.parameters.workers.cores {
            let worker = &mut self.workers[usize::from(core)];
            if !worker.parked {
                worker.parked = true;
                self.actions.push(Action::Park { core });
            }
        }
    }

    fn polled(&mut self, now: Time, core: u8, taken: u32) {
        let burst = self.parameters.burst;
        let worker = &mut self.workers[usize::from(core)];
        worker.ramp.found();
        worker.since.get_or_insert(now);
        let was_idle = worker.empty >= EMPTY;
        worker.empty = 0;
        worker.full = if taken >= burst { (worker.full + 1).min(FULL) } else { 0 };
        if was_idle || worker.full == FULL {
            self.decide(now);
        }
    }

    fn empty(&mut self, now: Time, core: u8) -> Rest {
        let worker = &mut self.workers[usize::from(core)];
        worker.full = 0;
        let (rest, window) = worker.ramp.empty(&self.parameters.workers);
        if window {
            // A window with packets counts as busy whole; this one had none.
            worker.empty = (worker.empty + WINDOW).min(EMPTY);
            if let Some(since) = worker.since.take() {
                worker.busy += Time(now.0 - since.0);
            }
        }
        rest
    }
}

impl Policy for GroutRss {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { core, taken, .. } if taken > 0 => self.polled(now, core, taken),
            Event::Poll { .. } => {}
            Event::Empty { core } => {
                let rest = self.empty(now, core);
                self.actions.push(Action::Rest { core, rest });
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.park_at.is_some_and(|at| at <= now) {
            self.park();
        }
        if self.begun.0 + self.parameters.period <= now {
            self.narrow(now);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let look = self.begun.0 + self.parameters.period;
        Some(self.park_at.map_or(look, |park| park.min(look)))
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("queues", i64::from(self.active))]
    }
}

impl Scaling for GroutRss {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }
}
