//! Keeps an OS core up while it is entered often, with a threshold that corrects itself (Mogul
//! 2007, Sec 5.6: "threshold tuned by feedback").

use alloc::vec;

use halfwink_units::Time;

use super::{IdleAction, IdleEvent, IdlePower};
use crate::{Policy, Snapshot};

/// Constants of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateParameters {
    /// Idle time from which on powering down pays.
    pub break_even: Time,
    /// Entries per second above which the core stays up, at first. assumption: 2000.
    pub threshold_hz: u64,
    /// Span in which entries are counted. assumption: 10 ms.
    pub window: Time,
}

impl RateParameters {
    /// The defaults with this break-even time.
    #[must_use]
    pub const fn new(break_even: Time) -> RateParameters {
        RateParameters { break_even, threshold_hz: 2000, window: Time::ns(10_000_000) }
    }
}

/// Bounds of the threshold, in entries per second.
const LEAST_HZ: u64 = 1;
const MOST_HZ: u64 = 1 << 40;

/// The policy of one OS core.
#[derive(Clone, Debug)]
pub struct RatePowerDown {
    parameters: RateParameters,
    threshold_hz: u64,
    window_began: Time,
    entries: u64,
    /// Entries per second in the last whole window.
    rate_hz: u64,
    left: Option<(Time, IdleAction)>,
    pending: Option<IdleAction>,
}

impl RatePowerDown {
    /// A policy that has counted nothing yet.
    #[must_use]
    pub fn new(parameters: RateParameters) -> RatePowerDown {
        RatePowerDown {
            parameters,
            threshold_hz: parameters.threshold_hz.clamp(LEAST_HZ, MOST_HZ),
            window_began: Time::ZERO,
            entries: 0,
            rate_hz: 0,
            left: None,
            pending: None,
        }
    }

    fn turn_window(&mut self, now: Time) {
        let passed = now.saturating_sub(self.window_began);
        if passed >= self.parameters.window && passed > Time::ZERO {
            let per_second = u128::from(self.entries) * 1_000_000_000_000 / u128::from(passed.0);
            self.rate_hz = u64::try_from(per_second).unwrap_or(u64::MAX);
            (self.window_began, self.entries) = (now, 0);
        }
    }

    /// Was the answer right? If it slept too short, it must stay up at lower rates; if it stayed up
    /// too long, only at higher ones.
    fn correct(&mut self, idle: Time, answer: IdleAction) {
        match (answer, idle > self.parameters.break_even) {
            (IdleAction::PowerDown, false) => self.threshold_hz /= 2,
            (IdleAction::StayUp, true) => self.threshold_hz *= 2,
            _ => {}
        }
        self.threshold_hz = self.threshold_hz.clamp(LEAST_HZ, MOST_HZ);
    }
}

impl IdlePower for RatePowerDown {}

impl Policy for RatePowerDown {
    type Event = IdleEvent;
    type Action = IdleAction;

    fn on_event(&mut self, now: Time, event: &IdleEvent) {
        self.turn_window(now);
        match event {
            IdleEvent::Entered => self.entries += 1,
            IdleEvent::Left => {
                let busy = self.rate_hz > self.threshold_hz;
                let answer = if busy { IdleAction::StayUp } else { IdleAction::PowerDown };
                self.left = Some((now, answer));
                self.pending = Some(answer);
            }
            IdleEvent::Due => {
                if let Some((since, answer)) = self.left.take() {
                    self.correct(now.saturating_sub(since), answer);
                }
            }
        }
    }

    fn poll_action(&mut self) -> Option<IdleAction> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("rate_hz", self.rate_hz as i64), ("threshold_hz", self.threshold_hz as i64)]
    }
}
