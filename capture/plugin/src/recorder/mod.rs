// SPDX-License-Identifier: GPL-2.0-or-later
//! From QEMU's callbacks to the trace: which instructions retired on the recorded CPU, when, and
//! what happened between them.
//!
//! QEMU reports that a block *begins*; how far it came shows when the same CPU begins the next
//! one. So each CPU has one block in flight, and what belongs behind it waits in `after`.

use halfwink_trace::{Address, Event, RawAccess};
use halfwink_units::{PhysAddr, VirtAddr};

use crate::batch::{Batch, Item, Timed};
use crate::block::{BlockInfo, Last, Retired};
use crate::blocks::Blocks;
use crate::clock::{Clock, Stamp};
use crate::events::{asid_of, event_of};
use crate::idt::Entry;
use crate::report::RecorderReport;

mod flight;
#[cfg(test)]
mod tests;

pub use flight::Arrival;
use flight::{Cpu, Flight};

/// A batch is handed over when it holds so many items.
const BATCH_ITEMS: usize = 1 << 16;
/// Times are guessed when so many items wait for a reading of the clock.
const OPEN_ITEMS: usize = 1 << 20;
/// Kept examples of unexplained continuations.
const EXAMPLES: usize = 10;

/// Recorder that builds the trace.
pub struct Recorder {
    cpu: usize,
    cpus: Vec<Cpu>,
    clock: Clock,
    batch: Batch,
    /// Accesses in the batch before those of the block in flight.
    accesses_before: usize,
    /// Events behind the recorded CPU's block in flight.
    after: Vec<Timed>,
    halted_at: Option<Stamp>,
    started_at: Option<Stamp>,
    started: bool,
    /// Counts the recorded CPU's switches of address space.
    turn: u64,
    recorded: u64,
    report: RecorderReport,
    began: Option<std::time::Instant>,
}

impl Recorder {
    /// A recorder for CPU number `cpu` of `cpus`.
    #[must_use]
    pub fn new(cpu: u32, cpus: u32) -> Recorder {
        Recorder {
            cpu: cpu as usize,
            cpus: vec![Cpu::default(); cpus as usize],
            clock: Clock::default(),
            batch: Batch::default(),
            accesses_before: 0,
            after: Vec::new(),
            halted_at: None,
            started_at: None,
            started: false,
            turn: 0,
            recorded: 0,
            report: RecorderReport::default(),
            began: None,
        }
    }

    /// Instructions recorded so far, each iteration of a repeated one counted.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.recorded
    }

    /// True if this is the recorded CPU.
    #[inline]
    #[must_use]
    pub fn records(&self, cpu: usize) -> bool {
        cpu == self.cpu
    }

    /// The first thing that happens on the recorded CPU: its page tables are these.
    pub fn start(&mut self, cr3: u64) {
        self.started = true;
        self.began = Some(std::time::Instant::now());
        self.batch.event(Timed::Plain(Event::Cpu(self.cpu as u16)));
        self.batch.event(Timed::Plain(Event::AddressSpace(asid_of(cr3))));
        self.started_at = Some(self.clock.now());
    }

    /// The recorded CPU switches page tables, at the end of its block in flight.
    pub fn switch(&mut self, cr3: u64) {
        self.turn += 1;
        self.event(Timed::Plain(Event::AddressSpace(asid_of(cr3))));
    }

    /// Changes with every switch of the recorded CPU's page tables.
    #[inline]
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// True once [`Recorder::start`] was called.
    #[inline]
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// A block begins on a CPU.
    #[inline]
    pub fn block(
        &mut self,
        blocks: &mut Blocks,
        cpu: usize,
        block: u32,
        home: u32,
        arrival: Arrival,
    ) {
        let info = blocks.info(block);
        let (pc, count, last) = (info.pc, info.count, info.last);
        let mut next = Flight::new(block, home, info);
        if let Some(time) = arrival.time {
            self.read_time(cpu, time);
        }
        if let Some(flight) = self.cpus[cpu].flight.take() {
            self.land(blocks, cpu, flight, pc, arrival.entry);
        }
        if self.cpus[cpu].halted {
            self.wake(cpu);
        }
        let stolen = if self.records(cpu) {
            if let Some(entry) = arrival.entry {
                self.batch.event(Timed::Plain(event_of(entry)));
            }
            self.accesses_before = self.batch.accesses.len();
            false
        } else {
            self.report.other_instructions += u64::from(count);
            self.started && !self.cpus[self.cpu].halted
        };
        if stolen {
            self.clock.steal(count.into());
        } else {
            self.clock.run(count.into());
        }
        next.stolen = stolen;
        next.reads_time = (last == Last::ReadsTime).then(|| self.clock.executed());
        self.cpus[cpu].flight = Some(next);
    }

    /// The block in flight ended, and `pc` (or the handler `entry`) came next.
    #[inline]
    fn land(
        &mut self,
        blocks: &mut Blocks,
        cpu: usize,
        flight: Flight,
        pc: u64,
        entry: Option<Entry>,
    ) {
        if entry.is_none() && flight.surely_leads_to(pc, self.records(cpu)) {
            return self.settle(blocks, cpu, flight, flight.count);
        }
        let info = blocks.info(flight.block);
        let retired = match entry {
            Some(entry) => info.before_entry(entry, flight.io),
            None if self.records(cpu) => info.before_block(pc, flight.io),
            None => Retired { executed: info.before_block_elsewhere(pc), explained: true },
        };
        if !retired.explained && self.records(cpu) {
            self.unexplained(info, pc, entry);
        }
        if flight.done {
            return;
        }
        self.settle(blocks, cpu, flight, retired.executed);
    }

    /// The block in flight is over after `executed` instructions.
    #[inline]
    fn settle(&mut self, blocks: &mut Blocks, cpu: usize, flight: Flight, executed: u16) {
        let missing = flight.count - executed;
        if missing > 0 && flight.stolen {
            self.clock.give_back(missing.into());
        } else if missing > 0 {
            self.clock.take_back(missing.into());
        }
        if !self.records(cpu) {
            return;
        }
        if missing > 0 {
            self.report.partial_runs += 1;
            self.keep_accesses(executed);
        }
        let accesses = self.batch.accesses.len() - self.accesses_before;
        if executed > 0 {
            if !flight.defined {
                if let Some(definition) = blocks.take_definition(flight.block) {
                    self.batch.items.push(Item::Define);
                    self.batch.definitions.push((flight.block, definition));
                }
            }
            self.recorded += u64::from(executed);
            let (block, accesses) = (flight.block, accesses as u16);
            self.batch.items.push(Item::Run { block, executed, accesses });
        }
        self.accesses_before = self.batch.accesses.len();
        for event in self.after.drain(..) {
            self.batch.event(event);
        }
    }

    #[cold]
    fn unexplained(&mut self, info: &BlockInfo, pc: u64, entry: Option<Entry>) {
        self.report.unexplained += 1;
        if self.report.examples.len() < EXAMPLES {
            let end = info.end;
            self.report.examples.push(match entry {
                Some(Entry { vector, rip }) => {
                    format!(
                        "{:#x}..{end:#x} ({:?}), vector {vector} from {rip:#x}",
                        info.pc, info.exit
                    )
                }
                None => format!("{:#x}..{end:#x} ({:?}), then {pc:#x}", info.pc, info.exit),
            });
        }
    }

    /// An instruction of a CPU's block in flight accesses memory. Returns whether it is to be
    /// recorded, and as which instruction of that block.
    #[inline]
    pub fn access(&mut self, blocks: &Blocks, cpu: usize, home: u32, instr: u16) -> Option<u16> {
        let flight = self.cpus[cpu].flight.as_mut()?;
        let mut instr = instr;
        if flight.home != home {
            // QEMU executes an instruction that talks to a device once more, alone, and reports
            // nothing but its accesses.
            let alone = blocks.info(home).pc;
            let within = blocks.info(flight.home).index_of(alone)?;
            if flight.io != Some(within) {
                flight.io = Some(within);
                if cpu == self.cpu {
                    self.keep_accesses(within);
                }
            }
            instr = within;
        }
        (cpu == self.cpu).then_some(instr)
    }

    /// Records an access that [`Recorder::access`] wants.
    #[inline]
    pub fn push_access(&mut self, instr: u16, virt: u64, place: (u8, bool, u64)) {
        let (size, write, phys) = place;
        let address = Address { virt: VirtAddr(virt), phys: PhysAddr(phys) };
        self.batch.accesses.push(RawAccess { instr, size, write, address });
    }

    /// Drops what instructions from number `end` on have accessed: they did not retire then.
    fn keep_accesses(&mut self, end: u16) {
        let mine = &self.batch.accesses[self.accesses_before..];
        let keep = mine.iter().rposition(|a| a.instr < end).map_or(0, |i| i + 1);
        self.batch.accesses.truncate(self.accesses_before + keep);
    }

    /// A CPU executes `hlt`, the last instruction of its block in flight.
    pub fn halt(&mut self, blocks: &mut Blocks, cpu: usize) {
        let Some(mut flight) = self.cpus[cpu].flight else { return };
        if flight.done {
            return;
        }
        self.settle(blocks, cpu, flight, flight.count);
        flight.done = true;
        self.cpus[cpu].flight = Some(flight);
        self.cpus[cpu].halted = true;
        if self.records(cpu) {
            self.halted_at = Some(self.clock.now());
        }
        if self.cpus.iter().all(|c| c.halted) {
            self.clock.all_halted();
        }
    }

    fn wake(&mut self, cpu: usize) {
        self.cpus[cpu].halted = false;
        if self.records(cpu) {
            if let Some(from) = self.halted_at.take() {
                self.batch.event(Timed::Idle(from, self.clock.now()));
            }
        }
    }

    fn read_time(&mut self, cpu: usize, time: u64) {
        let read_at = self.cpus[cpu].flight.and_then(|f| f.reads_time);
        if let Some(base) = read_at.and_then(|at| self.clock.read(time, at)) {
            self.resolve(base);
        }
    }

    fn resolve(&mut self, base: u64) {
        self.batch.resolve(base);
        for event in &mut self.after {
            event.resolve(base);
        }
        if let Some(stamp) = &mut self.halted_at {
            stamp.resolve(base);
        }
        if let Some(stamp) = &mut self.started_at {
            stamp.resolve(base);
        }
    }

    /// An event of a CPU's block in flight, to stand behind that block. Events of other CPUs
    /// stand behind the recorded CPU's block in flight.
    pub fn event(&mut self, event: Timed) {
        if !self.started {
            return;
        }
        let in_flight = self.cpus[self.cpu].flight.is_some_and(|f| !f.done);
        if in_flight {
            self.after.push(event);
        } else {
            self.batch.event(event);
        }
    }

    /// A request was sent, `lag` ns after it was due.
    pub fn request_begins(&mut self, id: u64, lag: u64) {
        let at = self.clock.ago(lag);
        self.event(Timed::Begin(id, at));
    }

    /// A response is complete.
    pub fn request_ends(&mut self, id: u64) {
        let at = self.clock.now();
        self.event(Timed::End(id, at));
    }

    /// A batch to hand over, if it is time.
    #[inline]
    pub fn take_batch(&mut self) -> Option<&mut Batch> {
        if self.batch.items.len() < BATCH_ITEMS {
            return None;
        }
        self.ready_batch()
    }

    #[cold]
    fn ready_batch(&mut self) -> Option<&mut Batch> {
        if self.batch.is_open() {
            if self.batch.items.len() < OPEN_ITEMS {
                return None;
            }
            self.report.guessed_times += 1;
            self.batch.resolve(self.clock.give_up());
        }
        let in_flight = self.batch.accesses.len() > self.accesses_before;
        if in_flight {
            return None;
        }
        self.accesses_before = 0;
        Some(&mut self.batch)
    }

    /// True unless an event waits for its time.
    #[must_use]
    pub fn may_stop(&self) -> bool {
        !self.batch.is_open()
    }

    /// The recording is over: the last batch, and how it went.
    pub fn finish(&mut self, reason: &'static str) -> (Batch, RecorderReport, &Clock) {
        // Accesses of the block in flight belong to no run.
        self.batch.accesses.truncate(self.accesses_before);
        if self.batch.is_open() {
            self.report.guessed_times += 1;
            self.batch.resolve(self.clock.give_up());
        }
        let started = self.started_at.map_or(0, |stamp| stamp.value);
        self.report.time_ns = (started, self.clock.now().value);
        self.report.reason = reason;
        self.report.seconds = self.began.map_or(0.0, |t| t.elapsed().as_secs_f64());
        (std::mem::take(&mut self.batch), std::mem::take(&mut self.report), &self.clock)
    }
}
