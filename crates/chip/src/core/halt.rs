//! A core that its operating system halts.

use halfwink_units::{Cycle, Time};

use super::{Core, CoreError, Phase};
use crate::os_cores::Departure;
use crate::package::Halts;

impl Core {
    pub(super) fn halt(&mut self, at: Cycle, from_ns: u64, to_ns: u64) -> Result<bool, CoreError> {
        let now = self.clock.time_of(at);
        let wake_at = self.pipeline.common_mut().context.end_of_halt(from_ns, to_ns, now);
        if self.shares && !(self.looks_again && wake_at <= now) {
            return self.leave(Departure::Sleeps(wake_at));
        }
        let wake_at = self.woken_ahead(now, wake_at);
        self.running_cycles += at - self.running_from;
        if let Some(halts) = &mut self.halts {
            halts.push((now, wake_at));
        }
        self.phase = Phase::Halted { wake_at, woken: false };
        if self.looks_again && wake_at <= now {
            self.gate.passes_over(now).map_err(|e| self.policy_error(e))?;
            self.units_follow(now);
            self.followers.pass_over(now);
            return Ok(true);
        }
        self.gate.wait_begins(now, true).map_err(|e| self.policy_error(e))?;
        self.units_follow(now);
        self.followers.wait_begins(now, true);
        self.look_at_caches(now);
        Ok(true)
    }

    /// Spans before `now` in which it had nothing to do.
    pub(crate) fn halts(&self, now: Time) -> Halts {
        let own = self.halts.iter().flatten().copied();
        let before = std::iter::once((Time::ZERO, self.started));
        let after = self.finished.map(|finished| (finished, now));
        let all = before.chain(own).chain(after).map(|(from, to)| (from, to.min(now)));
        all.filter(|(from, to)| from < to).collect()
    }
}
