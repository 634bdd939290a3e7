//! Loads, stores, and values that pass from one to the other.

use halfwink_units::Cycle;

use super::{slot_of, Front, OutOfOrder, Slot, Waits};
use crate::front_end::By;
use crate::private::Access;
use crate::threads::NO_POST;
use crate::uop::{fold, Op, Unit, Uop};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueuedStore {
    lines: [u64; 2],
    by: By,
    /// The store is an atomic instruction's, whose load has taken the line.
    is_locked: bool,
    /// Number of the post that the store is, if other threads wait for it, or [`NO_POST`].
    post: u32,
}

/// Remembers which queued store last wrote each eight bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forward {
    pub(super) granule: u64,
    /// Number of the store, and of its window entry.
    pub(super) store: u64,
    pub(super) sequence: u64,
}

/// Entries of a direct-mapped table for each of the longest store queue: a store that another one's
/// granule displaces forwards nothing, and its loads go to the cache.
pub(super) const FORWARD_ENTRIES: usize = 8;

impl<const W: usize, const N: usize> OutOfOrder<W, N> {
    /// The oldest committed store writes the data cache.
    #[inline]
    pub(super) fn drain_store(&mut self, now: Cycle) -> bool {
        debug_assert!(
            self.store_head <= self.store_committed && self.store_committed <= self.store_tail,
            "a store is dispatched, commits, and writes"
        );
        // Asked again each cycle: a register with a known fill frees itself (`next_cycle`).
        self.store_blocked = false;
        if self.store_head == self.store_committed {
            return false;
        }
        let store = self.stores[slot_of::<N>(self.store_head)];
        let [first, last] = store.lines;
        let by = (store.by, store.is_locked);
        let mut write = |line| self.common.private.write(line, by, now);
        let mut access = Access::Hit;
        if !self.store_half {
            access = write(first);
        }
        if last != first && access != Access::NoRegister {
            self.store_half = true;
            access = write(last);
        }
        if access == Access::NoRegister {
            self.store_blocked = true;
            return false;
        }
        if store.post != NO_POST {
            self.common.post(store.post, last, access, now);
        }
        self.store_half = false;
        self.store_head += 1;
        true
    }

    /// Starts a load or a store; a load without a miss register is put aside.
    #[inline]
    pub(super) fn issue_memory(&mut self, n: usize, now: Cycle) {
        let Slot { op, forwarded, folds, lines: [first, last], by, .. } = self.slots[n];
        let pages = self.sizes.map(|_| self.pages[n]);
        if let Some(pages) = pages {
            if self.common.private.translate(pages, false, by, now).is_some() {
                self.slots[n].waits = Waits::Translation;
                self.untranslated.insert(n);
                return;
            }
        }
        // A store only brings address and value to its queue; the cache hears of it when it has
        // committed, since until then it may not have happened.
        if op == Op::Store || forwarded {
            if let Some(pages) = pages {
                self.slots[n].waits = Waits::Unit;
                self.common.private.translated(pages, false, by.kernel());
            }
            self.start(n, now);
            return;
        }
        // A load from two lines starts only if both can miss: half of it could not be taken back.
        let blocked = first != last && self.common.private.data_misses.free(now) < 2;
        let index = if folds & fold::INDEXED != 0 { self.common.spec.index } else { 0 };
        let hit = now + self.common.private.l1d_latency() + index;
        let mut ready = hit;
        if blocked || !self.read_line(n, first, by, now, &mut ready) {
            self.slots[n].waits = Waits::Register;
            self.blocked.insert(n);
            return;
        }
        if last != first {
            let is_read = self.read_line(n, last, by, now, &mut ready);
            debug_assert!(is_read, "half of a load is under way");
        }
        if let Some(pages) = pages {
            self.common.private.translated(pages, false, by.kernel());
        }
        // Only here does it leave the queue: one that was put aside keeps its place there.
        self.waiting_integer -= 1;
        let slot = &mut self.slots[n];
        // Answers complete it, if it waits for any. Assumption: what comes from the second level
        // for its other line is there by then; it need not be if the miss is an older one.
        if slot.answers == 0 {
            slot.waits = if ready > hit { Waits::L2 } else { Waits::Unit };
            self.calendar.add(now, ready, n);
        }
    }

    /// Retries the operations that found no translation.
    #[cold]
    pub(super) fn try_again(&mut self) {
        self.ready[Unit::Memory as usize].absorb(&mut self.untranslated);
        if self.front == Front::Translating {
            self.front = Front::Running;
        }
    }

    /// Reads one line for slot `n`; false if no miss register was free.
    #[inline]
    fn read_line(&mut self, n: usize, line: u64, by: By, now: Cycle, ready: &mut Cycle) -> bool {
        let work = &self.common.front_end.work;
        let locks = self.slots[n].folds & fold::LOCKED != 0;
        match self.common.private.read(line, (by, locks), now, work) {
            Access::Hit => {}
            Access::At(cycle) => *ready = (*ready).max(cycle),
            Access::Outstanding(register) => {
                let waiters = &mut self.waiters[register];
                if !waiters.contains(n) {
                    waiters.insert(n);
                    self.slots[n].answers += 1;
                }
                self.slots[n].waits = Waits::Outstanding(register as u8);
            }
            Access::NoRegister => return false,
        }
        true
    }

    pub(super) fn enter_store(&mut self, uop: &Uop, by: By) {
        let (first, last, byte) = self.common.front_end.data_lines();
        let is_locked = uop.folds & self.folds & fold::LOCKED != 0;
        let post = self.common.front_end.post_of(uop.access);
        self.stores[slot_of::<N>(self.store_tail)] =
            QueuedStore { lines: [first, last], by, is_locked, post };
        let end = byte + u64::from(uop.size) - 1;
        // The trace knows addresses before the core does: a load never passes an older store that
        // it overlaps, so none has to be squashed and replayed.
        for granule in (byte >> 3)..=(end >> 3) {
            self.forwards[granule as usize % (FORWARD_ENTRIES * N)] =
                Forward { granule, store: self.store_tail, sequence: self.tail };
        }
        self.store_tail += 1;
    }

    /// Forwards a queued store's data to a load that reads it.
    ///
    /// Assumption: the aligned eight bytes of the load's first byte decide, whether or not the
    /// store covers all that is read. To compare bytes, each load would have to search the queue.
    #[inline]
    pub(super) fn forward(&mut self, byte: u64, n: usize, slot: &mut Slot) {
        let granule = byte >> 3;
        let entry = self.forwards[granule as usize % (FORWARD_ENTRIES * N)];
        // Entries are never taken out: one whose store has written the cache says so by its number.
        if entry.granule != granule || entry.store < self.store_head {
            return;
        }
        // An atomic instruction takes the line itself, behind the store.
        slot.forwarded = slot.folds & fold::LOCKED == 0;
        let store = slot_of::<N>(entry.sequence);
        if entry.sequence >= self.head && !self.done.contains(store) {
            self.wait_for(store, n, slot);
        }
    }
}
