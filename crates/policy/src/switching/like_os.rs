//! Finds threads that behave like the kernel, and tries them on the OS core (Mogul 2007, Sec 4.3).
//!
//! ```text
//!            score > least                 progress kept
//!  APP ───────────────────────▶ on trial ─────────────────▶ OS core
//!   ▲                              │ progress lost             │ progress lost
//!   └──── rejected for a while ◀───┴───────────────────────────┘
//! ```

use alloc::vec;

use halfwink_units::Time;

use crate::{Policy, Snapshot};

/// Number of traits.
pub const TRAITS: usize = 4;

/// Counters of a thread in one epoch, each per thousand instructions: what the report lists as
/// traits of kernel code, and of what it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Floating-point instructions.
    pub floating_point: u32,
    /// Mispredicted branches.
    pub mispredicted: u32,
    /// Misses of the first-level data cache (pointer chasing).
    pub misses: u32,
    /// Bytes copied in blocks.
    pub copied: u32,
}

/// One epoch of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadEpoch {
    /// What the counters say.
    pub counters: Counters,
    /// Progress: system calls in the epoch, as the report suggests.
    pub progress: u64,
}

/// Constants of the policy. The report gives none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikeOsParameters {
    /// Weights of the counters in the score, in their order. assumption.
    pub weights: [i32; TRAITS],
    /// Score above which a thread is tried. assumption.
    pub least_score: i64,
    /// Percent of its progress that it must keep. assumption: 85.
    pub keeps_pct: u64,
    /// Epochs for which a rejected thread is left alone. assumption: 50.
    pub rest_epochs: u32,
}

impl Default for LikeOsParameters {
    fn default() -> LikeOsParameters {
        LikeOsParameters {
            weights: [-20, 4, 1, 1],
            least_score: 60,
            keeps_pct: 85,
            rest_epochs: 50,
        }
    }
}

/// What the policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// To an OS core.
    ToOsCore,
    /// Back to an application core.
    ToAppCore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On an application core; not to be tried for so many epochs.
    App { rest: u32 },
    /// On the OS core, with its progress before.
    Moved { before: u64 },
}

/// The policy of one thread.
#[derive(Clone, Debug)]
pub struct LikeOs {
    parameters: LikeOsParameters,
    state: State,
    score: i64,
    pending: Option<Move>,
}

impl LikeOs {
    /// A policy for a thread on an application core.
    #[must_use]
    pub fn new(parameters: LikeOsParameters) -> LikeOs {
        LikeOs { parameters, state: State::App { rest: 0 }, score: 0, pending: None }
    }

    fn score(&self, counters: &Counters) -> i64 {
        let Counters { floating_point, mispredicted, misses, copied } = *counters;
        let values = [floating_point, mispredicted, misses, copied];
        let weighted = |(weight, value): (i32, u32)| i64::from(weight) * i64::from(value);
        self.parameters.weights.into_iter().zip(values).map(weighted).sum()
    }
}

impl Policy for LikeOs {
    type Event = ThreadEpoch;
    type Action = Move;

    fn on_event(&mut self, _now: Time, epoch: &ThreadEpoch) {
        self.score = self.score(&epoch.counters);
        match self.state {
            State::App { rest: 0 } if self.score > self.parameters.least_score => {
                self.state = State::Moved { before: epoch.progress };
                self.pending = Some(Move::ToOsCore);
            }
            State::App { rest } => self.state = State::App { rest: rest.saturating_sub(1) },
            State::Moved { before } => {
                let needed = u128::from(before) * u128::from(self.parameters.keeps_pct);
                if u128::from(epoch.progress) * 100 < needed {
                    self.state = State::App { rest: self.parameters.rest_epochs };
                    self.pending = Some(Move::ToAppCore);
                }
            }
        }
    }

    fn poll_action(&mut self) -> Option<Move> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let moved = matches!(self.state, State::Moved { .. });
        vec![("on_os_core", moved.into()), ("score", self.score)]
    }
}
