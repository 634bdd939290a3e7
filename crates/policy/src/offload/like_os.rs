//! Finds threads whose user code is like kernel code, and lets an OS core run all of them (Mogul
//! 2007, Sec 4.3: proposed, not built).
//!
//! ```text
//!  AT HOME ──looks like the kernel──▶ TRIAL on an OS core ──as fast as before──▶ HOSTED there
//!     ▲                                   │                                        │
//!     └────────── some epochs ── AT HOME, not asked again ◀── slower ──────────────┘
//! ```
//!
//! What kernel code is like, by the report: no floating point, idiosyncratic branches, pointers
//! chased, blocks copied. Counters see the first two, and misses for the others.

use alloc::vec;

use halfwink_units::Time;

use super::{Action, Event, Offload, OffloadPolicy, Pending, Place, Sample, SOFTWARE_CYCLES};
use crate::{Policy, Snapshot};

/// Criteria by which user code counts as similar to kernel code, and the time for which it is
/// tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LikeOsParameters {
    /// Time between two looks: 100 ms (assumption).
    pub epoch: Time,
    /// Floating-point operations per thousand instructions, at most.
    pub most_fp: u64,
    /// Mispredicted branches and misses of the data cache per thousand instructions, at least,
    /// together.
    pub least_trouble: u64,
    /// Progress that may be lost on the OS core, in per cent: 15 (assumption).
    pub tolerance_percent: u64,
    /// Epochs until a thread that was too slow there is tried again: 50 (assumption).
    pub patience: u32,
}

impl LikeOsParameters {
    /// The values that the report leaves open. assumption: kernel code of the recorded servers has
    /// no floating point, and 10 or more branches and misses per thousand instructions go wrong.
    #[must_use]
    pub const fn usual() -> LikeOsParameters {
        LikeOsParameters {
            epoch: Time::ns(100_000_000),
            most_fp: 1,
            least_trouble: 10,
            tolerance_percent: 15,
            patience: 50,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Home,
    /// On an OS core for an epoch; before, it retired so many instructions in a millisecond.
    Trial {
        before: u64,
    },
    Hosted {
        before: u64,
    },
    /// At home for so many epochs more.
    Rejected(u32),
}

/// The policy of one thread.
pub struct LikeOs {
    parameters: LikeOsParameters,
    /// Decides on kernel entries while the thread is at home.
    entries: OffloadPolicy,
    phase: Phase,
    began: Time,
    epoch: Sample,
    pending: Pending,
}

impl LikeOs {
    /// A policy that knows nothing yet; `entries` decides as long as the thread is at home.
    #[must_use]
    pub fn new(parameters: LikeOsParameters, entries: OffloadPolicy) -> LikeOs {
        LikeOs {
            parameters,
            entries,
            phase: Phase::Home,
            began: Time::ZERO,
            epoch: Sample::default(),
            pending: None,
        }
    }

    fn is_away(&self) -> bool {
        matches!(self.phase, Phase::Trial { .. } | Phase::Hosted { .. })
    }

    /// True if the user code of the epoch had the traits of kernel code.
    fn is_like_os(&self) -> bool {
        let user = self.epoch.instructions[0];
        let traits = self.epoch.user;
        let per_thousand = |count: u64| count.saturating_mul(1000) / user.max(1);
        user > 0
            && per_thousand(traits.fp) <= self.parameters.most_fp
            && per_thousand(traits.mispredicted + traits.l1d_misses)
                >= self.parameters.least_trouble
    }

    fn look(&mut self, now: Time) {
        let span = (now - self.began).0.max(1);
        // A millisecond is 10^9 ps.
        let progress = u128::from(self.epoch.total()) * 1_000_000_000 / u128::from(span);
        let progress = progress.min(u128::from(u64::MAX)) as u64;
        let kept = 100 - self.parameters.tolerance_percent.min(100);
        let enough = |before: u64| progress >= (u128::from(before) * u128::from(kept) / 100) as u64;
        self.phase = match self.phase {
            Phase::Home if self.is_like_os() => Phase::Trial { before: progress },
            Phase::Home => Phase::Home,
            Phase::Trial { before } | Phase::Hosted { before } if enough(before) => {
                Phase::Hosted { before }
            }
            Phase::Trial { .. } | Phase::Hosted { .. } => Phase::Rejected(self.parameters.patience),
            Phase::Rejected(0 | 1) => Phase::Home,
            Phase::Rejected(epochs) => Phase::Rejected(epochs - 1),
        };
        let place = if self.is_away() { Place::OsCore } else { Place::Here };
        self.pending = Some(Action { place, decision_cycles: SOFTWARE_CYCLES });
        self.began = now;
        self.epoch = Sample::default();
    }
}

impl Policy for LikeOs {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match event {
            Event::Enter(_) if self.is_away() => {
                self.pending = Some(Action { place: Place::Here, decision_cycles: 0 });
            }
            Event::Enter(_) => {
                self.entries.on_event(now, event);
                self.pending = self.entries.poll_action();
            }
            Event::Exit { .. } => {
                self.entries.on_event(now, event);
                self.pending = None;
                if self.is_away() {
                    self.pending = Some(Action { place: Place::OsCore, decision_cycles: 0 });
                }
            }
            Event::Sample(sample) => {
                self.entries.on_event(now, event);
                self.epoch.add(sample);
                if now.saturating_sub(self.began) >= self.parameters.epoch {
                    self.look(now);
                }
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let (phase, left) = match self.phase {
            Phase::Home => (0, 0),
            Phase::Trial { .. } => (1, 0),
            Phase::Hosted { .. } => (2, 0),
            Phase::Rejected(epochs) => (3, i64::from(epochs)),
        };
        vec![("phase", phase), ("rejected_epochs", left)]
    }
}

impl Offload for LikeOs {}
