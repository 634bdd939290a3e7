// SPDX-License-Identifier: GPL-2.0-or-later
//! From QEMU's callbacks to the trace: which instructions of the window retired, in which thread.
//!
//! QEMU reports that a block *begins*; that it was executed shows when its thread goes on. So each
//! thread has one block in flight, with the accesses so far.

use halfwink_capture_stream::batch::{Batch, Item, Timed};
use halfwink_capture_stream::block::{Definition, Exit};
use halfwink_capture_stream::blocks::Blocks;
use halfwink_trace::{decode_block, Address, Event, InstrFlags, RawAccess, SAMPLE_MARK};
use halfwink_units::{Asid, PhysAddr, VirtAddr};

use crate::ffi::Direction;
use crate::report::Counts;
use crate::samples::Samples;

/// The one address space.
const SPACE: Asid = Asid(1);
/// TCG splits longer accesses into some of this size.
const WORD: u8 = 8;
/// Largest access of an instruction.
const LARGEST: u8 = 64;

/// A block that began to execute, with a copy of what its end needs.
#[derive(Clone, Copy, Debug)]
struct Flight {
    block: u32,
    pc: u64,
    end: u64,
    exit: Exit,
    count: u16,
    defined: bool,
}

/// A thread of the program.
#[derive(Debug)]
pub struct Thread {
    number: u16,
    flight: Option<Flight>,
    accesses: Vec<RawAccess>,
    after: Vec<Event>,
}

impl Thread {
    /// Creates a thread that has executed nothing.
    #[must_use]
    pub fn new(number: u16) -> Thread {
        Thread { number, flight: None, accesses: Vec::new(), after: Vec::new() }
    }

    /// Adds an access of an instruction of `block`.
    ///
    /// QEMU 7.2 also calls back for what it does itself between two blocks, when it saves or
    /// restores registers for a signal, and then names an instruction of a block before.
    #[inline]
    pub fn access(&mut self, block: u32, instr: u16, virt: u64, size: u8, direction: Direction) {
        if self.flight.is_none_or(|flight| flight.block != block) {
            return;
        }
        if direction == Direction::Both {
            self.push(instr, virt, size, false);
        }
        self.push(instr, virt, size, direction != Direction::Load);
    }

    #[inline]
    fn push(&mut self, instr: u16, virt: u64, size: u8, write: bool) {
        if let Some(last) = self.accesses.last_mut().filter(|_| size == WORD) {
            // The next part of a vector register.
            let follows = last.address.virt.0.wrapping_add(last.size.into()) == virt;
            let same = last.instr == instr && last.write == write;
            if follows && same && last.size % WORD == 0 && last.size < LARGEST {
                last.size += WORD;
                return;
            }
        }
        // There are no physical addresses: the memory looks as if it lay in one piece.
        let address = Address { virt: VirtAddr(virt), phys: PhysAddr(virt) };
        self.accesses.push(RawAccess { instr, size, write, address });
    }

    /// Adds an event behind the block in flight.
    pub fn event(&mut self, event: Event) {
        self.after.push(event);
    }
}

/// Repeated string instructions of a block: QEMU executes each iteration as a block.
#[derive(Clone, Copy, Debug)]
struct Repeats {
    first: bool,
    last: Option<u64>,
}

/// Recorder that builds the trace.
#[derive(Debug)]
pub struct Recorder {
    blocks: Blocks,
    repeats: Vec<Repeats>,
    batch: Batch,
    skip: u64,
    stop: u64,
    /// Samples of what lies between, rather than all of it.
    samples: Option<Samples>,
    /// Accesses are noted, so that a sample may begin.
    watching: bool,
    /// Instructions that were executed.
    position: u64,
    /// Address of the repeated instruction in which the last block ended.
    repeating: Option<u64>,
    shown: Option<u16>,
    /// Counts for the report.
    pub counts: Counts,
}

impl Recorder {
    /// Creates a recorder of `limit` instructions behind the first `skip`.
    #[must_use]
    pub fn new(skip: u64, limit: u64) -> Recorder {
        Recorder {
            blocks: Blocks::default(),
            repeats: Vec::new(),
            batch: Batch::default(),
            skip,
            stop: skip.saturating_add(limit),
            samples: None,
            watching: true,
            position: 0,
            repeating: None,
            shown: None,
            counts: Counts::default(),
        }
    }

    /// Makes it record samples of that window rather than all of it.
    #[must_use]
    pub fn sampling(self, samples: Option<Samples>) -> Recorder {
        Recorder { samples, ..self }
    }

    /// The samples, if there are any.
    #[must_use]
    pub fn samples(&self) -> Option<&Samples> {
        self.samples.as_ref()
    }

    /// Says whether accesses are noted.
    pub fn watch(&mut self, watching: bool) {
        self.watching = watching;
    }

    /// Instructions until accesses have to be noted; none where they have to be now.
    #[must_use]
    pub fn distance(&self) -> u64 {
        let to_window = self.skip.saturating_sub(self.position);
        let in_window = self.position.saturating_sub(self.skip);
        to_window + self.samples.as_ref().map_or(0, |samples| samples.distance(in_window))
    }

    /// Number of instructions that the program executed.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of instructions of the window that were executed.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.position.saturating_sub(self.skip)
    }

    /// Returns whether the window is complete.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.position >= self.stop
    }

    /// The number of a block, new or known.
    pub fn intern(&mut self, definition: Definition) -> u32 {
        let mut instrs = Vec::new();
        let number = self.blocks.intern(definition.clone()) as usize;
        if number == self.repeats.len() {
            let Definition { pc, bytes, lengths, .. } = &definition;
            decode_block(VirtAddr(*pc), bytes, lengths, &mut instrs);
            let repeats = |flags: InstrFlags| flags.has(InstrFlags::REP);
            self.repeats.push(Repeats {
                first: instrs.first().is_some_and(|instr| repeats(instr.flags)),
                last: instrs
                    .last()
                    .filter(|instr| repeats(instr.flags))
                    .map(|instr| pc + u64::from(instr.offset)),
            });
        }
        number as u32
    }

    /// A block begins in a thread, and the one before is over. Returns how many instructions that
    /// one was.
    #[inline]
    pub fn block(&mut self, thread: &mut Thread, block: u32) -> u64 {
        let info = self.blocks.info(block);
        let (pc, end, exit, count) = (info.pc, info.end, info.exit, info.count);
        let next = Flight { block, pc, end, exit, count, defined: info.defined };
        let executed = self.land(thread, Some((pc, count)));
        thread.flight = Some(next);
        thread.accesses.clear();
        executed
    }

    /// The block in flight is over: a block begins at the address `next`, with so many
    /// instructions, or the thread makes a system call. Returns how many instructions it was.
    #[inline]
    pub fn land(&mut self, thread: &mut Thread, next: Option<(u64, u16)>) -> u64 {
        let Some(flight) = thread.flight.take() else { return 0 };
        let mut executed = flight.count;
        if let Some((pc, count)) = next {
            if count == 1 || !flight.exit.leads_to(flight.end, pc) {
                executed = self.elsewhere(flight, pc, count);
            }
        }
        self.settle(thread, flight, executed)
    }

    /// The block in flight is over before its instruction number `executed`.
    pub fn cut(&mut self, thread: &mut Thread, executed: u16) {
        if let Some(flight) = thread.flight.take() {
            self.settle(thread, flight, executed.min(flight.count));
        }
    }

    /// Returns how many instructions of a block were executed before the block at `pc`, with
    /// `count` instructions, which may not follow it.
    ///
    /// QEMU interrupts a block that changes its own code at the instruction that does, and executes
    /// that one once more, alone: it may be the first of the block, to which the last may lead,
    /// too. Anything else that the code does not explain is the delivery of a signal, before which
    /// the block is taken to be complete.
    #[cold]
    fn elsewhere(&mut self, flight: Flight, pc: u64, count: u16) -> u16 {
        let leads = flight.exit.leads_to(flight.end, pc);
        match self.blocks.info(flight.block).index_of(pc) {
            Some(again) if !leads || (count == 1 && again + 1 < flight.count) => again,
            again => {
                self.counts.signals += u64::from(!leads && again.is_none());
                flight.count
            }
        }
    }

    #[inline]
    fn settle(&mut self, thread: &mut Thread, flight: Flight, executed: u16) -> u64 {
        let repeats = self.repeats[flight.block as usize];
        let repeat = repeats.first && self.repeating == Some(flight.pc) && executed > 0;
        self.repeating = repeats.last.filter(|_| executed == flight.count);
        let counted = u64::from(executed) - u64::from(repeat);
        let before = self.position;
        self.position += counted;
        if self.samples.is_some() {
            self.settle_in_sample(thread, flight, executed, (before, repeat));
            thread.after.clear();
            return counted;
        }
        let whole = before >= self.skip && self.position <= self.stop && executed == flight.count;
        if whole && !(repeat && self.shown.is_none()) {
            self.emit(thread, flight.block, flight.defined, executed);
        } else {
            self.emit_part(thread, flight, executed, before, repeat);
        }
        thread.after.clear();
        counted
    }

    /// Records a block if it lies in a sample: whole, so that samples are longer or shorter than
    /// they should be by less than a block.
    fn settle_in_sample(
        &mut self,
        thread: &mut Thread,
        flight: Flight,
        executed: u16,
        (before, repeat): (u64, bool),
    ) {
        let Some(samples) = &mut self.samples else { return };
        let Some(at) = before.checked_sub(self.skip).filter(|_| before < self.stop) else { return };
        if !samples.holds(at) {
            // A further iteration belongs to the instruction before.
            let begin = (self.watching && !repeat).then(|| samples.begin(at)).flatten();
            let Some(begin) = begin else { return };
            self.batch.event(Timed::Plain(Event::Mark { code: SAMPLE_MARK, arg: begin }));
        }
        if executed < flight.count {
            thread.accesses.retain(|access| access.instr < executed);
        }
        if executed > 0 {
            self.emit(thread, flight.block, flight.defined, executed);
        }
    }

    /// Records the part of a block that lies in the window.
    #[cold]
    fn emit_part(
        &mut self,
        thread: &mut Thread,
        flight: Flight,
        executed: u16,
        before: u64,
        repeat: bool,
    ) {
        // A further iteration has no place of its own: it belongs to the instruction before.
        let missing = self.skip.saturating_sub(before) + u64::from(repeat);
        let first = if before < self.skip || self.shown.is_none() { missing } else { 0 };
        let beyond = self.position.saturating_sub(self.stop);
        let end = u64::from(executed).saturating_sub(beyond);
        if first >= end {
            return;
        }
        let (first, end) = (first as u16, end as u16);
        thread.accesses.retain(|access| (first..end).contains(&access.instr));
        if first == 0 {
            return self.emit(thread, flight.block, flight.defined, end);
        }
        for access in &mut thread.accesses {
            access.instr -= first;
        }
        let rest = self.blocks.definition(flight.block).from_instruction(first);
        let block = self.intern(rest);
        self.emit(thread, block, false, end - first);
    }

    #[inline]
    fn emit(&mut self, thread: &mut Thread, block: u32, defined: bool, executed: u16) {
        if self.shown != Some(thread.number) {
            self.show(thread.number);
        }
        if !defined {
            if let Some(definition) = self.blocks.take_definition(block) {
                self.batch.items.push(Item::Define);
                self.batch.definitions.push((block, definition));
            }
        }
        self.batch.accesses.extend_from_slice(&thread.accesses);
        let accesses = thread.accesses.len() as u16;
        self.batch.items.push(Item::Run { block, executed, accesses });
        for event in thread.after.drain(..) {
            self.batch.event(Timed::Plain(event));
        }
    }

    #[cold]
    fn show(&mut self, number: u16) {
        let first = self.shown.is_none();
        self.batch.event(Timed::Plain(Event::Cpu(number)));
        if first {
            self.batch.event(Timed::Plain(Event::AddressSpace(SPACE)));
        }
        self.shown = Some(number);
    }

    /// Records a system call, behind the block that ended with it.
    pub fn system_call(&mut self, thread: &Thread, number: u32, args: [u64; 6]) {
        let left_out = self.samples.as_ref().is_some_and(|samples| !samples.is_open());
        if self.shown != Some(thread.number) || self.is_over() || left_out {
            return;
        }
        self.counts.system_calls += 1;
        self.batch.event(Timed::Plain(Event::Syscall { number, args }));
    }

    /// Returns the batch to be written.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }
}

#[cfg(test)]
mod tests;
