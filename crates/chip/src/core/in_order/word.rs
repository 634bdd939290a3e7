//! Small things that the issue loop keeps in one machine word each.

use halfwink_units::Cycle;

use crate::cpi_stack::Reason;

/// A cycle, and the reason that a wait until then is charged to: in one word, so that the later of
/// two brings its reason along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ready(pub(super) u64);

impl Ready {
    /// Not before the shared levels answer.
    pub(super) const UNKNOWN: Ready = Ready(u64::MAX);

    #[inline]
    pub(super) fn at(cycle: Cycle, reason: Reason) -> Ready {
        debug_assert!(cycle < Ready::UNKNOWN.cycle(), "a cycle has 56 bits");
        Ready(cycle << 8 | reason as u64)
    }

    #[inline]
    pub(super) fn cycle(self) -> Cycle {
        self.0 >> 8
    }

    /// Returns the time this number of cycles earlier; the reason, in the low byte, stays.
    #[inline]
    pub(super) fn earlier(self, cycles: Cycle) -> Ready {
        Ready(self.0.saturating_sub(cycles << 8))
    }

    #[inline]
    pub(super) fn reason(self) -> Reason {
        Reason::ALL[(self.0 & 0xff) as usize % Reason::ALL.len()]
    }
}

/// Small counts, one byte for each unit. A byte is enough: at most sixteen operations issue in a
/// cycle, which is what a machine's `width` is held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByUnit(pub(super) u64);

impl ByUnit {
    #[inline]
    pub(super) fn of(self, unit: usize) -> u64 {
        self.0 >> (8 * unit) & 0xff
    }

    #[inline]
    pub(super) fn count(&mut self, unit: usize) {
        debug_assert!(self.of(unit) < 0xff, "the count would run into the next unit's");
        self.0 += 1 << (8 * unit);
    }
}
