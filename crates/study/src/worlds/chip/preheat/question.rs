//! What is asked.

use halfwink_chip::Machine;
use halfwink_power::Lost;
use halfwink_units::Time;

use crate::error::StudyError;

/// The settings with which requests are played.
#[derive(Clone, Debug, PartialEq)]
pub struct PreheatQuestion {
    /// Requests to measure at most.
    pub requests: usize,
    /// Requests before them whose dumps are intersected.
    pub training: usize,
    /// Sleep before each, in microseconds.
    pub sleep_us: f64,
    /// Time from the announcement to the arrival, in microseconds.
    pub lead_us: f64,
}

impl Default for PreheatQuestion {
    fn default() -> PreheatQuestion {
        // The prototype's lead (Gottschlag 2016, Sec 5.1); the thesis does not print how many
        // requests it trained with.
        PreheatQuestion { requests: 200, training: 10, sleep_us: 3_000.0, lead_us: 500.0 }
    }
}

impl PreheatQuestion {
    pub(super) fn sleep(&self) -> Time {
        Time::from_ns(self.sleep_us * 1e3)
    }

    pub(super) fn lead(&self) -> Time {
        Time::from_ns(self.lead_us * 1e3)
    }

    /// The machine with one core, whose sleep loses all caches if its description says nothing
    /// else, but not in a wait that is shorter than the lead: a core that was woken ahead is not
    /// put to such a sleep again.
    pub(super) fn sleeping(&self, machine: &Machine) -> Result<Machine, StudyError> {
        let wrong = |message: String| Err(StudyError::Usage(message));
        if self.requests == 0 || self.training == 0 || self.requests.max(self.training) > 1 << 20 {
            return wrong("requests and training: expected 1 to 1048576".to_owned());
        }
        if !(0.0..=1e5).contains(&self.lead_us) {
            return wrong(format!("a lead of {} us, expected 0 to 100000", self.lead_us));
        }
        let mut machine = machine.clone().with_cores(1).without_os_cores();
        let gating = &mut machine.gating;
        if gating.loses.is_empty() {
            gating.loses = vec![Lost::L1i, Lost::L1d, Lost::L2, Lost::L3];
        }
        gating.loses_after_us = gating.loses_after_us.max(self.lead_us + 1.0);
        // A flush of everything, and the way down and up.
        let least = gating.loses_after_us + self.lead_us + 1_000.0 + gating.wake_up_ns * 1e-3;
        if !(least..=1e6).contains(&self.sleep_us) {
            return wrong(format!(
                "a sleep of {} us, expected {least:.0} to 1000000: lead, retention, a flush and \
                 the way up have to fit into it",
                self.sleep_us
            ));
        }
        Ok(machine)
    }
}
