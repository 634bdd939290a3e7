//! Wakes an application core before the request that a new connection announces (Mogul 2007, Sec
//! 3.3.3): the first request comes a network round trip after the connection opens.

use alloc::vec;

use halfwink_units::Time;

use crate::{Policy, Snapshot};

/// Constants of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyWakeParameters {
    /// Time to power the core up.
    pub power_up: Time,
    /// How much earlier than needed. assumption: 20 us.
    pub margin: Time,
    /// Round trip before any was measured. assumption: 1 ms.
    pub first_round_trip: Time,
}

/// What the policy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeEvent {
    /// A connection opens; its request will follow.
    Opened,
    /// The first request of a connection, with the time since it opened.
    Requested {
        /// That time.
        after: Time,
    },
    /// The core has powered down.
    Slept,
    /// The core is up, for whatever reason.
    Woken,
}

/// What it asks for: power the core up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp;

/// The policy of one application core.
#[derive(Clone, Debug)]
pub struct EarlyWake {
    parameters: EarlyWakeParameters,
    /// Mean time from opening to request; a new one counts for an eighth.
    round_trip: Option<Time>,
    asleep: bool,
    due: Option<Time>,
    pending: Option<WakeUp>,
}

impl EarlyWake {
    /// A policy for a core that is up.
    #[must_use]
    pub fn new(parameters: EarlyWakeParameters) -> EarlyWake {
        EarlyWake { parameters, round_trip: None, asleep: false, due: None, pending: None }
    }

    fn wake(&mut self) {
        if self.asleep {
            self.asleep = false;
            self.pending = Some(WakeUp);
        }
    }
}

impl Policy for EarlyWake {
    type Event = WakeEvent;
    type Action = WakeUp;

    fn on_event(&mut self, now: Time, event: &WakeEvent) {
        match *event {
            WakeEvent::Opened => {
                let expected = self.round_trip.unwrap_or(self.parameters.first_round_trip);
                let ahead = self.parameters.power_up.saturating_add(self.parameters.margin);
                let at = now.saturating_add(expected.saturating_sub(ahead));
                if at <= now {
                    self.wake();
                } else {
                    // The earliest of several connections counts.
                    self.due = Some(self.due.map_or(at, |due| due.min(at)));
                }
            }
            WakeEvent::Requested { after } => {
                let mean = self.round_trip.map_or(after, |mean| {
                    Time(mean.0 - mean.0 / 8).saturating_add(Time(after.0 / 8))
                });
                self.round_trip = Some(mean);
            }
            WakeEvent::Slept => self.asleep = true,
            WakeEvent::Woken => self.asleep = false,
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.wake();
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.due
    }

    fn poll_action(&mut self) -> Option<WakeUp> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let round_trip_ns = self.round_trip.map_or(-1, |t| (t.0 / 1000) as i64);
        vec![("asleep", self.asleep.into()), ("round_trip_ns", round_trip_ns)]
    }
}
