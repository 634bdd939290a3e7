//! How far cores have come, and what that makes final.
//!
//! Cores are simulated one after the other, each for as long as nothing can reach it that is not in
//! its inbox yet. So some are ahead of others, and what the cores share must not serve a message
//! before it is certain that no earlier one can still come (conservative simulation: Chandy and
//! Misra 1979). The certainty comes from the lookahead of each core: whatever it does, another part
//! of the chip notices only after the shortest way through its private caches, or to the wake-up
//! controller.

use halfwink_units::Time;

use crate::core::Core;
use crate::memory::Undecided;

/// A core that has something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) core: usize,
    /// Time up to which it was simulated.
    pub(crate) local: Time,
    /// Earliest time at which its acts can reach another part of the chip.
    message: Time,
}

/// Progress of all cores that have work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The one that is furthest behind; the lowest of several.
    pub(crate) behind: Option<Reached>,
    /// Time up to which all others were simulated at least.
    others: Time,
    /// The first message that any of the others could still send.
    pub(crate) message_of_others: Time,
}

impl Progress {
    /// Computes the progress, given the memory's open decisions.
    pub(crate) fn of(cores: &[Core], undecided: Undecided) -> Progress {
        let (mut behind, mut others, mut message_of_others) =
            (None::<Reached>, Time::NEVER, Time::NEVER);
        for (n, core) in cores.iter().enumerate() {
            let Some((local, message)) = core.progress(undecided) else { continue };
            let this = Reached { core: n, local, message };
            let other = match behind {
                Some(least) if least.local <= local => Some(this),
                _ => behind.replace(this),
            };
            if let Some(other) = other {
                others = others.min(other.local);
                message_of_others = message_of_others.min(other.message);
            }
        }
        Progress { behind, others, message_of_others }
    }

    /// The first message that any core could still send.
    pub(crate) fn message(&self) -> Time {
        self.behind.map_or(Time::NEVER, |behind| behind.message).min(self.message_of_others)
    }

    /// Returns the time up to which all cores were simulated at least.
    pub(crate) fn reached(&self) -> Time {
        self.behind.map_or(Time::NEVER, |behind| behind.local)
    }

    /// Returns the time up to which all cores but this one were simulated at least.
    pub(crate) fn without(&self, core: usize) -> Time {
        match self.behind {
            Some(behind) if behind.core != core => behind.local,
            _ => self.others,
        }
    }
}
