//! From a trace to drmemtrace entries.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use super::flow::resumptions;
use super::threads::Threads;
use super::{file_type, kind, marker, DrmemtraceCounts, DrmemtraceOptions, Entry, FORMAT_VERSION};
use crate::error::{Problem, TraceError};
use crate::event::Event;
use crate::format::TraceFile;
use crate::program::{Block, Program, Template};
use crate::record::{Branch, Instr, InstrFlags};
use crate::source::{Address, Item, Source};
use crate::Compression;

/// assumption: of the recorded machine, which is QEMU's.
const CACHE_LINE_BYTES: u64 = 64;

/// Writes what a CPU did to `out`.
///
/// # Errors
/// If the trace is damaged or of several CPUs and none was named, or `out` cannot be written to.
pub fn export_drmemtrace(
    file: &TraceFile,
    options: DrmemtraceOptions,
    out: impl Write,
    compression: Compression,
) -> Result<DrmemtraceCounts, TraceError> {
    match compression {
        Compression::Raw => {
            let mut out = BufWriter::new(out);
            let done = export(file, options, &mut out)?;
            out.flush().map_err(io)?;
            Ok(done)
        }
        Compression::Gzip => {
            let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
            let done = export(file, options, &mut out)?;
            out.finish().map_err(io)?;
            Ok(done)
        }
        _ => Err(refused("drmemtrace's tools read raw files and .gz; expected one of them".into())),
    }
}

fn io(error: std::io::Error) -> TraceError {
    TraceError::at(0, Problem::Io(error))
}

fn refused(why: String) -> TraceError {
    TraceError::at(0, Problem::Import(why))
}

fn export(
    file: &TraceFile,
    options: DrmemtraceOptions,
    out: &mut dyn Write,
) -> Result<DrmemtraceCounts, TraceError> {
    let cpu = match options.cpu {
        Some(cpu) => cpu,
        None => only_cpu(file)?,
    };
    let mut stream = file.stream();
    let program = Arc::clone(stream.program());
    let mut exporter = Exporter {
        out,
        options,
        cpu,
        program: &program,
        code: file.code(),
        encodings: HashMap::new(),
        resumptions: resumptions(file, cpu)?.into_iter(),
        threads: Threads::new(),
        shown: (0, 0),
        inside: Vec::new(),
        held: None,
        kernel: None,
        interrupted: false,
        at: 0,
        branched: false,
        now_us: 1,
        told_us: 0,
        last_repeat: None,
        done: DrmemtraceCounts::default(),
    };
    let mut here = true;
    while !exporter.full() {
        match stream.next_item()? {
            Item::End => break,
            Item::Event(Event::Cpu(n)) => here = n == cpu,
            _ if !here => {}
            Item::Event(event) => exporter.event(event)?,
            Item::Run(id) => exporter.run(program.template(id), stream.addresses())?,
        }
    }
    exporter.finish()
}

/// The CPU on which everything ran.
fn only_cpu(file: &TraceFile) -> Result<u16, TraceError> {
    let (mut now, mut only) = (0, None);
    let mut stream = file.stream();
    loop {
        match stream.next_item()? {
            Item::Event(Event::Cpu(n)) => now = n,
            Item::Run(_) if only.is_some_and(|cpu| cpu != now) => {
                return Err(refused("it ran on several CPUs; expected the number of one".into()));
            }
            Item::Run(_) => only = Some(now),
            Item::Event(_) => {}
            Item::End => return Ok(only.unwrap_or(0)),
        }
    }
}

/// An instruction whose successor is not known yet.
struct Held {
    instr: Instr,
    pc: u64,
    next: u64,
    block: u32,
    kernel: bool,
    /// Type, size and address of each access.
    accesses: Vec<Entry>,
}

struct Exporter<'a> {
    out: &'a mut dyn Write,
    options: DrmemtraceOptions,
    cpu: u16,
    program: &'a Program,
    code: &'a [Vec<u8>],
    /// Instruction bytes that readers assume at an address.
    encodings: HashMap<u64, Vec<u8>>,
    resumptions: std::vec::IntoIter<Option<u64>>,
    threads: Threads,
    /// Thread and process of the last entry.
    shown: (u64, u64),
    /// Addresses of interrupted code, for each kernel entry that has not ended.
    inside: Vec<u64>,
    held: Option<Held>,
    /// True if the last run was the kernel's.
    kernel: Option<bool>,
    /// An interrupt or exception came since.
    interrupted: bool,
    /// Address at which the code of the last entry continues.
    at: u64,
    /// The last instruction was a branch.
    branched: bool,
    /// Time of the recorded machine, in microseconds.
    now_us: u64,
    told_us: u64,
    /// Address of the string instruction that was written last.
    last_repeat: Option<u64>,
    done: DrmemtraceCounts,
}

impl Exporter<'_> {
    fn full(&self) -> bool {
        // The instruction that is held back is written by `finish`, so it counts already.
        let held = u64::from(self.held.is_some());
        let count: u64 = self.done.instructions.iter().sum();
        self.options.limit.is_some_and(|limit| count + held >= limit)
    }

    fn put(&mut self, kind: u16, size: u16, value: u64) -> Result<(), TraceError> {
        self.out.write_all(&Entry { kind, size, value }.bytes()).map_err(io)
    }

    fn mark(&mut self, which: u16, value: u64) -> Result<(), TraceError> {
        self.put(kind::MARKER, which, value)
    }

    /// Tells who runs from now on, if that is another; first of all what file this is.
    fn tell(&mut self) -> Result<(), TraceError> {
        let ids = self.threads.ids();
        if ids == self.shown {
            return Ok(());
        }
        let first = self.shown == (0, 0);
        if first {
            let mut what = file_type::X86_64 | file_type::SYSCALL_NUMBERS | file_type::CORE_SHARDED;
            what |= if self.options.kernel { file_type::WHOLE_SYSTEM } else { 0 };
            what |= if self.code.is_empty() { 0 } else { file_type::ENCODINGS };
            self.put(kind::HEADER, 0, FORMAT_VERSION)?;
            self.mark(marker::VERSION, FORMAT_VERSION)?;
            self.mark(marker::FILETYPE, what)?;
        }
        self.put(kind::THREAD, 0, ids.0)?;
        self.put(kind::PID, 0, ids.1)?;
        self.shown = ids;
        if first {
            self.mark(marker::CACHE_LINE_SIZE, CACHE_LINE_BYTES)?;
            self.mark(marker::PAGE_SIZE, 1 << halfwink_units::PAGE_SHIFT)?;
        }
        self.time()
    }

    fn time(&mut self) -> Result<(), TraceError> {
        self.told_us = self.now_us;
        self.mark(marker::TIMESTAMP, self.now_us)?;
        self.mark(marker::CPU_ID, self.cpu.into())
    }

    fn event(&mut self, event: Event) -> Result<(), TraceError> {
        let mut reach = |ns: u64| self.now_us = self.now_us.max(1 + ns / 1000);
        match event {
            Event::AddressSpace(space) => self.threads.switch(space),
            Event::Idle { to_ns: ns, .. }
            | Event::RequestBegin { at_ns: ns, .. }
            | Event::RequestEnd { at_ns: ns, .. } => reach(ns),
            Event::Syscall { number, .. } => {
                // Of a call whose instruction is not there, readers know nothing.
                if self.held.as_ref().is_some_and(|h| h.instr.branch == Branch::Syscall) {
                    self.release(None)?;
                    self.time()?;
                    self.mark(marker::SYSCALL, number.into())?;
                }
            }
            Event::Interrupt { .. } | Event::Exception { .. } => self.interrupt()?,
            Event::Cpu(_) | Event::Mark { .. } => {}
        }
        Ok(())
    }

    fn interrupt(&mut self) -> Result<(), TraceError> {
        let resumption = self.resumptions.next().flatten();
        let at = match &self.held {
            // A string instruction goes on with itself.
            Some(h) if h.instr.branch == Branch::None && resumption != Some(h.pc) => h.next,
            Some(h) => resumption.unwrap_or(h.next),
            None => resumption.unwrap_or(self.at),
        };
        if self.kernel == Some(false) {
            self.threads.leave(at);
        }
        self.release(Some(at))?;
        self.enter(at)?;
        self.interrupted = true;
        Ok(())
    }

    /// The kernel is entered, or interrupted.
    fn enter(&mut self, at: u64) -> Result<(), TraceError> {
        if self.options.kernel {
            self.tell()?;
            // Readers take zero for missing.
            self.mark(marker::HARDWARE_EVENT, at.max(1))?;
            self.inside.push(at);
        }
        Ok(())
    }

    fn run(&mut self, template: &Template, addresses: &[Address]) -> Result<(), TraceError> {
        let program = self.program;
        let block = program.block(template.block);
        let pc = block.pc.0;
        let before = self.kernel.replace(block.kernel);
        let interrupted = std::mem::take(&mut self.interrupted);
        match (before, block.kernel) {
            (Some(false), true) if !interrupted => {
                let at = self.held.as_ref().map_or(self.at, |h| h.next);
                self.threads.leave(at);
                if self.options.kernel {
                    self.release(Some(at))?;
                    self.enter(at)?;
                }
            }
            (None, true) if !interrupted => self.enter(pc)?,
            (Some(true), false) => {
                self.release(Some(pc))?;
                self.threads.resume(pc);
                if self.options.kernel {
                    self.tell()?;
                }
                // A return to user code ends every kernel entry that is open, nested ones included.
                for _ in 0..std::mem::take(&mut self.inside).len() {
                    self.mark(marker::HARDWARE_CONTEXT_RETURN, 1)?;
                }
            }
            (Some(true), true) if !interrupted => {
                let returns = self.held.as_ref().is_some_and(|h| h.instr.branch == Branch::Iret);
                self.release(Some(pc))?;
                if returns && self.inside.len() > 1 && self.inside.last() == Some(&pc) {
                    self.inside.pop();
                    self.mark(marker::HARDWARE_CONTEXT_RETURN, 1)?;
                }
            }
            _ => self.release(Some(pc))?,
        }
        if block.kernel && !self.options.kernel {
            return Ok(());
        }
        self.tell()?;
        // Between a branch and where it goes, readers expect nothing.
        if self.now_us > self.told_us && !self.branched {
            self.time()?;
        }
        self.instructions(block, template, addresses)
    }

    fn instructions(
        &mut self,
        block: &Block,
        template: &Template,
        addresses: &[Address],
    ) -> Result<(), TraceError> {
        let executed = &self.program.instrs_of(block)[..usize::from(template.executed)];
        let sites = self.program.sites_of(template);
        let mut accesses = sites.iter().zip(addresses).peekable();
        for (n, instr) in executed.iter().enumerate() {
            let mut own = Vec::new();
            while let Some((site, address)) =
                accesses.next_if(|(site, _)| usize::from(site.instr) <= n)
            {
                let kind = if site.write { kind::WRITE } else { kind::READ };
                own.push(Entry { kind, size: site.size.into(), value: address.virt.0 });
            }
            let pc = block.pc_of(instr);
            self.release(Some(pc))?;
            if self.full() {
                break;
            }
            let (next, kernel) = (block.end_of(instr), block.kernel);
            let block = template.block.0;
            self.held = Some(Held { instr: *instr, pc, next, block, kernel, accesses: own });
        }
        Ok(())
    }

    /// Writes the instruction that is held back, now that it is known where its code goes on; the
    /// next one, if that is not.
    fn release(&mut self, next: Option<u64>) -> Result<(), TraceError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let next = next.unwrap_or(held.next);
        let repeats = held.instr.flags.has(InstrFlags::REP);
        let again = repeats && self.last_repeat == Some(held.pc);
        self.last_repeat = repeats.then_some(held.pc);
        let taken = next != held.next;
        let (kind, indirect) = match held.instr.branch {
            Branch::None | Branch::Syscall | Branch::Interrupt => (kind::INSTR, false),
            Branch::Conditional if taken => (kind::TAKEN_JUMP, false),
            Branch::Conditional => (kind::UNTAKEN_JUMP, false),
            Branch::Jump => (kind::DIRECT_JUMP, false),
            Branch::Call => (kind::DIRECT_CALL, false),
            Branch::IndirectCall => (kind::INDIRECT_CALL, true),
            // DynamoRIO's own view of them (`core/ir/x86/instr.c`).
            Branch::IndirectJump | Branch::Sysret => (kind::INDIRECT_JUMP, true),
            Branch::Return | Branch::Iret => (kind::RETURN, true),
        };
        self.encode(&held)?;
        if indirect {
            self.mark(marker::BRANCH_TARGET, next)?;
        }
        let kind = if again { kind::NO_FETCH } else { kind };
        self.put(kind, held.instr.len.into(), held.pc)?;
        for access in &held.accesses {
            self.put(access.kind, access.size, access.value)?;
            self.done.loads += u64::from(access.kind == kind::READ);
            self.done.stores += u64::from(access.kind == kind::WRITE);
        }
        self.done.instructions[usize::from(held.kernel)] += 1;
        self.done.repeats += u64::from(again);
        self.done.taken += u64::from(kind == kind::TAKEN_JUMP);
        self.done.gaps += u64::from(kind == kind::INSTR && taken && next != held.pc);
        self.at = next;
        self.branched = kind != kind::INSTR && kind != kind::NO_FETCH;
        Ok(())
    }

    /// The bytes of an instruction, if readers do not know them.
    fn encode(&mut self, held: &Held) -> Result<(), TraceError> {
        let Some(bytes) = self.code.get(held.block as usize) else { return Ok(()) };
        let from = usize::from(held.instr.offset);
        let bytes = &bytes[from..from + usize::from(held.instr.len)];
        // Readers keep the bytes of an address until others come, as where processes share
        // addresses.
        if self.encodings.get(&held.pc).is_some_and(|known| known == bytes) {
            return Ok(());
        }
        self.encodings.insert(held.pc, bytes.to_vec());
        // An entry has room for 8 bytes; longer instructions take two.
        for part in bytes.chunks(8) {
            let mut value = [0; 8];
            value[..part.len()].copy_from_slice(part);
            self.put(kind::ENCODING, part.len() as u16, u64::from_le_bytes(value))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<DrmemtraceCounts, TraceError> {
        self.release(None)?;
        if self.done.instructions == [0, 0] {
            return Err(TraceError::at(0, Problem::NoInstructions));
        }
        let (thread, _) = self.shown;
        self.put(kind::THREAD_EXIT, 0, thread)?;
        self.put(kind::FOOTER, 0, 0)?;
        self.done.threads = self.threads.count();
        Ok(self.done)
    }
}
