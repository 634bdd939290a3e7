//! Faults of a router, as they are described.

use serde::{Deserialize, Serialize};

/// What goes wrong with each of the cores; nothing, if it is not said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Share of a queue's interrupts that are lost, 0 to 1. The card has masked the queue's
    /// interrupt by then: later packets raise none (assumption, Intel 82599's automatic mask).
    pub interrupt_lost: f64,
    /// How often the driver raises all interrupts anew, in milliseconds.
    pub watchdog_ms: f64,
    /// Share of wake-ups that take longer, 0 to 1.
    pub wake_late: f64,
    /// By how much in the mean, in microseconds; exponential.
    pub late_us: f64,
    /// How long a core answers, in seconds, in the mean; exponential. 0: for ever.
    pub silent_every_s: f64,
    /// How long it then does not, in milliseconds, in the mean; exponential.
    pub silent_ms: f64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            interrupt_lost: 0.0,
            // Linux' igb and ixgbe look every 2 s, and raise all queues' interrupts then.
            watchdog_ms: 2_000.0,
            wake_late: 0.0,
            late_us: 0.0,
            silent_every_s: 0.0,
            silent_ms: 1.0,
        }
    }
}

impl Faults {
    /// Values with their names and limits.
    pub(crate) fn limits(&self) -> [(&'static str, f64, f64, f64); 6] {
        [
            ("faults.interrupt_lost", self.interrupt_lost, 0.0, 1.0),
            // Else what waits for a lost interrupt would wait for ever.
            ("faults.watchdog_ms", self.watchdog_ms, 1e-3, 1e6),
            ("faults.wake_late", self.wake_late, 0.0, 1.0),
            ("faults.late_us", self.late_us, 0.0, 1e6),
            ("faults.silent_every_s", self.silent_every_s, 0.0, 1e9),
            ("faults.silent_ms", self.silent_ms, 1e-6, 1e6),
        ]
    }

    /// Whether there are any.
    #[must_use]
    pub fn any(&self) -> bool {
        self.interrupt_lost > 0.0 || self.wake_late > 0.0 || self.silent_every_s > 0.0
    }
}
