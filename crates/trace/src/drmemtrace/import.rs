//! From drmemtrace entries to a recording.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use halfwink_units::{Asid, PhysAddr, VirtAddr};

use super::entries::{Encodings, Entries, Head};
use super::{kind, marker, regdeps, Entry};
use crate::champsim::ImportOptions;
use crate::error::{Problem, TraceError};
use crate::event::Event;
use crate::format::dictionary::MAX_SITES;
use crate::format::{BlockDef, Code, CodeForm, Header, RawAccess, Summary, TraceWriter};
use crate::program::BlockId;
use crate::record::{Branch, Instr, InstrFlags, Kind, RegSet};
use crate::source::Address;

/// Longest block made on import: straight code of any length must not be held back.
const MAX_BLOCK: usize = 64;
/// Longest instruction of x86.
const LONGEST_INSTRUCTION: u16 = 15;
/// Longest encoding: of `DR_ISA_REGDEPS`.
const LONGEST_ENCODING: usize = 16;
/// Longest access that is kept whole: a line. `xsave` writes more.
const LONGEST_ACCESS: u16 = 64;
/// Bits by which the made-up physical addresses of processes differ.
const PROCESS_SHIFT: u32 = 48;
const PAGE_SHIFT: u32 = 12;
/// The vector of interruptions, which the format does not tell.
const UNKNOWN_VECTOR: u8 = 255;

/// Reads entries of a thread or a core from `input`, unpacked, and writes a recording to `out`.
///
/// # Errors
/// If the entries end inside one, are not of the final form of x86-64 or of `DR_ISA_REGDEPS`, were
/// filtered by a cache, lack encodings that their head promises, or hold no instruction.
pub fn import_drmemtrace<W: Write>(
    input: impl Read,
    options: &ImportOptions,
    out: W,
) -> Result<(Summary, W), TraceError> {
    let mut entries = Entries::new(input);
    let head = Head::read(&mut entries)?;
    let io = |e| TraceError::at(0, Problem::Io(e));
    let header = header(options, &head);
    let mut importer = Importer {
        writer: TraceWriter::create(out, &header, options.level).map_err(io)?,
        encodings: head.encodings,
        left: options.limit.unwrap_or(u64::MAX),
        codes: Codes::default(),
        blocks: HashMap::new(),
        pending: Vec::new(),
        accesses: Vec::new(),
        places: Places::default(),
        is_in_kernel: false,
        is_called: false,
    };
    importer.writer.event(&Event::Cpu(0)).map_err(io)?;
    while importer.left > 0 || !importer.pending.is_empty() {
        let at = entries.at;
        let Some(entry) = entries.next()? else { break };
        importer.entry(entry).map_err(|why| match why {
            Fault::Io(e) => io(e),
            Fault::Entry(why) => TraceError::at(at, Problem::Import(why)),
        })?;
    }
    importer.end_block().map_err(io)?;
    if importer.writer.totals().instructions == 0 {
        return Err(TraceError::at(0, Problem::NoInstructions));
    }
    importer.writer.finish().map_err(io)
}

fn header(options: &ImportOptions, head: &Head) -> Header {
    let (form, known) = match head.encodings {
        Encodings::X86 => (CodeForm::Bytes, "instructions are decoded from their encodings"),
        Encodings::Registers => (
            CodeForm::Decoded,
            "registers and categories are told, addresses' registers and multiplications guessed",
        ),
        Encodings::Absent => (
            CodeForm::Decoded,
            "no encodings: registers are unknown, so that nothing waits for a result",
        ),
    };
    let mut header = Header::new(&options.workload, &options.origin, form);
    header.notes.push(format!(
        "imported from drmemtrace entries (version {}): {known}; physical addresses are the \
         virtual ones unless the trace has markers for them; time that passed is unknown",
        head.version
    ));
    header
}

enum Fault {
    Io(io::Error),
    Entry(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

/// An instruction whose block has not ended.
#[derive(Clone, Copy)]
struct Pending {
    pc: u64,
    len: u8,
    branch: Branch,
    /// Encoding, by its number; none if it has none.
    code: Option<u32>,
    /// True if it has a repeat prefix, which its later rounds show.
    repeats: bool,
}

impl Pending {
    /// The address behind it.
    fn end(&self) -> u64 {
        self.pc.wrapping_add(self.len.into())
    }
}

/// Encodings that were seen.
#[derive(Default)]
struct Codes {
    all: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// The latest encoding of each address.
    at: HashMap<u64, u32>,
    /// Bytes of the next instruction.
    coming: Vec<u8>,
}

impl Codes {
    fn extend(&mut self, entry: Entry) -> Result<(), Fault> {
        let bytes = entry.value.to_le_bytes();
        let size = usize::from(entry.size);
        if size > bytes.len() || self.coming.len() + size > LONGEST_ENCODING {
            let all = self.coming.len() + size;
            return Err(Fault::Entry(format!(
                "an encoding of {all} bytes, expected at most {LONGEST_ENCODING}"
            )));
        }
        self.coming.extend_from_slice(&bytes[..size]);
        Ok(())
    }

    /// The encoding of an instruction: the one that came before it, or the one that it had.
    fn of(&mut self, pc: u64) -> Option<u32> {
        if self.coming.is_empty() {
            return self.at.get(&pc).copied();
        }
        // Many addresses share an encoding, and a file tells each again in each of its chunks.
        let number = match self.numbers.get(self.coming.as_slice()) {
            Some(number) => *number,
            None => {
                let number = self.all.len() as u32;
                let bytes: Box<[u8]> = self.coming.as_slice().into();
                self.all.push(bytes.clone());
                self.numbers.insert(bytes, number);
                number
            }
        };
        self.coming.clear();
        self.at.insert(pc, number);
        Some(number)
    }
}

/// Physical places of virtual addresses.
#[derive(Default)]
struct Places {
    /// Number of each process, in the order of their first instructions.
    processes: HashMap<u64, u64>,
    process: u64,
    /// Physical page of a process' page, where markers tell it.
    pages: HashMap<(u64, u64), u64>,
    /// Physical address of the marker before.
    told: Option<u64>,
}

impl Places {
    fn of(&self, virt: u64) -> Address {
        // Kernels are shared by all processes.
        let process = if VirtAddr(virt).is_kernel_half() { 0 } else { self.process };
        let phys = match self.pages.get(&(process, virt >> PAGE_SHIFT)) {
            Some(page) => page << PAGE_SHIFT | virt & ((1 << PAGE_SHIFT) - 1),
            None => virt ^ process << PROCESS_SHIFT,
        };
        Address { virt: VirtAddr(virt), phys: PhysAddr(phys) }
    }

    fn tell(&mut self, virt: u64) {
        if let Some(phys) = self.told.take() {
            let process = if VirtAddr(virt).is_kernel_half() { 0 } else { self.process };
            self.pages.insert((process, virt >> PAGE_SHIFT), phys >> PAGE_SHIFT);
        }
    }
}

/// A block's instructions and where they lie, by all that a definition says.
#[derive(PartialEq, Eq, Hash)]
struct BlockKey {
    pc: u64,
    phys: [u64; 2],
    kernel: bool,
    instrs: Vec<(u8, Branch, Option<u32>, u8)>,
}

struct Importer<W: Write> {
    writer: TraceWriter<W>,
    encodings: Encodings,
    /// Number of instructions that are still to be read.
    left: u64,
    codes: Codes,
    blocks: HashMap<BlockKey, BlockId>,
    pending: Vec<Pending>,
    accesses: Vec<RawAccess>,
    places: Places,
    /// Between markers around what the kernel does.
    is_in_kernel: bool,
    /// Behind a system call, whose entry into the kernel has a marker of its own.
    is_called: bool,
}

impl<W: Write> Importer<W> {
    fn entry(&mut self, entry: Entry) -> Result<(), Fault> {
        match entry.kind {
            kind::READ | kind::WRITE => self.access(entry)?,
            kind::INSTR..=kind::RETURN | kind::TAKEN_JUMP | kind::UNTAKEN_JUMP | kind::SYSENTER => {
                let branch = branch(entry.kind);
                self.instruction(entry.value, entry.size, branch)?;
            }
            kind::BUNDLE => {
                let mut pc = self.pending.last().map_or(0, Pending::end);
                let lengths = entry.value.to_le_bytes();
                for length in lengths.iter().take(usize::from(entry.size)) {
                    self.instruction(pc, u16::from(*length), Branch::None)?;
                    pc = pc.wrapping_add((*length).into());
                }
            }
            kind::NO_FETCH => self.round(entry)?,
            kind::ENCODING => self.codes.extend(entry)?,
            kind::PID => self.process(entry.value)?,
            kind::MARKER => self.marker(entry)?,
            // Threads of a process share all that is recorded; prefetches and flushes are hints.
            _ => {}
        }
        Ok(())
    }

    fn instruction(&mut self, pc: u64, len: u16, branch: Branch) -> Result<(), Fault> {
        if len == 0 || len > LONGEST_INSTRUCTION {
            return Err(Fault::Entry(format!(
                "an instruction of {len} bytes at {pc:#x}, expected 1 to {LONGEST_INSTRUCTION}"
            )));
        }
        if let Some(last) = self.pending.last() {
            let goes_on = last.end() == pc
                && last.branch == Branch::None
                && !last.repeats
                && self.pending.len() < MAX_BLOCK
                && VirtAddr(last.pc).is_kernel_half() == VirtAddr(pc).is_kernel_half();
            if !goes_on {
                self.end_block()?;
            }
        }
        self.is_called = false;
        // The block is held back until what comes next tells whether it goes on, and rounds of its
        // last instruction are none of the limit.
        if self.left == 0 {
            return Ok(self.end_block()?);
        }
        self.left -= 1;
        let code = self.codes.of(pc);
        if code.is_none() && self.encodings != Encodings::Absent {
            return Err(Fault::Entry(format!(
                "the instruction at {pc:#x} has no encoding, which the head promises"
            )));
        }
        self.pending.push(Pending { pc, len: len as u8, branch, code, repeats: false });
        Ok(())
    }

    /// A later round of a repeated instruction, which is a run of its own.
    fn round(&mut self, entry: Entry) -> Result<(), Fault> {
        if let Some(last) = self.pending.last_mut().filter(|last| last.pc == entry.value) {
            last.repeats = true;
            let again = *last;
            self.end_block()?;
            self.pending.push(again);
            return Ok(());
        }
        self.end_block()?;
        self.instruction(entry.value, entry.size, Branch::None)?;
        if let Some(last) = self.pending.last_mut() {
            last.repeats = true;
        }
        Ok(())
    }

    fn access(&mut self, entry: Entry) -> Result<(), Fault> {
        // Before the first instruction a trace may have those of one that it does not hold.
        let Some(last) = self.pending.len().checked_sub(1) else { return Ok(()) };
        // No run has more, and a file may have any number.
        if self.accesses.len() as u64 >= MAX_SITES {
            return Err(Fault::Entry(format!("more than {MAX_SITES} accesses in a block of code")));
        }
        let mut at = entry.value;
        let mut left = match entry.size {
            // `xsave` and its like, whose size only the machine knows: the line that is told.
            0 => LONGEST_ACCESS - (at % u64::from(LONGEST_ACCESS)) as u16,
            size => size,
        };
        while left > 0 {
            let size = left.min(LONGEST_ACCESS);
            let write = entry.kind == kind::WRITE;
            let address = self.places.of(at);
            self.accesses.push(RawAccess { instr: last as u16, size: size as u8, write, address });
            at = at.wrapping_add(u64::from(size));
            left -= size;
        }
        Ok(())
    }

    fn process(&mut self, pid: u64) -> io::Result<()> {
        let next = self.places.processes.len() as u64;
        let is_first = next == 0;
        let number = *self.places.processes.entry(pid).or_insert(next);
        if number != self.places.process || is_first {
            self.end_block()?;
            self.places.process = number;
            self.writer.event(&Event::AddressSpace(Asid(number + 1)))?;
        }
        Ok(())
    }

    fn marker(&mut self, entry: Entry) -> io::Result<()> {
        match entry.size {
            marker::SYSCALL => {
                if let Some(last) = self.pending.last_mut() {
                    last.branch = Branch::Syscall;
                }
                self.end_block()?;
                let number = entry.value as u32;
                self.writer.event(&Event::Syscall { number, args: [0; 6] })?;
                self.is_called = true;
            }
            marker::HARDWARE_EVENT => {
                self.end_block()?;
                if !std::mem::take(&mut self.is_called) {
                    self.writer.event(&Event::Interrupt { vector: UNKNOWN_VECTOR })?;
                }
            }
            // Without machine code these returns look like others.
            marker::HARDWARE_CONTEXT_RETURN => {
                if let Some(last) = self.pending.last_mut() {
                    last.branch = match last.branch {
                        Branch::Return => Branch::Iret,
                        Branch::IndirectJump => Branch::Sysret,
                        other => other,
                    };
                }
            }
            marker::SYSCALL_TRACE_START | marker::CONTEXT_SWITCH_START => {
                self.end_block()?;
                self.is_in_kernel = true;
            }
            marker::SYSCALL_TRACE_END | marker::CONTEXT_SWITCH_END => {
                self.end_block()?;
                self.is_in_kernel = false;
            }
            marker::PHYSICAL_ADDRESS => self.places.told = Some(entry.value),
            marker::VIRTUAL_ADDRESS => self.places.tell(entry.value),
            _ => {}
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        let Some(&first) = self.pending.first() else { return Ok(()) };
        let start = self.places.of(first.pc);
        let next_page = self.places.of((first.pc | ((1 << PAGE_SHIFT) - 1)).wrapping_add(1));
        let kernel = self.is_in_kernel || start.virt.is_kernel_half();
        let uses = |n: usize| {
            let own = self.accesses.iter().filter(|access| usize::from(access.instr) == n);
            own.fold(0, |uses, access| uses | if access.write { 2_u8 } else { 1 })
        };
        let instrs: Vec<_> = self
            .pending
            .iter()
            .enumerate()
            // Machine code tells all by itself.
            .map(|(n, one)| match self.encodings {
                Encodings::X86 => (one.len, Branch::None, one.code, 0),
                _ => (one.len, one.branch, one.code, uses(n) | u8::from(one.repeats) << 2),
            })
            .collect();
        debug_assert!(self.pending.len() <= MAX_BLOCK);
        let phys = [start.phys.0, next_page.phys.0];
        let key = BlockKey { pc: first.pc, phys, kernel, instrs };
        let block = match self.blocks.get(&key) {
            Some(block) => *block,
            None => {
                let block = self.define(&key)?;
                self.blocks.insert(key, block);
                block
            }
        };
        let executed = self.pending.len() as u16;
        self.pending.clear();
        let done = self.writer.run(block, executed, &self.accesses);
        self.accesses.clear();
        done
    }

    fn define(&mut self, key: &BlockKey) -> io::Result<BlockId> {
        let (mut bytes, mut lengths, mut instrs) = (Vec::new(), Vec::new(), Vec::new());
        let mut offset = 0;
        for (len, branch, code, uses) in &key.instrs {
            let code = code.map(|n| &*self.codes.all[n as usize]).unwrap_or_default();
            match self.encodings {
                Encodings::X86 if code.len() != usize::from(*len) => {
                    let (pc, have) = (key.pc.wrapping_add(u64::from(offset)), code.len());
                    return Err(io::Error::other(format!(
                        "the instruction at {pc:#x} has {len} bytes, its encoding {have}"
                    )));
                }
                Encodings::X86 => {
                    bytes.extend_from_slice(code);
                    lengths.push(*len);
                }
                _ => instrs.push(decoded(code, *len, offset, *branch, *uses)),
            }
            offset += u16::from(*len);
        }
        self.writer.define_block(&BlockDef {
            pc: VirtAddr(key.pc),
            phys: PhysAddr(key.phys[0]),
            phys_next_page: PhysAddr(key.phys[1]),
            kernel: key.kernel,
            code: match self.encodings {
                Encodings::X86 => Code::Bytes { bytes: &bytes, lengths: &lengths },
                _ => Code::Decoded(&instrs),
            },
        })
    }
}

/// An instruction of which there is no machine code: as its registers say, or else guessed.
fn decoded(code: &[u8], len: u8, offset: u16, branch: Branch, uses: u8) -> Instr {
    let guessed = || {
        let kind = if matches!(uses & 3, 1 | 2) { Kind::Move } else { Kind::IntAlu };
        Instr { kind, ..Instr::nop(0, 1) }
    };
    let mut found = regdeps::decode(code).unwrap_or_else(guessed);
    if branch != Branch::None {
        found.kind = Kind::Branch;
    }
    if matches!(branch, Branch::Call | Branch::IndirectCall | Branch::Return) {
        found.flags = found.flags.union(InstrFlags::STACK);
        found.reads = found.reads.union(RegSet::STACK_POINTER);
        found.writes = found.writes.union(RegSet::STACK_POINTER);
    }
    if uses & 4 != 0 {
        found.kind = Kind::String;
        found.flags = found.flags.union(InstrFlags::REP);
    }
    Instr { offset, len, branch, ..found }
}

fn branch(entry: u16) -> Branch {
    match entry {
        kind::DIRECT_JUMP => Branch::Jump,
        kind::INDIRECT_JUMP => Branch::IndirectJump,
        kind::CONDITIONAL_JUMP | kind::TAKEN_JUMP | kind::UNTAKEN_JUMP => Branch::Conditional,
        kind::DIRECT_CALL => Branch::Call,
        kind::INDIRECT_CALL => Branch::IndirectCall,
        kind::RETURN => Branch::Return,
        kind::SYSENTER => Branch::Syscall,
        _ => Branch::None,
    }
}
