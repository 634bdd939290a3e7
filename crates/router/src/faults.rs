//! What goes wrong in a router: interrupts that are lost, cores that wake late or do not answer.
//!
//! ```text
//!   packet ──▶ resting core ── interrupt, or lost: masked until the driver's watchdog ──▶ wakes
//!                                                     later than it should, now and then ─┘
//!   poll   ──▶ looks at its queue, or does not answer for a while: its queue fills
//! ```
//!
//! No policy is told: it hears of a core again when that polls.

use halfwink_engine::draw::{comes, exponential};
use halfwink_engine::{stream, Outages, Stream};
use halfwink_techniques::router::Faults;
use halfwink_units::Time;

/// Number of faults injected, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Interrupts that were lost.
    pub interrupts_lost: u64,
    /// Wake-ups that took longer.
    pub late: u64,
    /// Looks at a queue that waited because the core did not answer.
    pub silent: u64,
}

/// A violated invariant, which holds under any faults: an error of the policy or of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Packets came and were neither forwarded nor lost, and do not wait.
    #[error("{0} packets came, {1} were forwarded, are lost or wait")]
    Unbalanced(u64, u64),
    /// The policy moved entries in order alone.
    #[error("{0} packets left after later ones of their flow, although all moves keep the order")]
    Reordered(u64),
    /// A core waits although no event will wake it.
    #[error("core {0} rests for ever with {1} packets in its queue")]
    Stranded(u8, u32),
}

/// What a core has before it.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    faults: Faults,
    wakes: Stream,
    silences: Outages,
    /// Whether its queue's interrupt is masked, as one was lost.
    masked: bool,
    pub(crate) counts: FaultCounts,
}

impl Fate {
    /// Returns the fates of so many cores, or none if nothing goes wrong.
    pub(crate) fn of(faults: &Faults, seed: u64, cores: usize) -> Vec<Fate> {
        if !faults.any() {
            return Vec::new();
        }
        (0..cores).map(|core| Fate::new(*faults, seed, core)).collect()
    }

    fn new(faults: Faults, seed: u64, core: usize) -> Fate {
        let ms = |ms: f64| Time::from_ns(ms * 1e6);
        let silences = stream(seed, &format!("silences of core {core}"));
        Fate {
            faults,
            wakes: stream(seed, &format!("faults of core {core}")),
            silences: Outages::new(silences, ms(faults.silent_every_s * 1e3), ms(faults.silent_ms)),
            masked: false,
            counts: FaultCounts::default(),
        }
    }

    /// Draws whether the queue's interrupt for a packet at `now` is lost. Returns the time at which
    /// the driver's watchdog raises it again, if it is lost or masked.
    pub(crate) fn loses_interrupt(&mut self, now: u64) -> Option<u64> {
        if !self.masked {
            if !comes(&mut self.wakes, self.faults.interrupt_lost) {
                return None;
            }
            self.masked = true;
            self.counts.interrupts_lost += 1;
        }
        self.raised(now)
    }

    /// Returns the time at which the driver's watchdog raises the interrupt next, if it is masked.
    pub(crate) fn raised(&self, now: u64) -> Option<u64> {
        let period = Time::from_ns(self.faults.watchdog_ms * 1e6).0.max(1);
        self.masked.then_some((now / period).saturating_add(1).saturating_mul(period))
    }

    /// Wakes the core, and returns the extra time of the wake-up. The core unmasks its interrupt
    /// before it rests again.
    pub(crate) fn wakes(&mut self) -> u64 {
        self.masked = false;
        if !comes(&mut self.wakes, self.faults.wake_late) {
            return 0;
        }
        self.counts.late += 1;
        Time::from_ns(exponential(&mut self.wakes) * self.faults.late_us * 1e3).0
    }

    /// Returns the end of a silence at `now`, if there is one. Calls must come in the order of
    /// time.
    pub(crate) fn silent_until(&mut self, now: u64) -> Option<u64> {
        let until = self.silences.until(Time(now))?;
        self.counts.silent += 1;
        Some(until.0)
    }
}
