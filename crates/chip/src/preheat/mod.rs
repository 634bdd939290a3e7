//! Requests played one by one, from what the caches held when the recording came to them: warm, or
//! after a sleep that lost them, with or without preheating (Gottschlag 2016, ch. 3 to 5).
//!
//! [`requests`] cuts a recording into requests and hands each over with the [`WarmState`] before
//! it; [`play`] plays one on a chip of its own, whose books are closed like those of any run.

mod cut;
mod play;

pub use crate::sample::WarmState;
pub use cut::{requests, Cut, Request, Requests};
pub use play::{play, DeviceWrite, Engine, Played, Sleep, Trial};

use halfwink_policy::preheat::LineSet;

use crate::chip::Chip;

/// A cache that can be dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLevel {
    /// First-level instruction cache of the first core.
    L1i,
    /// Data cache of the core.
    L1d,
    /// Second level of the core.
    L2,
    /// The shared third level.
    L3,
}

impl Chip<'_> {
    /// The lines that a cache holds, by physical number: what a read of its tags would find
    /// (Gottschlag 2016, Sec 3.2). Nothing moves, and no time passes.
    pub(crate) fn dump(&self, level: CacheLevel) -> LineSet {
        let private = &self.cores[0].common().private;
        let lines: Vec<u64> = match level {
            CacheLevel::L1i => private.l1i.lines().map(|(_, line, _)| line).collect(),
            CacheLevel::L1d => private.l1d.lines().map(|(_, line, _)| line).collect(),
            CacheLevel::L2 => private.l2.lines().map(|(_, line, _)| line).collect(),
            CacheLevel::L3 => {
                let l3 = self.shared.uncore.l3.iter().flat_map(|l3| l3.lines());
                l3.map(|(_, line, _)| line).collect()
            }
        };
        LineSet::from_unsorted(lines)
    }
}
