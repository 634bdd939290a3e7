//! What must hold at the end of a run whatever went wrong in it. That nothing sleeps for ever with
//! its data there is seen on the way ([`CoreError::LeftAsleep`](crate::CoreError)), and that time
//! and energy add up, by the ledger.

use halfwink_units::Time;

use super::{Chip, ChipError};
use crate::faults::Broken;

impl Chip<'_> {
    /// Checks that a run with faults has lost no work and repeated none; skipped for one that was
    /// stopped.
    pub(super) fn check_work(&self) -> Result<(), ChipError> {
        let Some(seed) = self.fault_seed.filter(|_| self.stop == Time::NEVER) else {
            return Ok(());
        };
        let checked = match &self.scheduler {
            Some(scheduler) => scheduler.check(&self.cores),
            None => {
                let ended = self.cores.iter().filter(|core| core.finished.is_some()).count();
                match self.cores.len() {
                    begun if begun == ended => Ok(()),
                    begun => Err(Broken::Unended(begun as u64, ended as u64)),
                }
            }
        };
        checked.map_err(|broken| ChipError::Broken(seed, broken))
    }

    /// Checks that the states of each core add up to the length of the run.
    pub(super) fn check_times(&self, duration: Time) -> Result<(), ChipError> {
        let Some(seed) = self.fault_seed else { return Ok(()) };
        for (n, core) in self.cores.iter().enumerate() {
            let sum = core.gate.residency.iter().fold(Time::ZERO, |sum, &time| sum + time);
            if sum != duration {
                return Err(ChipError::Broken(seed, Broken::Untimed(n, sum, duration)));
            }
        }
        Ok(())
    }
}
