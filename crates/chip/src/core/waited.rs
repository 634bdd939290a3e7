//! Where a core's time without progress went.

use halfwink_power::CoreState;
use halfwink_units::Time;

use crate::cpi_stack::{Reason, REASONS};
use crate::gate::Residency;
use crate::gate_spec::Wakes;

/// Times of waits by power state, mode and reason.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    pub(crate) times: Box<[[[Time; REASONS]; 2]; CoreState::AT_WORK]>,
    /// Without work: halted, or because the thread was away.
    pub(crate) idle: [Residency; 2],
    /// Wake-ups by mode and reason, and out of both kinds of idleness.
    pub(crate) wakes: [[u64; REASONS]; 2],
    pub(crate) idle_wakes: [Wakes; 2],
}

impl Default for Waited {
    fn default() -> Self {
        Waited {
            times: Box::new([[[Time::ZERO; REASONS]; 2]; CoreState::AT_WORK]),
            idle: Default::default(),
            wakes: [[0; REASONS]; 2],
            idle_wakes: Default::default(),
        }
    }
}

impl Waited {
    pub(super) fn post(
        &mut self,
        (residency, wakes): (Residency, Wakes),
        kernel: bool,
        reason: Reason,
    ) {
        self.wakes[usize::from(kernel)][reason as usize] += wakes.gating;
        for (state, time) in residency.into_iter().enumerate().take(CoreState::AT_WORK) {
            self.times[state][usize::from(kernel)][reason as usize] += time;
        }
    }

    pub(super) fn post_idle(&mut self, (residency, wakes): (Residency, Wakes), away: bool) {
        let kind = usize::from(away);
        self.idle_wakes[kind].add(&wakes);
        for (sum, time) in self.idle[kind].iter_mut().zip(residency) {
            *sum += time;
        }
    }
}
