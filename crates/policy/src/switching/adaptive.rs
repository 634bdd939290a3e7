//! Powers a core down if past waits for the same reason were long (Mogul 2007, Sec 5.6).

use alloc::boxed::Box;
use alloc::vec;

use halfwink_units::Time;

use super::{IdleAction, IdleEvent};
use crate::{Policy, Snapshot};

/// Constants of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveParameters {
    /// Expected idle time from which on it powers down.
    pub break_even: Time,
    /// Weight of the past in the mean of a reason: a new time counts for `2^-shift`. assumption: 3,
    /// an eighth.
    pub shift: u32,
    /// Reasons that are told apart; more share an entry. assumption: 64.
    pub entries: usize,
    /// What it does with a reason that it has not seen. assumption: powers down, as the report does
    /// always.
    pub trusts_strangers: bool,
}

impl AdaptiveParameters {
    /// The defaults with this break-even time.
    #[must_use]
    pub const fn new(break_even: Time) -> AdaptiveParameters {
        AdaptiveParameters { break_even, shift: 3, entries: 64, trusts_strangers: true }
    }
}

/// The policy of one application core.
#[derive(Clone, Debug)]
pub struct AdaptivePowerDown {
    parameters: AdaptiveParameters,
    /// Mean idle time by reason; none before the first.
    means: Box<[Option<Time>]>,
    left: Option<(usize, Time)>,
    pending: Option<IdleAction>,
}

impl AdaptivePowerDown {
    /// A policy that knows nothing yet.
    #[must_use]
    pub fn new(parameters: AdaptiveParameters) -> AdaptivePowerDown {
        let means = vec![None; parameters.entries.max(1)].into_boxed_slice();
        AdaptivePowerDown { parameters, means, left: None, pending: None }
    }

    fn decide(&self, mean: Option<Time>) -> IdleAction {
        let down =
            mean.map_or(self.parameters.trusts_strangers, |mean| mean > self.parameters.break_even);
        if down {
            IdleAction::PowerDown
        } else {
            IdleAction::StayUp
        }
    }

    fn learn(&mut self, entry: usize, idle: Time) {
        let shift = self.parameters.shift.min(63);
        let mean = self.means[entry].map_or(idle, |mean| {
            Time(mean.0 - (mean.0 >> shift)).saturating_add(Time(idle.0 >> shift))
        });
        self.means[entry] = Some(mean);
    }
}

impl Policy for AdaptivePowerDown {
    type Event = IdleEvent;
    type Action = IdleAction;

    fn on_event(&mut self, now: Time, event: &IdleEvent) {
        match *event {
            IdleEvent::Left { reason } => {
                let entry = (reason % self.means.len() as u64) as usize;
                self.left = Some((entry, now));
                self.pending = Some(self.decide(self.means[entry]));
            }
            IdleEvent::Due => {
                if let Some((entry, since)) = self.left.take() {
                    self.learn(entry, now.saturating_sub(since));
                }
            }
            IdleEvent::Entered => {}
        }
    }

    fn poll_action(&mut self) -> Option<IdleAction> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let known = self.means.iter().flatten().count();
        vec![("reasons", known as i64), ("idle", self.left.is_some().into())]
    }
}
