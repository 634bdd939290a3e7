//! One machine that sleeps when it has had nothing to do for a while, and wakes when a request
//! comes: a server with delayed-off, and PowerNap.
//!
//! ```text
//!   last request done ── linger ──▶ asleep ── request ──▶ waking ──▶ on
//!                         └ request: stays on
//! ```
//!
//! * Fixed linger: DELAYEDOFF, Gandhi, Gupta, Harchol-Balter, Kozuch, "Optimality analysis of
//!   energy-performance trade-off for server farm management" (Performance Evaluation 67, 2010).
//! * Linger zero: PowerNap, Meisner, Gold, Wenisch, "PowerNap: Eliminating Server Idle Power"
//!   (ASPLOS 2009), and INSTANTOFF of the former.
//! * [`SleepTimerParameters::set_up_over_idle`]: AutoScale, Gandhi, Harchol-Balter, Raghunathan,
//!   Kozuch (ACM TOCS 30(4), 2012): idle for as long as costs what a set-up costs.
//! * [`SleepTimerParameters::break_even`]: the 2-competitive timer of ski rental (Karlin, Manasse,
//!   McGeoch, Owicki, Algorithmica 11, 1994): it never spends over twice what one would that knows
//!   the next arrival.
//!
//! The papers are quoted from memory of their rules. Deviations: the other machine of the pair
//! takes requests while this one is lost; a request that comes while the machine goes down waits
//! until it is down and awake again.

use halfwink_units::Time;

use super::machines::{Linger, Machines};
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Which machine, and how patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SleepTimerParameters {
    /// The machine that serves. The other one sleeps for ever.
    pub side: Side,
    /// Time for which it stays on without requests.
    pub linger: Time,
}

impl SleepTimerParameters {
    /// PowerNap: the big machine, which never waits.
    #[must_use]
    pub fn power_nap() -> SleepTimerParameters {
        SleepTimerParameters::fixed(Time::ZERO)
    }

    /// The big machine stays on for so long.
    #[must_use]
    pub fn fixed(linger: Time) -> SleepTimerParameters {
        SleepTimerParameters { side: Side::Big, linger }
    }

    /// AutoScale's `t_wait`: set-up time x power in set-up / idle power.
    #[must_use]
    pub fn set_up_over_idle(set_up: Time, set_up_w: f64, idle_w: f64) -> SleepTimerParameters {
        SleepTimerParameters::fixed(Time::from_ns(set_up.as_ns() * set_up_w / idle_w))
    }

    /// 2-competitive: as long as idling costs, beyond sleeping, what going to sleep and waking cost
    /// beyond it, in joules. Never sleeps if that saves nothing.
    #[must_use]
    pub fn break_even(transition_j: f64, idle_w: f64, sleep_w: f64) -> SleepTimerParameters {
        let saved_w = idle_w - sleep_w;
        SleepTimerParameters::fixed(if saved_w > 0.0 {
            Time::from_ns(transition_j / saved_w * 1e9)
        } else {
            Time::NEVER
        })
    }
}

/// Policy of a sleep timer.
#[derive(Clone, Debug)]
pub struct SleepTimer {
    side: Side,
    machines: Machines,
    linger: Linger,
}

impl SleepTimer {
    /// Both machines sleep at first, this one after its linger.
    #[must_use]
    pub fn new(parameters: SleepTimerParameters) -> SleepTimer {
        let SleepTimerParameters { side, linger } = parameters;
        let mut policy =
            SleepTimer { side, machines: Machines::NEW, linger: Linger::new(side, linger) };
        policy.settle(Time::ZERO);
        policy
    }

    #[inline]
    fn settle(&mut self, now: Time) {
        self.machines.rest(self.side.other());
        self.linger.settle(now, &mut self.machines);
    }
}

impl Policy for SleepTimer {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.machines.note(event);
        match event {
            Event::Arrive => {
                if self.machines.send(self.side) == self.side {
                    self.linger.busy();
                }
            }
            Event::Asleep { .. } => {}
            _ => self.settle(now),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.linger.timer(now, &mut self.machines);
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        self.linger.next()
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        self.machines.snapshot()
    }
}

impl Steering for SleepTimer {}
