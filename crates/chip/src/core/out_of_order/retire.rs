//! Results, and the end of operations.

use halfwink_units::Cycle;

use super::{rare, slot_of, Front, OutOfOrder, Slot, Waits, LINKS, NO_SLOT};
use crate::cpi_stack::Reason;
use crate::uop::{fold, Op};

impl<const W: usize, const N: usize> OutOfOrder<W, N> {
    /// The result of a slot is there.
    #[inline]
    pub(super) fn complete(&mut self, n: usize, now: Cycle) {
        debug_assert!(!self.done.contains(n), "a result comes once");
        self.done.insert(n);
        let slot = &mut self.slots[n % N];
        slot.waits = Waits::Unit;
        for register in slot.results {
            // A later writer of the register may have taken it over.
            if self.producer[usize::from(register)] == n as u16 {
                self.producer[usize::from(register)] = NO_SLOT;
            }
        }
        let mut link = std::mem::replace(&mut slot.dependents, NO_SLOT);
        if slot.rare != 0 {
            self.complete_rare(n, now);
        }
        while link != NO_SLOT {
            let (d, wait) = (usize::from(link) / LINKS, usize::from(link) % LINKS);
            let dependent = &mut self.slots[d % N];
            link = dependent.links[wait];
            dependent.pending -= 1;
            if dependent.pending == 0 {
                let op = dependent.op;
                self.make_ready(op, d);
            }
        }
    }

    #[cold]
    fn complete_rare(&mut self, n: usize, now: Cycle) {
        let Slot { rare, copy, .. } = self.slots[n % N];
        if rare & rare::COPIED != 0 && self.producer[usize::from(copy)] == n as u16 {
            self.producer[usize::from(copy)] = NO_SLOT;
        }
        // When it is resolved, not when it retires: older misses do not hold the right path up.
        if rare & rare::MISPREDICTED != 0 {
            self.front = Front::Until(now + self.common.spec.refill);
            self.front_reason = Reason::Branch;
            if let Some(ahead) = &mut self.ahead {
                ahead.turn(now, now + self.common.spec.refill);
            }
        }
        if rare & rare::SERIALIZING != 0 {
            self.front = Front::Until(now + self.common.spec.refill);
            self.front_reason = Reason::System;
        }
    }

    /// Retires the oldest operations that are done.
    #[inline]
    pub(super) fn commit(&mut self) -> bool {
        let before = self.head;
        let limit = match self.folds & fold::JOINS {
            0 => self.tail.min(before + self.common.spec.width as u64),
            _ => self.behind_fused(),
        };
        while self.head < limit {
            let n = slot_of::<N>(self.head);
            if !self.done.contains(n) {
                break;
            }
            self.done.remove(n);
            let slot = &self.slots[n];
            debug_assert!(slot.pending == 0 && slot.answers == 0, "it retires with something due");
            match slot.op {
                Op::Load => self.loads -= 1,
                Op::Store => self.store_committed += 1,
                _ => {}
            }
            self.head += 1;
        }
        self.head > before
    }

    /// The operation behind as many macro-operations as may retire in a cycle.
    fn behind_fused(&self) -> u64 {
        let mut left = self.common.spec.width;
        let takes = |n: u64| usize::from(self.slots[slot_of::<N>(n)].folds & fold::JOINS == 0);
        let mut limit = self.head;
        while limit < self.tail && takes(limit) <= left {
            left -= takes(limit);
            limit += 1;
        }
        limit
    }

    /// Requests whose last operation has retired are complete.
    #[cold]
    pub(super) fn end_requests(&mut self, now: Cycle) {
        while let Some(&(behind, event)) = self.request_ends.front() {
            if behind > self.head {
                return;
            }
            self.common.mark(&event, now);
            self.request_ends.pop_front();
        }
    }
}
