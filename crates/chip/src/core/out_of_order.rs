//! An out-of-order core, cycle by cycle, skipping cycles in which nothing can move.
//!
//! ```text
//!  feed ─▶ fetch line ─▶ dispatch ─▶ window ─▶ issue ─▶ units / data cache ─▶ complete ─▶ commit
//!              ▲                                              │                  store queue ─▶ cache
//!              └────────── mispredicted branch resolved ──────┘
//! ```
//!
//! Sets of window slots are bit masks: the oldest ready operation is found by a rotation and a count
//! of zeros, and waking dependents is a walk over the set bits.
//!
//! Assumptions: no wrong-path fetch (a mispredicted branch stops dispatch until it is resolved);
//! loads wait only for stores that they overlap; the front end tracks the stack pointer.

use std::collections::VecDeque;

use halfwink_trace::{Branch, Event};
use halfwink_units::Cycle;

use super::pipeline::{Common, Pause, Stall, StallOn};
use crate::account::Reason;
use crate::feed::Head;
use crate::machine::{CoreKind, Window, MAX_WINDOW};
use crate::miss::UNKNOWN;
use crate::private::Access;
use crate::uncore::Level;
use crate::uop::{Op, Unit, Uop, NO_REG, REGISTERS};

/// Slots of the window; a power of two, at least [`MAX_WINDOW`].
const SLOTS: usize = 128;
const _: () = assert!(MAX_WINDOW <= SLOTS);
const NO_SLOT: u8 = u8::MAX;

/// Where a load that was issued waits for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nowhere, or in a unit.
    Unit,
    /// For the second level.
    L2,
    /// For the shared levels, in this miss register.
    Outstanding(u8),
    /// For a miss register.
    Register,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Slots that wait for this one's result.
    dependents: u128,
    /// Results that this one waits for.
    pending: u8,
    /// Answers of the shared levels that a load still waits for.
    answers: u8,
    op: Op,
    results: [u8; 2],
    kernel: bool,
    mispredicted: bool,
    serializing: bool,
    /// A load whose data comes from the store queue.
    forwarded: bool,
    waits: Waits,
    lines: [u64; 2],
}

const EMPTY: Slot = Slot {
    dependents: 0,
    pending: 0,
    answers: 0,
    op: Op::Nop,
    results: [NO_REG; 2],
    kernel: false,
    mispredicted: false,
    serializing: false,
    forwarded: false,
    waits: Waits::Unit,
    lines: [0; 2],
};

/// What the front end is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Running,
    /// Nothing arrives before this cycle.
    Until(Cycle),
    /// A mispredicted branch is in flight.
    Branch,
    /// A serializing operation is in flight.
    Serial,
    /// The line of the next instruction is with the shared levels.
    Fetch,
    /// No instruction miss register is free.
    FetchRegister,
}

#[derive(Clone, Copy, Debug)]
struct QueuedStore {
    lines: [u64; 2],
    kernel: bool,
}

/// Remembers which queued store last wrote each eight bytes.
#[derive(Clone, Copy, Debug)]
struct Forward {
    granule: u64,
    /// Number of the store, and of its window entry.
    store: u64,
    sequence: u64,
}

const FORWARD_ENTRIES: usize = 1024;

/// Completions by cycle, for latencies shorter than the ring.
#[derive(Debug)]
struct Calendar {
    slots: Box<[u128; RING]>,
    occupied: [u64; RING / 64],
}

const RING: usize = 256;

impl Calendar {
    fn new() -> Calendar {
        Calendar { slots: Box::new([0; RING]), occupied: [0; RING / 64] }
    }

    #[inline]
    fn add(&mut self, cycle: Cycle, slots: u128) {
        let n = cycle as usize % RING;
        self.slots[n] |= slots;
        self.occupied[n / 64] |= 1 << (n % 64);
    }

    #[inline]
    fn take(&mut self, cycle: Cycle) -> u128 {
        let n = cycle as usize % RING;
        self.occupied[n / 64] &= !(1 << (n % 64));
        std::mem::take(&mut self.slots[n])
    }

    /// The first cycle after `now` at which something completes, or [`UNKNOWN`].
    fn next(&self, now: Cycle) -> Cycle {
        let start = (now as usize + 1) % RING;
        let first = self.occupied[start / 64] >> (start % 64);
        if first != 0 {
            return now + 1 + Cycle::from(first.trailing_zeros());
        }
        let to_word_end = 64 - start % 64;
        for step in 0..RING / 64 {
            let word = (start / 64 + 1 + step) % (RING / 64);
            if self.occupied[word] != 0 {
                let distance = to_word_end + 64 * step;
                let found = self.occupied[word].trailing_zeros() as usize;
                return now + 1 + (distance + found) as Cycle;
            }
        }
        UNKNOWN
    }
}

/// The pipeline.
pub(crate) struct OutOfOrder {
    pub(crate) common: Common,
    pub(crate) cycle: Cycle,
    window: Window,
    slots: Box<[Slot; SLOTS]>,
    /// Numbers of the oldest operation and of the next to come.
    head: u64,
    tail: u64,
    /// Completed, not committed.
    done: u128,
    /// Ready to issue: by unit, and divisions apart, whose units are busy for long.
    ready: [u128; 4],
    ready_divide: [u128; 2],
    divide_free: [Cycle; 2],
    /// Loads that found no miss register.
    blocked: u128,
    producer: [u8; REGISTERS],
    calendar: Calendar,
    waiting_integer: usize,
    waiting_fp: usize,
    loads: usize,
    stores: Box<[QueuedStore; SLOTS]>,
    store_head: u64,
    store_committed: u64,
    store_tail: u64,
    /// The store in front has written its first line.
    store_half: bool,
    store_blocked: bool,
    forwards: Box<[Forward]>,
    front: Front,
    front_reason: Reason,
    /// Ends of requests, and the number of the operation behind the last of each.
    request_ends: VecDeque<(u64, Event)>,
    halt: Option<(u64, u64)>,
    ended: bool,
    /// For tests: visit every cycle, whether or not anything can move.
    pub(crate) never_skip: bool,
}

impl OutOfOrder {
    pub(crate) fn new(common: Common) -> OutOfOrder {
        let CoreKind::OutOfOrder(window) = common.spec.kind else {
            unreachable!("the machine says which kind of core to build")
        };
        let no_forward = Forward { granule: u64::MAX, store: 0, sequence: 0 };
        OutOfOrder {
            common,
            cycle: 0,
            window,
            slots: Box::new([EMPTY; SLOTS]),
            head: 0,
            tail: 0,
            done: 0,
            ready: [0; 4],
            ready_divide: [0; 2],
            divide_free: [0; 2],
            blocked: 0,
            producer: [NO_SLOT; REGISTERS],
            calendar: Calendar::new(),
            waiting_integer: 0,
            waiting_fp: 0,
            loads: 0,
            stores: Box::new([QueuedStore { lines: [0; 2], kernel: false }; SLOTS]),
            store_head: 0,
            store_committed: 0,
            store_tail: 0,
            store_half: false,
            store_blocked: false,
            forwards: vec![no_forward; FORWARD_ENTRIES].into_boxed_slice(),
            front: Front::Running,
            front_reason: Reason::Base,
            request_ends: VecDeque::new(),
            halt: None,
            ended: false,
            never_skip: false,
        }
    }

    /// Runs the cycles before `until`; less if a request to the shared levels is made.
    pub(crate) fn run(&mut self, until: Cycle) -> Pause {
        while self.cycle < until && self.common.private.requests.is_empty() {
            let now = self.cycle;
            let done = self.calendar.take(now);
            if done != 0 {
                self.complete(done, now);
            }
            if self.blocked != 0 && self.common.private.data_misses.has_free(now) {
                self.ready[Unit::Memory as usize] |= std::mem::take(&mut self.blocked);
            }
            let committed = self.commit();
            if committed && !self.request_ends.is_empty() {
                self.end_requests(now);
            }
            // What holds the oldest operation is judged before this cycle's work moves it.
            let why = if committed { Why::Reason(Reason::Base) } else { self.why() };
            let kernel = self.kernel();
            let moved = committed | self.drain_store(now) | self.issue(now) | self.dispatch(now);
            if moved || self.never_skip && self.next_cycle(now) != UNKNOWN {
                self.charge(why, kernel, 1);
                self.cycle = now + 1;
                continue;
            }
            let next = self.next_cycle(now);
            if next == UNKNOWN {
                return self.pause(now);
            }
            self.charge(why, kernel, 1);
            let next = next.min(until);
            if next > now + 1 {
                // From the next cycle on, the reason is what this one left.
                let (why, kernel) = (self.why(), self.kernel());
                self.charge(why, kernel, next - now - 1);
            }
            self.cycle = next;
        }
        Pause::Limit
    }

    /// Nothing moves any more at `now`.
    fn pause(&mut self, now: Cycle) -> Pause {
        let empty = self.head == self.tail && self.store_head == self.store_tail;
        if empty && self.common.private.is_quiet(now) {
            if let Some((from_ns, to_ns)) = self.halt.take() {
                self.common.feed.pass_event();
                return Pause::Halted { at: now, from_ns, to_ns };
            }
            if self.ended {
                return Pause::Finished(now);
            }
        }
        let kernel = self.kernel();
        let on = match self.why() {
            _ if self.head == self.tail && self.front == Front::Fetch => StallOn::Fetch,
            Why::Reason(Reason::Fetch) => StallOn::Fetch,
            _ if self.head == self.tail => StallOn::Store,
            _ => StallOn::Data,
        };
        Pause::Stalled(Stall { since: now, kernel, on })
    }

    /// Continues at `cycle` after a pause.
    pub(crate) fn resume(&mut self, cycle: Cycle) {
        self.cycle = self.cycle.max(cycle);
    }

    /// The shared levels deliver a line at cycle `at`; true if something can move now.
    pub(crate) fn answer(&mut self, line: u64, level: Level, at: Cycle) -> bool {
        let (data, instruction) = self.common.private.answer(line);
        let mut front_moves = false;
        if let Some(miss) = data {
            let reason = StallOn::Data.reason(level);
            for (mode, cycles) in miss.waited.into_iter().enumerate() {
                self.common.active.add(mode == 1, reason, cycles);
            }
            let mut arrived = 0;
            for n in bits(miss.waiters) {
                let slot = &mut self.slots[n];
                slot.answers -= 1;
                if slot.answers == 0 {
                    arrived |= 1 << n;
                } else if let Some(other) = self.common.private.data_misses.waited_by(n) {
                    slot.waits = Waits::Outstanding(other as u8);
                }
            }
            self.complete(arrived, at);
            self.store_blocked = false;
            self.ready[Unit::Memory as usize] |= std::mem::take(&mut self.blocked);
        }
        if let Some(miss) = instruction {
            for (mode, cycles) in miss.waited.into_iter().enumerate() {
                self.common.active.add(mode == 1, Reason::Fetch, cycles);
            }
            if matches!(self.front, Front::Fetch | Front::FetchRegister) {
                self.front = Front::Running;
                front_moves = true;
            }
        }
        self.can_move(at, front_moves)
    }

    /// True if something can move that could not before an answer.
    fn can_move(&mut self, at: Cycle, front_moves: bool) -> bool {
        let ready = self.ready.iter().chain(&self.ready_divide).any(|&mask| mask != 0);
        let oldest_done = self.head < self.tail && self.done & self.bit(self.head) != 0;
        let stores = self.store_head < self.store_committed && !self.store_blocked;
        let was_draining = (self.halt.is_some() || self.ended) && self.head == self.tail;
        ready
            || oldest_done
            || stores
            || front_moves
            || was_draining && self.common.private.is_quiet(at)
    }

    #[inline]
    fn bit(&self, number: u64) -> u128 {
        1 << (number as usize % SLOTS)
    }

    /// Privilege of the oldest operation, or of what comes next.
    #[inline]
    fn kernel(&mut self) -> bool {
        if self.head < self.tail {
            self.slots[self.head as usize % SLOTS].kernel
        } else {
            self.common.feed.is_kernel()
        }
    }

    /// What keeps the oldest operation from committing.
    #[inline]
    fn why(&self) -> Why {
        if self.head == self.tail {
            return match self.front {
                Front::Fetch | Front::FetchRegister => Why::Reason(Reason::Fetch),
                _ => Why::Reason(self.front_reason),
            };
        }
        match self.slots[self.head as usize % SLOTS].waits {
            Waits::Unit => Why::Reason(Reason::Dependency),
            Waits::L2 => Why::Reason(Reason::L2),
            Waits::Register => Why::Reason(Reason::Memory),
            Waits::Outstanding(n) => Why::Outstanding(n),
        }
    }

    #[inline]
    fn charge(&mut self, why: Why, kernel: bool, cycles: Cycle) {
        match why {
            Why::Reason(reason) => self.common.active.add(kernel, reason, cycles),
            Why::Outstanding(n) => {
                let miss = self.common.private.data_misses.get(usize::from(n));
                miss.waited[usize::from(kernel)] += cycles;
            }
        }
    }

    /// The next cycle at which something can happen without an answer, or [`UNKNOWN`].
    fn next_cycle(&mut self, now: Cycle) -> Cycle {
        let mut next = self.calendar.next(now);
        if let Front::Until(cycle) = self.front {
            if cycle > now && !self.ended {
                next = next.min(cycle);
            }
        }
        let private = &self.common.private;
        let waits_for_quiet = self.halt.is_some() || self.ended;
        if self.blocked != 0 || self.store_blocked || waits_for_quiet {
            next = next.min(private.data_misses.next_fill(now));
        }
        if self.front == Front::FetchRegister || waits_for_quiet {
            next = next.min(private.instruction_misses.next_fill(now));
        }
        for (ready, free) in self.ready_divide.iter().zip(self.divide_free) {
            if *ready != 0 {
                next = next.min(free.max(now + 1));
            }
        }
        next
    }

    /// Results of these slots are there.
    fn complete(&mut self, slots: u128, now: Cycle) {
        self.done |= slots;
        for n in bits(slots) {
            let slot = &mut self.slots[n];
            slot.waits = Waits::Unit;
            for register in slot.results {
                if self.producer[usize::from(register)] == n as u8 {
                    self.producer[usize::from(register)] = NO_SLOT;
                }
            }
            if slot.mispredicted {
                self.front = Front::Until(now + self.common.spec.refill);
                self.front_reason = Reason::Branch;
            }
            if slot.serializing {
                self.front = Front::Until(now + self.common.spec.refill);
                self.front_reason = Reason::System;
            }
            let dependents = std::mem::take(&mut slot.dependents);
            for d in bits(dependents) {
                let dependent = &mut self.slots[d];
                dependent.pending -= 1;
                if dependent.pending == 0 {
                    let op = dependent.op;
                    self.make_ready(op, d);
                }
            }
        }
    }

    #[inline]
    fn make_ready(&mut self, op: Op, n: usize) {
        let mask = match op {
            Op::Divide => &mut self.ready_divide[0],
            Op::FpDivide => &mut self.ready_divide[1],
            _ => match op.unit() {
                Some(unit) => &mut self.ready[unit as usize],
                // Occupies its place only.
                None => &mut self.done,
            },
        };
        *mask |= 1 << n;
    }

    /// Retires the oldest operations that are done.
    #[inline]
    fn commit(&mut self) -> bool {
        let before = self.head;
        let limit = self.tail.min(before + self.common.spec.width as u64);
        while self.head < limit {
            let bit = self.bit(self.head);
            if self.done & bit == 0 {
                break;
            }
            self.done &= !bit;
            match self.slots[self.head as usize % SLOTS].op {
                Op::Load => self.loads -= 1,
                Op::Store => self.store_committed += 1,
                _ => {}
            }
            self.head += 1;
        }
        self.head > before
    }

    /// Requests whose last operation has retired are complete.
    #[cold]
    fn end_requests(&mut self, now: Cycle) {
        while let Some(&(behind, event)) = self.request_ends.front() {
            if behind > self.head {
                return;
            }
            self.common.mark(&event, now);
            self.request_ends.pop_front();
        }
    }

    /// The oldest committed store writes the data cache.
    #[inline]
    fn drain_store(&mut self, now: Cycle) -> bool {
        self.store_blocked = false;
        if self.store_head == self.store_committed {
            return false;
        }
        let store = self.stores[self.store_head as usize % SLOTS];
        let [first, last] = store.lines;
        let private = &mut self.common.private;
        if !self.store_half && private.data(first, true, store.kernel, now) == Access::NoRegister {
            self.store_blocked = true;
            return false;
        }
        if last != first {
            self.store_half = true;
            if private.data(last, true, store.kernel, now) == Access::NoRegister {
                self.store_blocked = true;
                return false;
            }
        }
        self.store_half = false;
        self.store_head += 1;
        true
    }

    /// Starts the oldest ready operations, as many as there are units.
    #[inline]
    fn issue(&mut self, now: Cycle) -> bool {
        let units = self.common.spec.units;
        let mut budget = self.common.spec.width;
        let start = budget;
        for _ in 0..units.memory.min(budget) {
            let Some(n) = self.oldest(self.ready[Unit::Memory as usize]) else { break };
            self.ready[Unit::Memory as usize] &= !(1 << n);
            self.issue_memory(n, now);
            budget -= 1;
        }
        for (unit, count) in
            [(Unit::Alu, units.alu), (Unit::Multiply, units.multiply), (Unit::Fp, units.fp)]
        {
            for _ in 0..count.min(budget) {
                let Some(n) = self.oldest(self.ready[unit as usize]) else { break };
                self.ready[unit as usize] &= !(1 << n);
                self.start(n, now);
                budget -= 1;
            }
        }
        for which in 0..2 {
            if self.ready_divide[which] != 0 && self.divide_free[which] <= now && budget > 0 {
                let n = self.oldest(self.ready_divide[which]).expect("the mask is not empty");
                self.ready_divide[which] &= !(1 << n);
                self.divide_free[which] = self.start(n, now);
                budget -= 1;
            }
        }
        budget < start
    }

    /// The oldest slot of a set.
    #[inline]
    fn oldest(&self, mask: u128) -> Option<usize> {
        let shift = (self.head as usize % SLOTS) as u32;
        let rotated = mask.rotate_right(shift);
        (rotated != 0).then(|| (rotated.trailing_zeros() + shift) as usize % SLOTS)
    }

    /// Starts an operation in its unit and returns when its result is there.
    #[inline]
    fn start(&mut self, n: usize, now: Cycle) -> Cycle {
        let slot = &self.slots[n];
        let (op, kernel) = (slot.op, slot.kernel);
        let done = now + self.common.latency(op);
        self.calendar.add(done, 1 << n);
        self.common.count(op, kernel);
        match op.unit() {
            Some(Unit::Fp) => self.waiting_fp -= 1,
            _ => self.waiting_integer -= 1,
        }
        done
    }

    /// Starts a load or a store; a load without a miss register is put aside.
    #[inline]
    fn issue_memory(&mut self, n: usize, now: Cycle) {
        let Slot { op, forwarded, lines: [first, last], kernel, .. } = self.slots[n];
        if op == Op::Store || forwarded {
            self.start(n, now);
            return;
        }
        // A load from two lines starts only if both can miss.
        let blocked = first != last && self.common.private.data_misses.free(now) < 2;
        let mut ready = now + self.common.private.l1d_latency();
        if blocked || !self.read_line(n, first, kernel, now, &mut ready) {
            self.slots[n].waits = Waits::Register;
            self.blocked |= 1 << n;
            return;
        }
        if last != first {
            self.read_line(n, last, kernel, now, &mut ready);
        }
        self.common.count(Op::Load, kernel);
        self.waiting_integer -= 1;
        let hit = now + self.common.private.l1d_latency();
        let slot = &mut self.slots[n];
        if slot.answers == 0 {
            slot.waits = if ready > hit { Waits::L2 } else { Waits::Unit };
            self.calendar.add(ready, 1 << n);
        }
    }

    /// Reads one line for slot `n`; false if no miss register was free.
    #[inline]
    fn read_line(
        &mut self,
        n: usize,
        line: u64,
        kernel: bool,
        now: Cycle,
        ready: &mut Cycle,
    ) -> bool {
        match self.common.private.data(line, false, kernel, now) {
            Access::Hit => {}
            Access::At(cycle) => *ready = (*ready).max(cycle),
            Access::Outstanding(register) => {
                let miss = self.common.private.data_misses.get(register);
                if miss.waiters & 1 << n == 0 {
                    miss.waiters |= 1 << n;
                    self.slots[n].answers += 1;
                }
                self.slots[n].waits = Waits::Outstanding(register as u8);
            }
            Access::NoRegister => return false,
        }
        true
    }

    /// Takes operations from the feed into the window.
    #[inline]
    fn dispatch(&mut self, now: Cycle) -> bool {
        let before = self.tail;
        for _ in 0..self.common.spec.width {
            match self.front {
                Front::Running => {}
                Front::Until(cycle) if cycle <= now => self.front = Front::Running,
                Front::FetchRegister if self.common.private.instruction_misses.has_free(now) => {
                    self.front = Front::Running;
                }
                _ => break,
            }
            if !matches!(self.common.feed.head(), Head::Uop) && !self.events(now) {
                break;
            }
            if !self.dispatch_one(now) {
                break;
            }
        }
        self.tail > before
    }

    /// Deals with what lies between instructions; true if an operation comes next.
    #[cold]
    fn events(&mut self, now: Cycle) -> bool {
        loop {
            let empty = self.head == self.tail;
            match self.common.feed.head() {
                Head::Uop => return self.front == Front::Running,
                Head::End => {
                    self.ended = true;
                    return false;
                }
                Head::Event(Event::Idle { from_ns, to_ns }) => {
                    self.halt = Some((from_ns, to_ns));
                    return false;
                }
                Head::Event(Event::Interrupt { .. } | Event::Exception { .. }) => {
                    if !empty {
                        return false;
                    }
                    self.front = Front::Until(now + self.common.spec.syscall);
                    self.front_reason = Reason::System;
                }
                Head::Event(event @ Event::RequestEnd { .. }) if !empty => {
                    self.request_ends.push_back((self.tail, event));
                }
                Head::Event(event) => {
                    self.common.mark(&event, now);
                }
            }
            self.common.feed.pass_event();
        }
    }

    /// Dispatches the operation in front; false if it has to wait, or ends the group.
    #[inline]
    fn dispatch_one(&mut self, now: Cycle) -> bool {
        let uop = *self.common.feed.uop();
        if uop.new_line && !self.fetch(now) {
            return false;
        }
        if uop.serializing && self.head < self.tail {
            self.front_reason = Reason::System;
            return false;
        }
        if !self.has_room(&uop) {
            return false;
        }
        let n = self.tail as usize % SLOTS;
        self.enter(&uop, n);
        let mut goes_on = true;
        if uop.branch != Branch::None {
            let (right, taken) = self.common.branch(&uop);
            if !right {
                self.slots[n].mispredicted = true;
                self.front = Front::Branch;
                self.front_reason = Reason::Branch;
            }
            goes_on = right && !taken;
        }
        if uop.serializing {
            self.front = Front::Serial;
            self.front_reason = Reason::System;
            goes_on = false;
        }
        self.tail += 1;
        self.common.feed.pass_uop();
        goes_on
    }

    /// Makes sure that the instruction in front is there; false if its line is not.
    #[inline]
    fn fetch(&mut self, now: Cycle) -> bool {
        let line = self.common.feed.fetch_line();
        if line == self.common.fetch_line {
            return true;
        }
        let kernel = self.common.feed.run().kernel;
        self.front = match self.common.private.fetch(line, kernel, now) {
            Access::Hit => Front::Running,
            Access::At(cycle) => Front::Until(cycle),
            Access::Outstanding(_) => Front::Fetch,
            Access::NoRegister => {
                self.front = Front::FetchRegister;
                return false;
            }
        };
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

    /// Puts the operation into slot `n`.
    #[inline]
    fn enter(&mut self, uop: &Uop, n: usize) {
        let bit = 1u128 << n;
        let mut slot = Slot {
            op: uop.op,
            results: uop.results,
            kernel: self.common.feed.run().kernel,
            serializing: uop.serializing,
            ..EMPTY
        };
        for source in uop.sources {
            let producer = self.producer[usize::from(source)];
            if producer != NO_SLOT {
                let dependents = &mut self.slots[usize::from(producer)].dependents;
                slot.pending += u8::from(*dependents & bit == 0);
                *dependents |= bit;
            }
        }
        match uop.op {
            Op::Load => {
                self.loads += 1;
                self.waiting_integer += 1;
                let (first, last, byte) = self.common.feed.data_lines();
                slot.lines = [first, last];
                self.forward(byte, bit, &mut slot);
            }
            Op::Store => {
                self.waiting_integer += 1;
                self.enter_store(uop, slot.kernel);
            }
            Op::Vector | Op::FpAdd | Op::FpMultiply | Op::FpDivide => self.waiting_fp += 1,
            Op::Nop => {}
            _ => self.waiting_integer += 1,
        }
        for register in uop.results {
            if register != NO_REG {
                self.producer[usize::from(register)] = n as u8;
            }
        }
        let pending = slot.pending;
        self.slots[n] = slot;
        if pending == 0 {
            self.make_ready(uop.op, n);
        }
    }

    fn enter_store(&mut self, uop: &Uop, kernel: bool) {
        let (first, last, byte) = self.common.feed.data_lines();
        self.stores[self.store_tail as usize % SLOTS] =
            QueuedStore { lines: [first, last], kernel };
        let end = byte + u64::from(uop.size) - 1;
        for granule in (byte >> 3)..=(end >> 3) {
            self.forwards[granule as usize % FORWARD_ENTRIES] =
                Forward { granule, store: self.store_tail, sequence: self.tail };
        }
        self.store_tail += 1;
    }

    /// If a queued store writes what this load reads, the load takes it from there.
    #[inline]
    fn forward(&mut self, byte: u64, bit: u128, slot: &mut Slot) {
        let granule = byte >> 3;
        let entry = self.forwards[granule as usize % FORWARD_ENTRIES];
        if entry.granule != granule || entry.store < self.store_head {
            return;
        }
        slot.forwarded = true;
        let in_window = entry.sequence >= self.head;
        let store_bit = self.bit(entry.sequence);
        if in_window && self.done & store_bit == 0 {
            let dependents = &mut self.slots[entry.sequence as usize % SLOTS].dependents;
            slot.pending += u8::from(*dependents & bit == 0);
            *dependents |= bit;
        }
    }
}

/// Why a cycle passed without retiring anything.
#[derive(Clone, Copy, Debug)]
enum Why {
    Reason(Reason),
    /// Waiting for data in this miss register; the reason shows when it is answered.
    Outstanding(u8),
}

/// Numbers of the set bits, lowest first.
#[inline]
fn bits(mut mask: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let n = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            n
        })
    })
}
