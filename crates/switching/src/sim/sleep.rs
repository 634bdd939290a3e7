//! Whether an idle core is powered down.

use halfwink_policy::gating::{Action, AdaptiveIdle, Costs, Event, Slots};
use halfwink_policy::switching::{IdleAction, IdleEvent, RateParameters, RatePowerDown};
use halfwink_policy::Policy;
use halfwink_units::Time;

use crate::model::PowerDown;

/// Who decides.
#[derive(Debug)]
enum Decider {
    Fixed {
        off: bool,
    },
    /// An application core's: by the idle times that it has seen.
    Times(AdaptiveIdle),
    /// An OS core's: by how often it is entered.
    Rate(RatePowerDown),
}

/// The power state of an idle core.
#[derive(Debug)]
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
    /// A core that idles from the start. `break_even` is the time off that pays for powering up.
    pub(crate) fn new(mode: PowerDown, is_os: bool, power_up: Time, break_even: Time) -> Sleep {
        let decider = match mode {
            PowerDown::Never => Decider::Fixed { off: false },
            PowerDown::Always => Decider::Fixed { off: true },
            PowerDown::Adaptive if is_os => {
                Decider::Rate(RatePowerDown::new(RateParameters::new(break_even)))
            }
            PowerDown::Adaptive => Decider::Times(AdaptiveIdle::new(Costs {
                entry: Time::ZERO,
                break_even,
                wake_up: power_up,
                restore: Time::ZERO,
                slots: Slots::ANY,
            })),
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
            Decider::Times(policy) => {
                policy.on_event(now, &Event::IdleBegin);
                policy.poll_action() == Some(Action::Gate)
            }
            Decider::Rate(policy) => {
                policy.on_event(now, &IdleEvent::Left);
                policy.poll_action() == Some(IdleAction::PowerDown)
            }
        };
        self.off_since = off.then_some(now);
    }

    /// When to ask again whether an idle core powers down.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        match &self.decider {
            Decider::Times(policy) => policy.next_timer(),
            Decider::Fixed { .. } | Decider::Rate(_) => None,
        }
    }

    /// That time has come, and the core idles still.
    pub(crate) fn on_timer(&mut self, now: Time) {
        if let Decider::Times(policy) = &mut self.decider {
            policy.on_timer(now);
            if policy.poll_action() == Some(Action::Gate) {
                self.off_since = Some(now);
            }
        }
    }

    /// Something is there for the core; true if it has to be powered up.
    pub(crate) fn rouse(&mut self, now: Time) -> bool {
        let Some(began) = self.idle_since.take() else { return false };
        match &mut self.decider {
            Decider::Fixed { .. } => {}
            Decider::Times(policy) => {
                policy.on_event(now, &Event::IdleEnd { began });
                // To wake is the answer to the event; the world does it anyway.
                policy.poll_action();
            }
            Decider::Rate(policy) => {
                policy.on_event(now, &IdleEvent::Due);
                policy.on_event(now, &IdleEvent::Entered);
            }
        }
        let Some(since) = self.off_since.take() else { return false };
        self.asleep += now - since;
        self.wakes += 1;
        true
    }

    /// The run ends.
    pub(crate) fn close(&mut self, now: Time) {
        if let Some(since) = self.off_since.take() {
            self.asleep += now - since;
        }
    }
}
