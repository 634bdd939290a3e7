//! Empty polls of a core, counted as a poll loop does.

use super::Rest;

/// Consecutive polls that found nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EmptyPolls {
    count: u32,
    /// Polls that the core was told to make on its own, the last of which it reports.
    granted: u32,
}

impl EmptyPolls {
    /// A poll found packets.
    pub(super) fn found(&mut self) {
        *self = EmptyPolls::default();
    }

    /// A poll took so many packets.
    pub(super) fn polled(&mut self, taken: u32) {
        if taken > 0 {
            self.found();
        }
    }

    /// A poll found none: how many did in a row, those made on its own included.
    pub(super) fn empty(&mut self) -> u32 {
        self.count = self.count.saturating_add(self.granted.max(1));
        self.granted = 0;
        self.count
    }

    /// Polls until so many in a row were empty.
    pub(super) fn until(&mut self, count: u32) -> Rest {
        self.granted = count.saturating_sub(self.count).max(1);
        Rest::Again { polls: self.granted }
    }

    /// Counts from none again.
    pub(super) fn restart(&mut self) {
        *self = EmptyPolls::default();
    }
}
