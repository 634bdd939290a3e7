//! HAL's rule for a small processor in front of a big one: the small one serves up to a rate, the
//! excess goes to the big one, and the rate follows how full the small one is.
//!
//! ```text
//!   request ─▶ token there? ─ yes ─▶ small       every period, small's unfinished requests:
//!                   └──────── no ──▶ big           from `high` on ─▶ rate - step
//!              tokens come at the rate             up to `low`, some went to big ─▶ rate + step
//! ```
//!
//! After Huang et al., "HAL: Hardware-assisted Load Balancing for Energy-efficient SNIC-Host
//! Cooperative Computing" (ISCA 2024): a traffic director limits the rate of packets to the
//! SmartNIC's processor and diverts the excess to the host; a load-balancing policy adapts that
//! rate to the processor's receive queues. Its abstract was at hand, not its text: the director
//! and the signal are HAL's; watermarks, step and period are assumptions. Deviations: requests in
//! place of packets and their bits; HAL's host processor naps by itself, here the policy wakes it
//! for the first excess request, which waits for it, and lets it sleep after a linger.

use halfwink_units::Time;

use super::machines::{Linger, Machines};
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Value of a token: picoseconds in a second, so that credit is time x rate.
const TOKEN: u64 = 1_000_000_000_000;

/// Parameters of HAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalParameters {
    /// Requests per second that the small machine gets at first.
    pub rate: u32,
    /// Tokens that can be saved up.
    pub burst: u32,
    /// Between looks at the small machine.
    pub period: Time,
    /// Requests per second by which the rate changes; none keeps it.
    pub step: u32,
    /// Unfinished requests up to which the small machine can take more.
    pub low: u32,
    /// Unfinished requests from which on it has too many.
    pub high: u32,
    /// Time for which the big machine stays on without requests.
    pub linger: Time,
}

impl HalParameters {
    /// Returns parameters for a small machine of this rate in requests per second and number of
    /// workers. The rate begins there and changes in steps of a fiftieth every 10 ms, between as
    /// many unfinished requests as workers and four times that (assumptions).
    #[must_use]
    pub fn published(rate: u32, workers: u32) -> HalParameters {
        HalParameters {
            rate,
            burst: workers,
            period: Time::ns(10_000_000),
            step: (rate / 50).max(1),
            low: workers,
            high: 4 * workers,
            linger: Time::ns(10_000_000),
        }
    }
}

/// Policy of HAL.
#[derive(Clone, Debug)]
pub struct Hal {
    parameters: HalParameters,
    machines: Machines,
    linger: Linger,
    /// Requests per second to the small machine.
    rate: u32,
    /// Credit; [`TOKEN`] of it is one token.
    credit: u64,
    filled: Time,
    look: Time,
    /// Since the last look the rate sent some to the big machine.
    binds: bool,
}

impl Hal {
    /// Starts with all tokens, and the big machine asleep after its linger.
    ///
    /// # Panics
    /// If the period or the burst is zero, or more than ten million tokens can be saved.
    #[must_use]
    pub fn new(parameters: HalParameters) -> Hal {
        assert!(parameters.period > Time::ZERO, "a period");
        assert!((1..=10_000_000).contains(&parameters.burst), "1 to 10 million tokens");
        let mut policy = Hal {
            parameters,
            machines: Machines::NEW,
            linger: Linger::standing_in(Side::Big, parameters.linger),
            rate: parameters.rate,
            credit: u64::from(parameters.burst) * TOKEN,
            filled: Time::ZERO,
            look: parameters.period,
            binds: false,
        };
        policy.linger.settle(Time::ZERO, &mut policy.machines);
        policy
    }

    /// Tokens of the time since the last look.
    #[inline]
    fn fill(&mut self, now: Time) {
        let more = u128::from(now.0 - self.filled.0) * u128::from(self.rate);
        let full = u64::from(self.parameters.burst) * TOKEN;
        let credit = (u128::from(self.credit) + more).min(u128::from(full));
        (self.credit, self.filled) = (credit as u64, now);
    }

    #[inline]
    fn arrive(&mut self, now: Time) {
        self.fill(now);
        let within = self.credit >= TOKEN;
        if within {
            self.credit -= TOKEN;
        } else {
            self.binds = true;
        }
        if self.machines.send(if within { Side::Small } else { Side::Big }) == Side::Big {
            self.linger.busy();
        }
    }

    fn adapt(&mut self, now: Time) {
        self.fill(now);
        let p = self.parameters;
        let load = self.machines.of(Side::Small).load;
        if load >= p.high {
            self.rate = self.rate.saturating_sub(p.step).max(p.step);
        } else if load <= p.low && self.binds {
            self.rate = self.rate.saturating_add(p.step);
        }
        self.binds = false;
        self.look = now + p.period;
    }
}

impl Policy for Hal {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.machines.note(event);
        match event {
            Event::Arrive => self.arrive(now),
            Event::Asleep { .. } => {}
            _ => self.linger.settle(now, &mut self.machines),
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.linger.timer(now, &mut self.machines);
        if self.look <= now {
            self.adapt(now);
        }
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        Some(self.linger.next().map_or(self.look, |at| at.min(self.look)))
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.machines.poll()
    }

    fn snapshot(&self) -> Snapshot {
        let mut state = self.machines.snapshot();
        state.push(("rate", self.rate.into()));
        state
    }
}

impl Steering for Hal {}
