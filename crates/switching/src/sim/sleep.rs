//! Whether an idle core is powered down.

use halfwink_policy::switching::{AdaptiveParameters, AdaptivePowerDown, IdleAction, IdleEvent};
use halfwink_policy::Policy;
use halfwink_units::Time;

use crate::model::PowerDown;

/// Reasons to be idle that are not a system call's number.
pub(crate) const AFTER_INTERRUPT: u64 = 0;
pub(crate) const WAITING: u64 = 1;

/// The power state of an idle core.
#[derive(Debug)]
pub(crate) struct Sleep {
    mode: PowerDown,
    policy: AdaptivePowerDown,
    off_since: Option<Time>,
    /// Time spent off, counted apart from the accounts.
    pub(crate) asleep: Time,
    /// Times it was powered up.
    pub(crate) wakes: u64,
}

impl Sleep {
    /// A core that idles from the start; `break_even` is for the policy.
    pub(crate) fn new(mode: PowerDown, break_even: Time) -> Sleep {
        Sleep {
            mode,
            policy: AdaptivePowerDown::new(AdaptiveParameters::new(break_even)),
            off_since: (mode == PowerDown::Always).then_some(Time(0)),
            asleep: Time(0),
            wakes: 0,
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off_since.is_some()
    }

    /// The core idles, for this reason.
    pub(crate) fn rest(&mut self, now: Time, reason: u64) {
        let off = match self.mode {
            PowerDown::Never => false,
            PowerDown::Always => true,
            PowerDown::Adaptive => {
                self.policy.on_event(now, &IdleEvent::Left { reason });
                self.policy.poll_action() == Some(IdleAction::PowerDown)
            }
        };
        if off && self.off_since.is_none() {
            self.off_since = Some(now);
        }
    }

    /// Something is there for the core; true if it has to be powered up.
    pub(crate) fn rouse(&mut self, now: Time) -> bool {
        if self.mode == PowerDown::Adaptive {
            self.policy.on_event(now, &IdleEvent::Due);
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
