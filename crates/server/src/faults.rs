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
use halfwink_techniques::server::Faults;
use halfwink_units::Time;

/// Fault stream of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    faults: Faults,
    random: Stream,
}

impl Fate {
    /// Returns the fate of a machine, if anything goes wrong.
    pub(crate) fn of(faults: &Faults, seed: u64, machine: &str) -> Option<Box<Fate>> {
        faults.any().then(|| Box::new(Fate { faults: *faults, random: stream(seed, machine) }))
    }

    /// How long a wake-up takes that should take `wake`; never, if its order is lost.
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
            // Nothing is drawn: a machine that never crashes leaves the stream to its wake-ups.
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
