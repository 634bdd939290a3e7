//! A bank: its open row, the requests that wait for it, and what they would do next.

use super::Payer;
use crate::timing::Timing;

/// No time that comes.
pub(super) const NEVER: u64 = u64::MAX;
/// Marks a bank without an open row.
pub(super) const CLOSED: u64 = u64::MAX;
/// Requests that wait in a bank at most (DRAMsim3: `cmd_queue_size`).
pub(super) const SLOTS: usize = 8;

/// A request that waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queued {
    pub(super) line: u64,
    pub(super) row: u64,
    pub(super) id: u64,
    pub(super) arrived: u64,
    /// Clock at which the request entered the bank's queue. No two requests of a channel share it,
    /// so it is also their age.
    pub(super) since: u64,
    /// Column commands of the channel until then.
    pub(super) columns: u32,
    pub(super) bank: u8,
    pub(super) write: bool,
    pub(super) payer: Payer,
}

/// A command that a bank would give: not before `at`, for the request in `slot`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) at: u64,
    pub(super) since: u64,
    pub(super) slot: u8,
}

impl Offer {
    const NONE: Offer = Offer { at: NEVER, since: NEVER, slot: 0 };
}

#[derive(Clone, Debug)]
pub(super) struct Bank {
    pub(super) row: u64,
    /// Earliest next commands, by what this bank did.
    pub(super) activate: u64,
    pub(super) precharge: u64,
    pub(super) column: u64,
    /// Column commands since the row was opened.
    pub(super) hits: u32,
    /// Time at which it will have served all that came, if it serves one by one as they come, and
    /// the row that is open then.
    counted: u64,
    counted_row: u64,
    /// Index of its group in the channel.
    pub(super) group: u8,
    pub(super) rank: u8,
    len: u8,
    queue: [Queued; SLOTS],
    pub(super) read: Offer,
    pub(super) write: Offer,
    /// Offer of an activation, if no row is open, or else of a precharge.
    pub(super) other: Offer,
}

impl Bank {
    pub(super) fn new(group: u8, rank: u8) -> Bank {
        Bank {
            row: CLOSED,
            activate: 0,
            precharge: 0,
            column: 0,
            counted: 0,
            counted_row: CLOSED,
            hits: 0,
            group,
            rank,
            len: 0,
            queue: [Queued::default(); SLOTS],
            read: Offer::NONE,
            write: Offer::NONE,
            other: Offer::NONE,
        }
    }

    /// Requests that wait, oldest first.
    #[inline]
    pub(super) fn waiting(&self) -> &[Queued] {
        &self.queue[..usize::from(self.len)]
    }

    /// Counts a request that came at `at` for a row: when its data is there if the bank serves what
    /// comes one by one. So the counters of Strong 2013, Sec 2.3.4 count it, which do not know that
    /// columns of an open row overlap, nor what else waits for the channel. The clock of a command
    /// is the first one of the delay behind it.
    pub(super) fn count(&mut self, at: u64, row: u64, timing: &Timing) -> u64 {
        let open = match self.counted_row {
            open if open == row => 0,
            CLOSED => timing.t_rcd,
            _ => timing.t_rp + timing.t_rcd,
        };
        self.counted_row = row;
        self.counted = self.counted.max(at) + open + timing.t_cl + timing.burst;
        self.counted
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        usize::from(self.len) < SLOTS
    }

    #[inline]
    pub(super) fn push(&mut self, request: Queued) {
        debug_assert!(self.has_room(), "the channel looks for room before it gives a request");
        debug_assert!(
            self.waiting().last().is_none_or(|last| last.since < request.since),
            "requests enter a bank at clocks that grow, which are their ages"
        );
        self.queue[usize::from(self.len)] = request;
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u8) -> Queued {
        debug_assert!(slot < self.len, "a command was given for a request that the bank has not");
        let slot = usize::from(slot);
        let request = self.queue[slot];
        // Shifted, not swapped: the order of the slots is the age of the requests, which
        // first-ready first-come scheduling needs.
        self.queue.copy_within(slot + 1..usize::from(self.len), slot);
        self.len -= 1;
        request
    }

    /// Computes the commands that this bank would issue next, by its own timing alone.
    pub(super) fn offer(&mut self, hit_cap: u32) {
        (self.read, self.write, self.other) = (Offer::NONE, Offer::NONE, Offer::NONE);
        let Some(&oldest) = self.waiting().first() else { return };
        // A request cannot be served before it was in the bank's queue, even if the bank was free
        // earlier: offers are computed late, when something has changed.
        let earliest = |at: u64, slot: usize, request: &Queued| Offer {
            at: at.max(request.since),
            since: request.since,
            slot: slot as u8,
        };
        if self.row == CLOSED {
            self.other = earliest(self.activate, 0, &oldest);
            return;
        }
        // Of each kind the oldest of the open row; a write never overtakes a read of its line,
        // since it does not get here while one waits.
        let (row, column) = (self.row, self.column);
        let (mut read, mut write) = (Offer::NONE, Offer::NONE);
        for (slot, request) in self.waiting().iter().enumerate() {
            let kind = if request.write { &mut write } else { &mut read };
            if request.row == row && kind.at == NEVER {
                *kind = earliest(column, slot, request);
            }
        }
        let no_hits = read.at == NEVER && write.at == NEVER;
        (self.read, self.write) = (read, write);
        // An open row is closed when nothing in it is wanted, or when hits have passed the oldest
        // request too often (DRAMsim3 caps the hits of a row for the same reason).
        if oldest.row != row && (no_hits || self.hits >= hit_cap) {
            self.other = earliest(self.precharge, 0, &oldest);
        }
    }
}
