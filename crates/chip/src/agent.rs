//! Who sends requests to the shared levels: cores, and agents that are no core.

use halfwink_engine::Class;

/// A core, or something else that reads and writes lines.
///
/// Requests that arrive at one time are served in the order of their agents: cores by number, then
/// the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agent(u8);

impl Agent {
    /// Agent that loads lines before they are needed, beside the cores.
    pub(crate) const PREHEATER: Agent = Agent(254);
    /// Agent that reads and writes memory by itself.
    pub(crate) const DEVICE: Agent = Agent(255);

    pub(crate) fn core(number: usize) -> Agent {
        // 64 of users and 64 for the kernel at most (`machine/check.rs`).
        debug_assert!(number < 128, "a core too many");
        Agent(number as u8)
    }

    /// The number of the core, if it is one.
    #[inline]
    pub(crate) fn number(self) -> Option<usize> {
        (self.0 < 128).then_some(usize::from(self.0))
    }

    pub(crate) fn class(self) -> Class {
        Class(self.0)
    }
}
