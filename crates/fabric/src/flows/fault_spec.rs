//! Faults between racks as a description asks for them.

use serde::{Deserialize, Serialize};

use crate::description::{at_least, positive, wrong, DescriptionError};

/// Faults that are injected into each link of a rack; the default is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RackFaults {
    /// Share of its days that a circuit misses, 0 to 1.
    pub day_lost: f64,
    /// Mean time that a rack's link to a circuit or packet switch is up, in seconds; exponential. 0
    /// means for ever.
    pub link_down_every_s: f64,
    /// Mean time that the link is then down, in milliseconds; exponential.
    pub link_down_ms: f64,
}

impl Default for RackFaults {
    fn default() -> RackFaults {
        RackFaults { day_lost: 0.0, link_down_every_s: 0.0, link_down_ms: 10.0 }
    }
}

impl RackFaults {
    pub(crate) fn check(&self) -> Result<(), DescriptionError> {
        if !(0.0..=1.0).contains(&self.day_lost) {
            let message = format!("found {}, expected 0 to 1", self.day_lost);
            return Err(wrong("racks.faults.day_lost", message));
        }
        at_least("racks.faults.link_down_every_s", self.link_down_every_s, 0.0)?;
        positive("racks.faults.link_down_ms", self.link_down_ms)
    }

    /// Returns whether any fault is enabled.
    #[must_use]
    pub fn any(&self) -> bool {
        self.day_lost > 0.0 || self.link_down_every_s > 0.0
    }
}
