//! An out-of-order core, cycle by cycle, skipping cycles in which nothing can move.
//!
//! ```text
//!  front end ─▶ fetch ─▶ dispatch ─▶ window ─▶ issue ─▶ units, data cache ─▶ complete ─▶ commit
//!            ▲                                          │              store queue ─▶ cache
//!            └───────── mispredicted branch resolved ───┘
//! ```
//!
//! Sets of window slots are bit masks ([`slots`]): the oldest ready operation is the first bit from
//! the head's on, round and round. Who waits for a result is a list through the waiting slots.
//!
//! A cycle goes through the stages from the last to the first, so that what leaves a stage makes
//! room for what enters it a cycle later, and nothing passes two stages in one cycle.
//!
//! **Skipping.** If nothing moved in a cycle, nothing will until one of a few known things happens:
//! a result is due (the calendar), the front end's wait is over, a divider or a miss register is
//! free. The next cycle is the least of these, and the cycles between are charged to the reason
//! that held the oldest operation, which cannot change while nothing moves. If none of them is to
//! come, only an answer from outside helps, and the pipeline stalls.
//!
//! Assumptions: no wrong-path fetch (a mispredicted branch stops dispatch until it is resolved);
//! loads wait only for stores that they overlap; the front end tracks the stack pointer.

mod ahead;
mod calendar;
mod front;
mod issue;
mod memory;
mod retire;
mod slots;

use std::collections::VecDeque;

use halfwink_trace::Event;
use halfwink_units::Cycle;

use self::ahead::{Ahead, Block};
use self::calendar::Calendar;
use self::memory::{Forward, QueuedStore, FORWARD_ENTRIES};
use self::slots::SlotSet;
use super::pipeline::{Common, Pause, Stall, StallOn};
use crate::cpi_stack::Reason;
use crate::front_end::By;
use crate::machine::{CoreKind, CoreSpec, Window, MAX_WINDOW};
use crate::miss::UNKNOWN;
use crate::translation::{Page, Sizes};
use crate::uncore::Answer;
use crate::uop::{fold, Op, Unit, NO_REG, REGISTERS};

/// No slot, and no [`link`].
const NO_SLOT: u16 = u16::MAX;
/// Results that an operation can wait for: four sources, and the value of a store.
const WAITS: usize = 5;
/// Beyond the registers, the one that keeps branches in order where a core does.
const INSTRUCTION_POINTER: u8 = REGISTERS as u8;
/// Distance of a slot's links.
const LINKS: usize = 8;
/// Rare effects of an operation's completion, as bits.
mod rare {
    /// The front end turns around.
    pub(super) const MISPREDICTED: u8 = 1;
    /// The front end goes on.
    pub(super) const SERIALIZING: u8 = 2;
    /// A move has given the result to one more register.
    pub(super) const COPIED: u8 = 4;
}
const _: () = assert!(WAITS <= LINKS && MAX_WINDOW * LINKS < NO_SLOT as usize);

/// A pipeline of the smallest of these windows that it fits: the host's time grows with the masks.
pub(crate) type Narrow = OutOfOrder<2, 128>;
pub(crate) type Wide = OutOfOrder<8, 512>;
pub(crate) type Widest = OutOfOrder<16, MAX_WINDOW>;

/// Place where an issued load waits for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nowhere, or in a unit.
    Unit,
    /// Waits for the second level.
    L2,
    /// Waits for the shared levels, in this miss register.
    Outstanding(u8),
    /// Waits for a miss register.
    Register,
    /// Waits for the translation of its address.
    Translation,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The first that waits for this one's result: its slot, and which of its waits it is.
    dependents: u16,
    /// Next slot that waits for the same result, by wait of this one.
    links: [u16; WAITS],
    /// Results that this one waits for.
    pending: u8,
    /// Answers of the shared levels that a load still waits for.
    answers: u8,
    op: Op,
    results: [u8; 2],
    by: By,
    /// Rare effects of its completion: bits of [`rare`].
    rare: u8,
    /// A load whose data comes from the store queue.
    forwarded: bool,
    /// Optimisations of it on this core: bits of [`fold`].
    folds: u8,
    /// Register that a move has given its result to, if it is copied.
    copy: u8,
    waits: Waits,
    lines: [u64; 2],
}

const EMPTY: Slot = Slot {
    dependents: NO_SLOT,
    links: [NO_SLOT; WAITS],
    pending: 0,
    answers: 0,
    op: Op::Nop,
    results: [NO_REG; 2],
    by: By::new(0, false),
    rare: 0,
    forwarded: false,
    folds: 0,
    copy: NO_REG,
    waits: Waits::Unit,
    lines: [0; 2],
};

/// State of the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Running,
    /// Operations arrive from this cycle on.
    Until(Cycle),
    /// A mispredicted branch is in flight.
    Branch,
    /// A serializing operation is in flight.
    Serial,
    /// The line of the next instruction is with the shared levels.
    Fetch,
    /// No instruction miss register is free.
    FetchRegister,
    /// The translation of the next instruction's address is with the shared levels.
    Translating,
    /// The thread goes to another core, as soon as nothing is in flight.
    Leaving,
}

/// The pipeline, with a window of `N` slots in `W` words.
pub(crate) struct OutOfOrder<const W: usize, const N: usize> {
    pub(crate) common: Common,
    pub(crate) cycle: Cycle,
    window: Window,
    slots: Box<[Slot; N]>,
    /// Numbers of the oldest operation and of the next to come.
    head: u64,
    tail: u64,
    /// Operations that are completed but not committed.
    done: SlotSet<W>,
    /// Ready to issue: by unit, and divisions apart, whose units are busy for long.
    ready: [SlotSet<W>; 4],
    ready_divide: [SlotSet<W>; 2],
    /// Optimisations of this core: bits of [`fold`].
    folds: u8,
    /// Operations that may start in a cycle.
    starts: usize,
    has_split_fp: bool,
    /// Additions and multiplications of floating point, if their units are not all of them.
    ready_fp: [SlotSet<W>; 2],
    divide_free: [Cycle; 2],
    /// Loads that found no miss register.
    blocked: SlotSet<W>,
    /// Loads and stores that found no translation.
    untranslated: SlotSet<W>,
    /// Sizes of pages, and the pages of each load and store, if translation takes time.
    sizes: Option<Sizes>,
    pages: Box<[[Page; 2]]>,
    /// Loads that wait for an answer, by miss register of data.
    waiters: Box<[SlotSet<W>]>,
    producer: [u16; REGISTERS + 1],
    calendar: Calendar<N>,
    waiting_integer: usize,
    waiting_fp: usize,
    loads: usize,
    stores: Box<[QueuedStore; N]>,
    store_head: u64,
    store_committed: u64,
    store_tail: u64,
    /// The store in front has written its first line.
    store_half: bool,
    store_blocked: bool,
    forwards: Box<[Forward]>,
    front: Front,
    front_reason: Reason,
    /// Fetch, if it is ahead of dispatch.
    ahead: Option<Box<Ahead>>,
    /// Ends of requests, and the number of the operation behind the last of each.
    request_ends: VecDeque<(u64, Event)>,
    halt: Option<(u64, u64)>,
    ended: bool,
    /// Visits every cycle, whether or not anything can move; for tests.
    pub(crate) never_skip: bool,
}

impl<const W: usize, const N: usize> OutOfOrder<W, N> {
    pub(crate) fn new(common: Common) -> OutOfOrder<W, N> {
        const { assert!(N == W * u64::BITS as usize && N.is_power_of_two() && N <= MAX_WINDOW) };
        let CoreKind::OutOfOrder(window) = common.spec.kind else {
            unreachable!("the machine says which kind of core to build")
        };
        let sizes = common.private.translates().then(|| common.private.page_sizes());
        let no_forward = Forward { granule: u64::MAX, store: 0, sequence: 0 };
        let spec = common.spec;
        let folds = folds(&spec, common.front_end.turns().is_some());
        OutOfOrder {
            ahead: Ahead::new(common.fetch, common.private.l1i_latency()),
            waiters: vec![SlotSet::EMPTY; common.private.data_misses.registers()].into(),
            common,
            cycle: 0,
            window,
            slots: Box::new([EMPTY; N]),
            head: 0,
            tail: 0,
            done: SlotSet::EMPTY,
            ready: [SlotSet::EMPTY; 4],
            ready_divide: [SlotSet::EMPTY; 2],
            ready_fp: [SlotSet::EMPTY; 2],
            folds,
            starts: if spec.fusion { usize::MAX } else { spec.width },
            has_split_fp: spec.units.fp_add.or(spec.units.fp_multiply).is_some(),
            divide_free: [0; 2],
            blocked: SlotSet::EMPTY,
            untranslated: SlotSet::EMPTY,
            sizes,
            pages: vec![[Page::default(); 2]; N].into_boxed_slice(),
            producer: [NO_SLOT; REGISTERS + 1],
            calendar: Calendar::new(),
            waiting_integer: 0,
            waiting_fp: 0,
            loads: 0,
            stores: Box::new([QueuedStore::default(); N]),
            store_head: 0,
            store_committed: 0,
            store_tail: 0,
            store_half: false,
            store_blocked: false,
            forwards: vec![no_forward; FORWARD_ENTRIES * N].into_boxed_slice(),
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
        while self.cycle < until && self.common.private.lets_run() {
            let now = self.cycle;
            // Before everything else: operations may issue in the cycle in which their operands
            // come (full bypassing), and the oldest may retire in it.
            let mut done = self.calendar.take(now);
            while done != NO_SLOT {
                let n = usize::from(done);
                done = self.calendar.behind(n);
                self.complete(n, now);
            }
            // Loads that found no miss register try again together: the oldest wins, as it would
            // have if all had asked in every cycle.
            if !self.blocked.is_empty() && self.common.private.data_misses.has_free(now) {
                self.ready[Unit::Memory as usize].absorb(&mut self.blocked);
            }
            if self.common.private.go_on_walking(now) {
                self.try_again();
            }
            let committed = self.commit();
            if committed && !self.request_ends.is_empty() {
                self.end_requests(now);
            }
            // What holds the oldest operation is judged before this cycle's work moves it.
            let why = if committed { Why::Reason(Reason::Base) } else { self.why() };
            let kernel = self.kernel();
            // No short circuit: every stage has its turn. A completion that let none of them move
            // is no movement: what it changed beyond them, the front's wait, `next_cycle` knows.
            let moved = committed | self.drain_store(now) | self.issue(now) | self.dispatch(now);
            let moved = moved | self.fetch_ahead(now);
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
            // A line that was asked for in this very cycle may come before what is known: it must
            // be in the inbox first.
            let until = if self.common.private.lets_run() { until } else { now + 1 };
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

    /// Pauses the pipeline, as nothing moves any more at `now`.
    fn pause(&mut self, now: Cycle) -> Pause {
        // Only with all misses answered: nothing may arrive at a core that is halted, or at one
        // that another thread has taken over.
        let empty = self.head == self.tail && self.store_head == self.store_tail;
        if empty && self.common.private.is_quiet(now) {
            if let Some((from_ns, to_ns)) = self.halt.take() {
                self.common.front_end.pass_event();
                return Pause::Halted { at: now, from_ns, to_ns };
            }
            if self.front == Front::Leaving {
                return Pause::Left;
            }
            if self.ended {
                return Pause::Finished(now);
            }
        }
        let kernel = self.kernel();
        let on = match self.why() {
            _ if self.head == self.tail && self.front == Front::Fetch => StallOn::Fetch,
            Why::Reason(Reason::Fetch) => StallOn::Fetch,
            Why::Reason(Reason::Tlb) => StallOn::Tlb,
            _ if self.head == self.tail => StallOn::Store,
            _ => StallOn::Data,
        };
        Pause::Stalled(Stall { since: now, kernel, on })
    }

    /// Continues at `cycle` after a pause.
    pub(crate) fn resume(&mut self, cycle: Cycle) {
        // The calendar is a ring: what was due in a pause would come out of it at a wrong time.
        debug_assert!(
            cycle <= self.cycle || self.calendar.next(self.cycle) == UNKNOWN,
            "a pause with something due in it"
        );
        self.cycle = self.cycle.max(cycle);
    }

    /// A thread begins, or goes on, at cycle `cycle`; nothing is in flight.
    pub(crate) fn begin(&mut self, cycle: Cycle) {
        debug_assert!(
            self.head == self.tail && self.store_head == self.store_tail,
            "another thread's work is left"
        );
        (self.front, self.ended, self.halt) = (Front::Running, false, None);
        self.common.fetch_line = u64::MAX;
        if let Some(ahead) = &mut self.ahead {
            ahead.begin();
        }
        self.resume(cycle);
    }

    /// The shared levels deliver a line at cycle `at`; true if something can move now.
    pub(crate) fn answer(&mut self, answer: &Answer, at: Cycle) -> bool {
        let (line, by) = (answer.line, answer.by());
        let (data, instruction) = self.common.private.answer(line, answer.shared, at);
        self.common.line_comes(line, at);
        let mut front_moves = false;
        if let Some(miss) = data {
            let reason = StallOn::Data.reason(by);
            for (mode, cycles) in miss.waited.into_iter().enumerate() {
                self.common.active.add(mode == 1, reason, cycles);
            }
            let waiters = &mut self.waiters[usize::from(miss.register)];
            for n in std::mem::replace(waiters, SlotSet::EMPTY).iter() {
                let slot = &mut self.slots[n];
                debug_assert!(slot.op == Op::Load && slot.answers > 0, "who waits is a load");
                slot.answers -= 1;
                if slot.answers == 0 {
                    self.complete(n, at);
                } else if let Some(other) = self.waiters.iter().position(|set| set.contains(n)) {
                    // It is from two lines: the other one holds it now.
                    slot.waits = Waits::Outstanding(other as u8);
                }
            }
            // The answer has freed a register, for whoever found none.
            self.store_blocked = false;
            self.ready[Unit::Memory as usize].absorb(&mut self.blocked);
        }
        if let Some(miss) = instruction {
            for (mode, cycles) in miss.waited.into_iter().enumerate() {
                self.common.active.add(mode == 1, StallOn::Fetch.reason(by), cycles);
            }
            let arrived = match self.front {
                // It may be another line that fetch has asked for ahead.
                Front::Fetch => line == self.common.fetch_line,
                Front::FetchRegister => true,
                _ => false,
            };
            if arrived {
                // Behind it are the stages up to dispatch.
                self.front = match self.common.fetch.depth {
                    Some(depth) if self.front == Front::Fetch => Front::Until(at + depth),
                    _ => Front::Running,
                };
            }
            front_moves = self.line_arrived(line, at) || arrived;
        }
        self.can_move(at, front_moves)
    }

    /// True if something can move that could not before an answer.
    fn can_move(&mut self, at: Cycle, front_moves: bool) -> bool {
        let apart = self.ready_divide.iter().chain(&self.ready_fp);
        let ready = self.ready.iter().chain(apart).any(|set| !set.is_empty());
        let oldest_done = self.head < self.tail && self.done.contains(slot_of::<N>(self.head));
        let stores = self.store_head < self.store_committed && !self.store_blocked;
        let was_draining = self.waits_for_quiet() && self.head == self.tail;
        ready
            || oldest_done
            || stores
            || front_moves
            || was_draining && self.common.private.is_quiet(at)
            || self.common.private.can_walk()
    }

    #[inline]
    fn waits_for_quiet(&self) -> bool {
        self.halt.is_some() || self.ended || self.front == Front::Leaving
    }

    /// Privilege of the oldest operation, or of what comes next.
    #[inline]
    fn kernel(&mut self) -> bool {
        if self.head < self.tail {
            self.slots[slot_of::<N>(self.head)].by.kernel()
        } else {
            self.common.front_end.is_kernel()
        }
    }

    /// Returns the reason why the oldest operation does not commit.
    #[inline]
    fn why(&self) -> Why {
        // An empty window counts to what the front end waited for last, up to the cycle in which
        // it dispatches again. So does, for want of a better, one that stays empty because the
        // store queue is full; only the part of that which is a stall is told apart (`pause`).
        if self.head == self.tail {
            return match self.front {
                Front::Fetch | Front::FetchRegister => Why::Reason(Reason::Fetch),
                _ => Why::Reason(self.front_reason),
            };
        }
        match self.slots[slot_of::<N>(self.head)].waits {
            Waits::Unit => Why::Reason(Reason::Dependency),
            Waits::L2 => Why::Reason(Reason::L2),
            // Who will free one is not known yet.
            Waits::Register => Why::Reason(Reason::Memory),
            Waits::Translation => Why::Reason(Reason::Tlb),
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
        let mut next = self.calendar.next(now).min(self.common.private.next_translation(now));
        if let Front::Until(cycle) = self.front {
            if cycle > now && !self.ended {
                next = next.min(cycle);
            }
        }
        if let Some(gates) = &self.common.unit_gates {
            next = next.min(gates.next_ready(now));
        }
        let private = &self.common.private;
        let waits_for_quiet = self.waits_for_quiet();
        if !self.blocked.is_empty() || self.store_blocked || waits_for_quiet {
            next = next.min(private.data_misses.next_fill(now));
        }
        let block = self.ahead.as_ref().map_or(Block::No, |ahead| ahead.block);
        let asks = block == Block::Register;
        if let Block::Until(cycle) | Block::Turns(cycle) = block {
            next = next.min(cycle.max(now + 1));
        }
        if self.front == Front::FetchRegister || asks || waits_for_quiet {
            next = next.min(private.instruction_misses.next_fill(now));
        }
        for (ready, free) in self.ready_divide.iter().zip(self.divide_free) {
            if !ready.is_empty() {
                next = next.min(free.max(now + 1));
            }
        }
        next
    }
}

/// Returns what a core makes of operations: its optimisations, and locks where they matter.
fn folds(core: &CoreSpec, is_one_of_several: bool) -> u8 {
    let of = |is: bool, bit: u8| if is { bit } else { 0 };
    of(core.fusion, fold::JOINS)
        | of(core.move_elimination, fold::MOVES)
        | of(core.index > 0, fold::INDEXED)
        | of(is_one_of_several, fold::LOCKED)
}

/// Reason why a cycle passed without retiring an operation.
#[derive(Clone, Copy, Debug)]
enum Why {
    Reason(Reason),
    /// Waiting for data in this miss register; the reason shows when it is answered.
    Outstanding(u8),
}

/// The slot of the operation of this number.
#[inline]
fn slot_of<const N: usize>(number: u64) -> usize {
    number as usize % N
}

/// One of a slot's waits, in the list of who waits for the same.
#[inline]
fn link(slot: usize, wait: u8) -> u16 {
    (slot * LINKS) as u16 + u16::from(wait)
}
