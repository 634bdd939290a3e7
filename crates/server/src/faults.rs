//! What goes wrong with machines: wake-ups that are lost or late, machines that stop answering.
//!
//! ```text
//!   asleep ──Wake──▶ waking ── late, or lost: not on in time ──▶ lost ── repaired ──▶ on
//!                               on ── crashes ───────────────────▲ └── or never
//! ```
//!
//! What then happens to requests is what the live proxy does: the policy hears
//! [`Event::Lost`](halfwink_policy::steering::Event::Lost), each request that was there finishes
//! and comes anew, and one that is sent to a lost machine is refused at once.

use halfwink_engine::draw::{comes, exponential};
use halfwink_engine::{stream, Stream};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use crate::model::{within, ModelError};
use crate::spec::Machine;

/// Faults that are injected into each of the two machines; the default is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Share of wake-ups whose order is lost, 0 to 1.
    pub wake_lost: f64,
    /// Share of the others that take longer, 0 to 1.
    pub wake_late: f64,
    /// Mean delay of a late wake-up, in milliseconds; exponential.
    pub late_ms: f64,
    /// A machine that is not on so long after it was woken is lost, in milliseconds.
    pub wake_timeout_ms: f64,
    /// Mean time that a machine is on before it is lost, in seconds; exponential. 0 means for ever.
    pub crash_every_s: f64,
    /// Mean time that it stays lost, in seconds; exponential.
    pub repair_s: f64,
    /// Share of losses from which it never comes back, 0 to 1.
    pub gone: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            wake_lost: 0.0,
            wake_late: 0.0,
            late_ms: 0.0,
            // As the live proxy waits for a real machine.
            wake_timeout_ms: 10_000.0,
            crash_every_s: 0.0,
            repair_s: 60.0,
            gone: 0.0,
        }
    }
}

impl Faults {
    pub(crate) fn check(&self, machines: [&Machine; 2]) -> Result<(), ModelError> {
        within("faults.wake_lost", self.wake_lost, 0.0, 1.0)?;
        within("faults.wake_late", self.wake_late, 0.0, 1.0)?;
        within("faults.late_ms", self.late_ms, 0.0, 1e7)?;
        within("faults.crash_every_s", self.crash_every_s, 0.0, 1e9)?;
        within("faults.repair_s", self.repair_s, 1e-6, 1e9)?;
        within("faults.gone", self.gone, 0.0, 1.0)?;
        let slowest = machines[0].wake_ms.max(machines[1].wake_ms);
        // Else no machine would ever wake in time.
        within("faults.wake_timeout_ms", self.wake_timeout_ms, slowest, 1e7)
    }

    /// Returns the timeout of a wake-up.
    pub(crate) fn patience(&self) -> Time {
        Time::from_ns(self.wake_timeout_ms * 1e6)
    }

    /// Returns whether any fault is enabled.
    pub(crate) fn any(&self) -> bool {
        self.wake_lost > 0.0 || self.wake_late > 0.0 || self.crash_every_s > 0.0
    }

    /// Creates the fault stream of a machine, if any fault is enabled.
    pub(crate) fn of(&self, seed: u64, machine: &str) -> Option<Box<Fate>> {
        self.any().then(|| Box::new(Fate { faults: *self, random: stream(seed, machine) }))
    }
}

/// Fault stream of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    faults: Faults,
    random: Stream,
}

impl Fate {
    /// Draws the duration of a wake-up that should take `wake`; never, if its order is lost.
    pub(crate) fn wake(&mut self, wake: Time) -> Time {
        if comes(&mut self.random, self.faults.wake_lost) {
            return Time::NEVER;
        }
        let late = comes(&mut self.random, self.faults.wake_late);
        wake + if late { self.exponential_ms(self.faults.late_ms) } else { Time::ZERO }
    }

    /// Returns the timeout of a wake-up.
    pub(crate) fn patience(&self) -> Time {
        self.faults.patience()
    }

    /// Draws the time for which a machine that is on stays so.
    pub(crate) fn crash(&mut self) -> Time {
        match self.faults.crash_every_s {
            0.0 => Time::NEVER,
            mean => self.exponential_ms(mean * 1e3),
        }
    }

    /// Draws the time for which it stays lost.
    pub(crate) fn repair(&mut self) -> Time {
        if comes(&mut self.random, self.faults.gone) {
            return Time::NEVER;
        }
        self.exponential_ms(self.faults.repair_s * 1e3)
    }

    fn exponential_ms(&mut self, mean: f64) -> Time {
        Time::from_ns(exponential(&mut self.random) * mean * 1e6)
    }
}
