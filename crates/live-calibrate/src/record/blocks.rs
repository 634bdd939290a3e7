//! From single steps to blocks and runs.

use std::collections::HashMap;

use halfwink_trace::{Address, BlockDef, Code, RawAccess, WarmLine, WarmSet};
use halfwink_units::{LineAddr, PhysAddr, VirtAddr, LINE_BYTES};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, OpAccess, UsedMemory,
};

use super::Registers;

/// Longest encoding of an instruction.
const LONGEST: usize = 15;
/// Instructions of a block, at most.
const MOST: usize = 256;

/// An instruction, decoded once.
struct Known {
    bytes: Vec<u8>,
    memory: Vec<(UsedMemory, u8, bool)>,
    ends: bool,
    repeats: bool,
}

/// Instructions without a branch in between.
pub(super) struct Straight {
    pc: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) lengths: Vec<u8>,
}

impl Straight {
    pub(super) fn definition<'a>(&self, code: Code<'a>) -> BlockDef<'a> {
        BlockDef {
            pc: VirtAddr(self.pc),
            phys: PhysAddr(self.pc),
            phys_next_page: PhysAddr((self.pc | 0xfff) + 1),
            kernel: false,
            code,
        }
    }
}

struct Run {
    block: usize,
    executed: u16,
    accesses: std::ops::Range<usize>,
}

/// Executed blocks and their accesses.
pub(super) struct Blocks {
    known: HashMap<u64, Known>,
    factory: InstructionInfoFactory,
    by_pc: HashMap<u64, Vec<usize>>,
    blocks: Vec<Straight>,
    runs: Vec<Run>,
    accesses: Vec<RawAccess>,
    /// Addresses of instructions of the run that is being gathered, and where its accesses begin.
    open: Vec<u64>,
    open_accesses: usize,
    instructions: u64,
    clock: u64,
    lines: HashMap<u64, (u64, WarmLine)>,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks {
            known: HashMap::new(),
            factory: InstructionInfoFactory::new(),
            by_pc: HashMap::new(),
            blocks: Vec::new(),
            runs: Vec::new(),
            accesses: Vec::new(),
            open: Vec::new(),
            open_accesses: 0,
            instructions: 0,
            clock: 0,
            lines: HashMap::new(),
        }
    }
}

impl Blocks {
    /// Instructions so far; iterations of repeated ones count here.
    pub(super) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The instruction that is executed next, with these registers.
    pub(super) fn execute(
        &mut self,
        registers: &Registers,
        read: impl Fn(u64, &mut [u8]) -> usize,
    ) {
        let pc = registers.rip();
        if !self.known.contains_key(&pc) {
            let known = self.decode(pc, read);
            self.known.insert(pc, known);
        }
        let follows = self.open.last().is_none_or(|last| {
            let before = &self.known[last];
            !before.ends && last + before.bytes.len() as u64 == pc
        });
        // A repeated instruction is a run of its own in every iteration.
        if !follows || self.open.len() >= MOST || self.known[&pc].repeats {
            self.close();
        }
        self.instructions += 1;
        self.touch(pc, true, false);
        let known = &self.known[&pc];
        let instr = self.open.len() as u16;
        let nothing = known.repeats && registers.get(iced_x86::Register::RCX) == Some(0);
        let mut used = Vec::with_capacity(2);
        if !nothing {
            for (memory, size, write) in &known.memory {
                if let Some(at) = memory.virtual_address(0, |r, _, _| registers.get(r)) {
                    used.push((at, *size, *write));
                }
            }
        }
        let ends = known.ends || known.repeats;
        for (at, size, write) in used {
            let address = Address { virt: VirtAddr(at), phys: PhysAddr(at) };
            self.accesses.push(RawAccess { instr, size, write, address });
            self.touch(at, false, write);
        }
        self.open.push(pc);
        if ends {
            self.close();
        }
    }

    fn decode(&mut self, pc: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> Known {
        let mut bytes = vec![0; LONGEST];
        let there = read(pc, &mut bytes);
        let mut decoder = Decoder::with_ip(64, &bytes[..there], pc, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let info = self.factory.info(&instruction);
        let plain = instruction.memory_size().size();
        let mut memory = Vec::new();
        for used in info.used_memory() {
            let size = match used.memory_size().size() {
                0 => plain,
                size => size,
            };
            let Ok(size @ 1..) = u8::try_from(size) else { continue };
            let (reads, writes) = match used.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false),
            };
            // Loads before stores, as they happen.
            if reads {
                memory.push((*used, size, false));
            }
            if writes {
                memory.push((*used, size, true));
            }
        }
        memory.sort_by_key(|&(_, _, write)| write);
        bytes.truncate(instruction.len().max(1));
        let repeats = instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
        let ends = instruction.flow_control() != FlowControl::Next;
        Known { bytes, memory, ends, repeats }
    }

    /// Ends the run that is being gathered.
    pub(super) fn close(&mut self) {
        let Some(&pc) = self.open.first() else { return };
        let length = self.open.len();
        let same = |&&n: &&usize| self.blocks[n].lengths.len() == length;
        let block = self.by_pc.get(&pc).and_then(|all| all.iter().find(same).copied());
        let block = block.unwrap_or_else(|| {
            let mut straight = Straight { pc, bytes: Vec::new(), lengths: Vec::new() };
            for at in &self.open {
                let known = &self.known[at];
                straight.bytes.extend_from_slice(&known.bytes);
                straight.lengths.push(known.bytes.len() as u8);
            }
            self.blocks.push(straight);
            self.by_pc.entry(pc).or_default().push(self.blocks.len() - 1);
            self.blocks.len() - 1
        });
        let accesses = self.open_accesses..self.accesses.len();
        self.runs.push(Run { block, executed: length as u16, accesses });
        self.open.clear();
        self.open_accesses = self.accesses.len();
    }

    fn touch(&mut self, at: u64, code: bool, write: bool) {
        self.clock += 1;
        let line = at / LINE_BYTES;
        let fresh = WarmLine { line: LineAddr(line), code, dirty: write, kernel: false };
        let entry = self.lines.entry(line).or_insert((0, fresh));
        let dirty = entry.1.dirty || write;
        *entry = (self.clock, WarmLine { dirty, ..fresh });
    }

    /// Lines by their last use, and how many there are.
    pub(super) fn warm_set(&self) -> (WarmSet, u64) {
        let mut all: Vec<_> = self.lines.values().copied().collect();
        all.sort_by_key(|&(at, _)| at);
        let lines: Vec<WarmLine> = all.into_iter().map(|(_, line)| line).collect();
        let count = lines.len() as u64;
        (WarmSet { lines }, count)
    }

    pub(super) fn blocks(&self) -> &[Straight] {
        &self.blocks
    }

    /// Runs in their order; what was gathered last is not in it before it was closed.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, u16, &[RawAccess])> {
        self.runs.iter().map(|r| (r.block, r.executed, &self.accesses[r.accesses.clone()]))
    }
}
