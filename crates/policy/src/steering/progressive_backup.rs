//! The big machine as a backup of the small one that is activated step by step: called when the
//! small machine has had too much for a while, or soon will have; given what exceeds the threshold
//! once it is awake; given nothing more when it has had little to do for a while; asleep when that
//! is done.
//!
//! ```text
//!            too much for `hold`,          awake
//!            or predicted                ┌───────▶ serving ── little for `linger` ──▶ retiring
//!   asleep ────────────────────▶ called ─┘            ▲                               │    │
//!     ▲                                               └─────── too much again ────────┘    │
//!     └──────────────────────────────── nothing left ──────────────────────────────────────┘
//! ```
//!
//! After AutoScale: Gandhi, Harchol-Balter, Raghunathan, Kozuch, "AutoScale: Dynamic, Robust
//! Capacity Management for Multi-Tier Data Centers" (ACM TOCS 30(4), 2012), quoted from memory of
//! its rules: pack requests on as few servers as will do, scale up by how many are in the system
//! instead of by their rate, and be slow to turn off ([`SleepTimerParameters::set_up_over_idle`]).
//!
//! [`SleepTimerParameters::set_up_over_idle`]: super::SleepTimerParameters::set_up_over_idle
//!
//! Deviations: two unlike machines in place of a farm, so one step to take, not k. AutoScale infers
//! from the requests in the system how many servers it needs; here a hold time and a prediction for
//! the end of a wake-up say whether the second is needed (that it looks so far ahead is of NapSAC,
//! Krioukov et al., Green Networking 2010; its predictor is not). AutoScale waits for an idle
//! server, this for one with little to do, which it then drains.

use halfwink_units::Time;

use super::machines::Machines;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Share of the newest gap in the mean gap between requests: one eighth (assumption).
const NEWEST: u64 = 8;

/// Parameters of the backup's activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressiveBackupParameters {
    /// Requests that the small machine should have at most: AutoScale's packing factor.
    pub threshold: u32,
    /// Time above the threshold after which the big machine is called.
    pub hold: Time,
    /// Requests up to which the big machine has little to do.
    pub down: u32,
    /// Time with little load after which the big machine gets no more requests.
    pub linger: Time,
    /// Time from calling the big machine until it serves.
    pub wake_latency: Time,
    /// Time between completions of the small machine while all its workers are busy.
    pub small_gap: Time,
}

/// Policy of progressive backup.
#[derive(Clone, Debug)]
pub struct ProgressiveBackup {
    parameters: ProgressiveBackupParameters,
    machines: Machines,
    /// The big machine is wanted: it wakes, or serves.
    called: bool,
    /// Since when the small machine has had too much while the big one is not called.
    over: Option<Time>,
    /// Since when the big machine has had little to do while it is called.
    quiet: Option<Time>,
    last: Option<Time>,
    /// Mean time between requests.
    gap: Option<Time>,
}

impl ProgressiveBackup {
    /// Starts with the big machine asleep.
    #[must_use]
    pub fn new(parameters: ProgressiveBackupParameters) -> ProgressiveBackup {
        let mut policy = ProgressiveBackup {
            parameters,
            machines: Machines::NEW,
            called: false,
            over: None,
            quiet: None,
            last: None,
            gap: None,
        };
        policy.machines.rest(Side::Big);
        policy
    }

    #[inline]
    fn learn(&mut self, now: Time) {
        let Some(last) = self.last.replace(now) else { return };
        let newest = now.saturating_sub(last);
        self.gap = Some(match self.gap {
            Some(Time(mean)) => Time(mean - mean / NEWEST + newest.0 / NEWEST),
            None => newest,
        });
    }

    /// Predicts the small machine's load if it stays alone until the big one would be awake.
    /// Returns whether it would exceed its threshold, and what it could serve in as long again:
    /// then waking is faster.
    #[inline]
    fn is_predicted(&self) -> bool {
        let p = self.parameters;
        let within = |gap: Time| p.wake_latency.0 / gap.0.max(1);
        let (comes, done) = (self.gap.map_or(0, within), within(p.small_gap));
        let load = u64::from(self.machines.of(Side::Small).load);
        load.saturating_add(comes).saturating_sub(done) > done.max(p.threshold.into())
    }

    fn call(&mut self) {
        (self.called, self.over, self.quiet) = (true, None, None);
        if !self.machines.of(Side::Big).lost {
            self.machines.wake(Side::Big);
        }
    }

    #[inline]
    fn arrive(&mut self, now: Time) {
        self.learn(now);
        let full = self.machines.of(Side::Small).load >= self.parameters.threshold;
        let backed = self.called && self.machines.is_on(Side::Big);
        let side = self.machines.queue(if full && backed { Side::Big } else { Side::Small });
        if side == Side::Big {
            // On already, but where it stands in for a small machine that is lost.
            self.machines.wake(Side::Big);
        }
        if !self.called && self.is_predicted() {
            self.call();
        }
        self.look(now);
    }

    /// Calls the big machine or retires it, when it is time; a retired one sleeps.
    #[inline]
    fn look(&mut self, now: Time) {
        let p = self.parameters;
        let over = self.machines.of(Side::Small).load > p.threshold;
        if self.called {
            let idle = self.machines.is_on(Side::Big) && self.machines.of(Side::Big).load <= p.down;
            if passed(&mut self.quiet, idle && !over, now, p.linger) {
                (self.called, self.quiet) = (false, None);
            }
        } else if passed(&mut self.over, over, now, p.hold) {
            self.call();
        }
        if !self.called {
            self.machines.rest(Side::Big);
        }
    }
}

/// Returns whether a condition has held for a span; `since` keeps its begin.
#[inline]
fn passed(since: &mut Option<Time>, holds: bool, now: Time, span: Time) -> bool {
    if !holds {
        *since = None;
        return false;
    }
    now >= since.get_or_insert(now).saturating_add(span)
}

impl Policy for ProgressiveBackup {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.machines.note(event);
        match event {
            Event::Arrive => self.arrive(now),
            Event::Asleep { .. } => {}
            _ => self.look(now),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.look(now);
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        let p = self.parameters;
        // At most one of them runs: the first while it is not called, the second while it is.
        self.over
            .map(|since| since.saturating_add(p.hold))
            .or(self.quiet.map(|since| since.saturating_add(p.linger)))
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = self.machines.snapshot();
        state.push(("called", self.called.into()));
        state.push(("gap_ps", self.gap.map_or(-1, |gap| gap.0 as i64)));
        state
    }
}

impl Steering for ProgressiveBackup {}
