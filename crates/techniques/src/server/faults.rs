//! Faults of machines, as they are described.

use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use super::model::within;
use super::{Machine, ModelError};

/// Faults of each machine; without a value nothing goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Share of wake-ups whose order is lost, 0 to 1.
    pub wake_lost: f64,
    /// Share of the others that take longer, 0 to 1.
    pub wake_late: f64,
    /// By how much in the mean, in milliseconds; exponential.
    pub late_ms: f64,
    /// A machine that is not on so long after it was woken is lost, in milliseconds.
    pub wake_timeout_ms: f64,
    /// How long a machine is on, in seconds, in the mean, before it is lost; exponential. 0: for
    /// ever.
    pub crash_every_s: f64,
    /// How long it stays lost, in seconds, in the mean; exponential.
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
    pub(crate) fn check(&self, kinds: &[&Machine]) -> Result<(), ModelError> {
        within("faults.wake_lost", self.wake_lost, 0.0, 1.0)?;
        within("faults.wake_late", self.wake_late, 0.0, 1.0)?;
        within("faults.late_ms", self.late_ms, 0.0, 1e7)?;
        within("faults.crash_every_s", self.crash_every_s, 0.0, 1e9)?;
        within("faults.repair_s", self.repair_s, 1e-6, 1e9)?;
        within("faults.gone", self.gone, 0.0, 1.0)?;
        // The deepest level of a machine is its slowest.
        let slowest_of = |kind: &&Machine| kind.levels.last().map_or(kind.wake_ms, |l| l.wake_ms);
        let slowest = kinds.iter().map(slowest_of).fold(0.0, f64::max);
        // Else no machine would ever wake in time.
        within("faults.wake_timeout_ms", self.wake_timeout_ms, slowest, 1e7)
    }

    /// How long a machine that was woken is waited for.
    #[must_use]
    pub fn patience(&self) -> Time {
        Time::from_ns(self.wake_timeout_ms * 1e6)
    }

    /// Whether there are any.
    #[must_use]
    pub fn any(&self) -> bool {
        self.wake_lost > 0.0 || self.wake_late > 0.0 || self.crash_every_s > 0.0
    }
}
