//! From the front end into the window: dispatch.

use halfwink_trace::{Branch, Event};
use halfwink_units::Cycle;

use super::{link, rare, slot_of, Front, OutOfOrder, Slot, EMPTY, INSTRUCTION_POINTER, NO_SLOT};
use crate::branch::Guess;
use crate::cpi_stack::Reason;
use crate::front_end::Head;
use crate::miss::UNKNOWN;
use crate::os_cores::Crossed;
use crate::private::Access;
use crate::uop::{fold, Op, Uop, NO_REG};

impl<const W: usize, const N: usize> OutOfOrder<W, N> {
    /// Takes operations from the front end into the window.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Cycle) -> bool {
        let before = self.tail;
        let mut width = self.common.spec.width;
        let fuses = self.folds & fold::JOINS != 0;
        while width > 0 || fuses && self.common.front_end.next_joins() {
            match self.front {
                Front::Running => {}
                Front::Until(cycle) if cycle <= now => self.front = Front::Running,
                Front::FetchRegister if self.common.private.instruction_misses.has_free(now) => {
                    self.front = Front::Running;
                }
                _ => break,
            }
            // Events lie between instructions and take none of the width.
            if !matches!(self.common.front_end.head(), Head::Uop) && !self.events(now) {
                break;
            }
            if !self.dispatch_one(now) {
                break;
            }
            let last = slot_of::<N>(self.tail - 1);
            if !fuses || self.slots[last].folds & fold::JOINS == 0 {
                width -= 1;
            }
        }
        self.tail > before
    }

    /// Deals with what lies between instructions; true if an operation comes next.
    #[cold]
    fn events(&mut self, now: Cycle) -> bool {
        loop {
            let empty = self.head == self.tail;
            match self.common.front_end.head() {
                Head::Uop => return self.front == Front::Running,
                Head::End => {
                    self.ended = true;
                    return false;
                }
                Head::Event(Event::Idle { from_ns, to_ns }) => {
                    self.halt = Some((from_ns, to_ns));
                    return false;
                }
                Head::Crossing => {
                    match self.common.cross(now) {
                        Crossed::Stays(0) => {}
                        Crossed::Stays(cycles) => {
                            self.front = Front::Until(now + cycles);
                            self.front_reason = Reason::System;
                        }
                        Crossed::Asks => {
                            self.front = Front::Until(now + 1);
                            return false;
                        }
                        Crossed::Detaches => self.common.private.must_pause = true,
                        Crossed::Leaves => {
                            self.front = Front::Leaving;
                            self.front_reason = Reason::System;
                            return false;
                        }
                    }
                    continue;
                }
                Head::Starts(cycles) => {
                    self.front = Front::Until(now + cycles);
                    self.front_reason = Reason::Dependency;
                    self.common.front_end.pass_start();
                    return false;
                }
                Head::Event(Event::Interrupt { .. } | Event::Exception { .. }) => {
                    // Precise: it is taken when everything before it has retired.
                    if !empty {
                        return false;
                    }
                    self.front = Front::Until(now + self.common.spec.syscall);
                    self.front_reason = Reason::System;
                }
                // A request's begin counts when the front end meets it, its end when all work for
                // it has retired: a long miss at the end is part of its latency.
                Head::Event(event @ Event::RequestEnd { .. }) if !empty => {
                    self.request_ends.push_back((self.tail, event));
                }
                Head::Event(event) => {
                    self.common.mark(&event, now);
                }
            }
            self.common.front_end.pass_event();
        }
    }

    /// Dispatches the operation in front; false if it has to wait, or ends the group.
    #[inline]
    fn dispatch_one(&mut self, now: Cycle) -> bool {
        let uop = *self.common.front_end.uop();
        if uop.new_line && !self.fetch(now) {
            return false;
        }
        // An empty window, not an empty store queue: see the in-order core.
        if uop.serializing && self.head < self.tail {
            self.front_reason = Reason::System;
            return false;
        }
        if !self.has_room(&uop) {
            return false;
        }
        let n = slot_of::<N>(self.tail);
        self.enter(&uop, n);
        let mut goes_on = true;
        if uop.branch != Branch::None {
            let (guess, taken) = self.guess(&uop, now);
            match guess {
                Guess::Right => {}
                Guess::Redirected => {
                    self.front = Front::Until(now + self.common.redirect);
                    self.front_reason = Reason::Branch;
                }
                Guess::Wrong => {
                    self.slots[n].rare |= rare::MISPREDICTED;
                    self.front = Front::Branch;
                    self.front_reason = Reason::Branch;
                }
            }
            // What a taken branch leads to is in another line, or another part of it: the fetch of
            // a cycle ends here.
            goes_on = guess == Guess::Right && !taken;
        }
        if uop.serializing {
            self.front = Front::Serial;
            self.front_reason = Reason::System;
            goes_on = false;
        }
        self.tail += 1;
        self.common.front_end.pass_uop();
        goes_on
    }

    /// Makes sure that the instruction in front is there; false if its line is not.
    #[inline]
    fn fetch(&mut self, now: Cycle) -> bool {
        let line = self.common.front_end.fetch_line();
        if line == self.common.fetch_line || self.common.front_end.goes_on {
            return true;
        }
        if self.ahead.is_some() {
            return self.take_line(line, now);
        }
        let by = self.common.front_end.by(self.common.front_end.uop());
        let page = self.sizes.map(|sizes| self.common.front_end.fetch_page(sizes));
        if let Some(page) = page {
            if let Some(at) = self.common.private.translate([page; 2], true, by, now) {
                self.front = if at == UNKNOWN { Front::Translating } else { Front::Until(at) };
                self.front_reason = Reason::Tlb;
                return false;
            }
        }
        let work = &self.common.front_end.work;
        self.front = match self.common.private.fetch(line, by, now, work) {
            Access::Hit => Front::Running,
            Access::At(cycle) => Front::Until(cycle),
            Access::Outstanding(_) => Front::Fetch,
            // Nothing was asked for: the line is looked up again.
            Access::NoRegister => {
                self.front = Front::FetchRegister;
                return false;
            }
        };
        if let Some(page) = page {
            self.common.private.translated([page; 2], true, by.kernel());
        }
        // Also if it is still on the way: it counts as one access, and is there when the front goes
        // on.
        self.common.fetch_line = line;
        if self.front == Front::Running {
            return true;
        }
        self.front_reason = Reason::Fetch;
        false
    }

    #[inline]
    fn has_room(&self, uop: &Uop) -> bool {
        if self.tail - self.head >= self.window.reorder as u64 {
            return false;
        }
        match uop.op {
            Op::Nop => true,
            Op::Vector | Op::FpAdd | Op::FpMultiply | Op::FpDivide => {
                self.waiting_fp < self.window.fp
            }
            Op::Load => {
                self.loads < self.window.loads && self.waiting_integer < self.window.integer
            }
            Op::Store => {
                self.store_tail - self.store_head < self.common.spec.store_queue as u64
                    && self.waiting_integer < self.window.integer
            }
            _ => self.waiting_integer < self.window.integer,
        }
    }

    /// Makes slot `n` wait for the result of slot `producer`. Two waits for one result end at once,
    /// so they may count as two.
    #[inline]
    pub(super) fn wait_for(&mut self, producer: usize, n: usize, slot: &mut Slot) {
        debug_assert!(!self.done.contains(producer), "who is done wakes nobody any more");
        let first = &mut self.slots[producer % N].dependents;
        slot.links[usize::from(slot.pending)] = std::mem::replace(first, link(n, slot.pending));
        slot.pending += 1;
    }

    /// Gives the register that a move writes the result that the one that it reads has, or will
    /// have; false if that result has gone to another register already.
    fn rename(&mut self, uop: &Uop) -> bool {
        let [to, from] = [uop.results[0], uop.sources[0]].map(usize::from);
        let producer = self.producer[from];
        if producer != NO_SLOT {
            let slot = &mut self.slots[usize::from(producer) % N];
            if slot.rare & rare::COPIED != 0 {
                return false;
            }
            slot.rare |= rare::COPIED;
            slot.copy = to as u8;
        }
        self.producer[to] = producer;
        true
    }

    /// Puts the operation into slot `n`.
    #[inline]
    fn enter(&mut self, uop: &Uop, n: usize) {
        debug_assert!(!self.done.contains(n), "the slot's last operation has not committed");
        let mut slot = Slot {
            op: uop.op,
            results: uop.results,
            by: self.common.front_end.by(uop),
            rare: if uop.serializing { rare::SERIALIZING } else { 0 },
            folds: uop.folds & self.folds,
            ..EMPTY
        };
        if slot.folds & fold::MOVES != 0 && self.rename(uop) {
            slot.op = Op::Nop;
            self.slots[n] = slot;
            return self.make_ready(Op::Nop, n);
        }
        for source in uop.sources {
            let producer = self.producer[usize::from(source)];
            if producer != NO_SLOT {
                self.wait_for(usize::from(producer), n, &mut slot);
            }
        }
        if uop.op == Op::Branch && self.common.spec.branches_in_order {
            let before = self.producer[usize::from(INSTRUCTION_POINTER)];
            let reads = !matches!(uop.branch, Branch::Return | Branch::IndirectJump);
            if reads && before != NO_SLOT {
                self.wait_for(usize::from(before), n, &mut slot);
            }
            slot.results[1] = INSTRUCTION_POINTER;
        }
        if let (Some(sizes), Op::Load | Op::Store) = (self.sizes, uop.op) {
            self.pages[n] = self.common.front_end.data_pages(sizes);
        }
        match uop.op {
            Op::Load => {
                self.loads += 1;
                self.waiting_integer += 1;
                let (first, last, byte) = self.common.front_end.data_lines();
                slot.lines = [first, last];
                self.forward(byte, n, &mut slot);
            }
            Op::Store => {
                self.waiting_integer += 1;
                self.enter_store(uop, slot.by);
            }
            Op::Vector | Op::FpAdd | Op::FpMultiply | Op::FpDivide => self.waiting_fp += 1,
            Op::Nop => {}
            _ => self.waiting_integer += 1,
        }
        // After the sources: an operation may read what it writes. An earlier producer is simply
        // forgotten, which is all that renaming has to do here.
        for register in slot.results {
            if register != NO_REG {
                self.producer[usize::from(register)] = n as u16;
            }
        }
        let pending = slot.pending;
        self.slots[n] = slot;
        if pending == 0 {
            self.make_ready(uop.op, n);
        }
    }
}
