//! Whether an idle core is powered down.

use halfwink_policy::gating::{Action, AdaptiveIdle, Costs, Event, GatingPolicy, Slots};
use halfwink_policy::switching::{
    IdleAction, IdleEvent, IdlePowerPolicy, RateParameters, RatePowerDown,
};
use halfwink_policy::{Host, StuckTimer};
use halfwink_units::Time;

use crate::model::PowerDown;

/// Policy that decides whether an idle core powers down.
pub enum SleepPolicy {
    /// Powers down always or never.
    Fixed {
        /// Whether the core powers down.
        off: bool,
    },
    /// An application core's: by the idle times that it has seen.
    Times(GatingPolicy),
    /// An OS core's: by how often it is entered.
    Rate(IdlePowerPolicy),
}

impl SleepPolicy {
    /// `break_even` is the time off that pays for powering up.
    pub(crate) fn new(
        mode: PowerDown,
        is_os: bool,
        power_up: Time,
        break_even: Time,
    ) -> SleepPolicy {
        match mode {
            PowerDown::Never => SleepPolicy::Fixed { off: false },
            PowerDown::Always => SleepPolicy::Fixed { off: true },
            PowerDown::Adaptive if is_os => {
                SleepPolicy::Rate(Box::new(RatePowerDown::new(RateParameters::new(break_even))))
            }
            PowerDown::Adaptive => SleepPolicy::Times(Box::new(AdaptiveIdle::new(Costs {
                entry: Time::ZERO,
                break_even,
                wake_up: power_up,
                restore: Time::ZERO,
                slots: Slots::ANY,
            }))),
        }
    }
}

/// A sleep policy within its host.
enum Decider {
    Fixed { off: bool },
    Times(Host<GatingPolicy>),
    Rate(Host<IdlePowerPolicy>),
}

/// The power state of an idle core.
pub(crate) struct Sleep {
    decider: Decider,
    idle_since: Option<Time>,
    off_since: Option<Time>,
    /// Time spent off, counted apart from the accounts.
    pub(crate) asleep: Time,
    /// Times it was powered up.
    pub(crate) wakes: u64,
}

impl Sleep {
    /// A core that idles from the start.
    pub(crate) fn new(policy: SleepPolicy) -> Sleep {
        let decider = match policy {
            SleepPolicy::Fixed { off } => Decider::Fixed { off },
            SleepPolicy::Times(policy) => Decider::Times(Host::new(policy)),
            SleepPolicy::Rate(policy) => Decider::Rate(Host::new(policy)),
        };
        let (asleep, wakes) = (Time::ZERO, 0);
        let mut sleep = Sleep { decider, idle_since: None, off_since: None, asleep, wakes };
        sleep.rest(Time::ZERO);
        sleep
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off_since.is_some()
    }

    /// The core begins to idle.
    pub(crate) fn rest(&mut self, now: Time) {
        self.idle_since = Some(now);
        let off = match &mut self.decider {
            Decider::Fixed { off } => *off,
            Decider::Times(policy) => policy.decide(now, &Event::IdleBegin) == Some(Action::Gate),
            Decider::Rate(policy) => {
                policy.decide(now, &IdleEvent::Left) == Some(IdleAction::PowerDown)
            }
        };
        debug_assert!(self.off_since.is_none(), "a core that is off begins to idle");
        self.off_since = off.then_some(now);
    }

    /// Returns the time at which the policy decides again whether an idle core powers down.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        match &self.decider {
            Decider::Times(policy) => Some(policy.due()).filter(|&due| due < Time::NEVER),
            Decider::Fixed { .. } | Decider::Rate(_) => None,
        }
    }

    /// Lets the policy decide at its timer, while the core is still idle.
    pub(crate) fn on_timer(&mut self, now: Time) -> Result<(), StuckTimer> {
        if let Decider::Times(policy) = &mut self.decider {
            policy.ring(now, |at, action| {
                if action == Action::Gate {
                    self.off_since = Some(at);
                }
            })?;
        }
        Ok(())
    }

    /// Ends the idle period as work arrives; returns true if the core has to power up.
    pub(crate) fn rouse(&mut self, now: Time) -> bool {
        // Several pieces of work may arrive while the core powers up: only the first ends the idle
        // period.
        let Some(began) = self.idle_since.take() else { return false };
        match &mut self.decider {
            Decider::Fixed { .. } => {}
            Decider::Times(policy) => {
                // To wake is the answer to the event; the world does it anyway.
                policy.decide(now, &Event::IdleEnd { began });
            }
            Decider::Rate(policy) => {
                // It has nothing to say: the world powers the core up anyway.
                policy.decide(now, &IdleEvent::Due);
                policy.decide(now, &IdleEvent::Entered);
            }
        }
        let Some(since) = self.off_since.take() else { return false };
        self.asleep += now - since;
        self.wakes += 1;
        true
    }

    /// Ends the run, and counts the sleep up to now.
    pub(crate) fn close(&mut self, now: Time) {
        if let Some(since) = self.off_since.take() {
            self.asleep += now - since;
        }
    }
}
