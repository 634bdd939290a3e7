//! ChampSim traces: 64-byte records, raw or compressed, in and out.
//!
//! ```text
//! ip u64 | is_branch u8 | taken u8 | results u8 x 2 | sources u8 x 4 | stores u64 x 2 | loads u64 x 4
//! ```
//!
//! They hold one address space and no privilege, sizes, kinds or physical addresses. On import, sizes
//! are 8 bytes and physical addresses are the virtual ones; on export, what does not fit is left out
//! and the user is told how much.

use std::collections::HashMap;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use halfwink_units::{PhysAddr, VirtAddr};

use crate::error::{Problem, TraceError};
use crate::format::{BlockDef, Code, CodeForm, Header, RawAccess, Summary, TraceFile, TraceWriter};
use crate::program::{BlockId, Program, Template};
use crate::record::{Branch, Instr, Kind, RegSet};
use crate::source::{Address, Item, Source};

/// Size of a record.
pub const RECORD_BYTES: usize = 64;
/// Registers with a meaning in ChampSim's rules for branches.
const STACK_POINTER: u8 = 6;
const FLAGS: u8 = 25;
const INSTRUCTION_POINTER: u8 = 26;
/// Longest block made on import.
const MAX_BLOCK: usize = 64;

/// How a file of records is compressed, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Raw,
    /// `.xz`
    Xz,
    /// `.gz`
    Gzip,
    /// `.bz2`
    Bzip2,
}

impl Compression {
    /// From the end of a file name.
    #[must_use]
    pub fn of(path: &Path) -> Compression {
        match path.extension().and_then(|e| e.to_str()) {
            Some("xz") => Compression::Xz,
            Some("gz") => Compression::Gzip,
            Some("bz2") => Compression::Bzip2,
            _ => Compression::Raw,
        }
    }

    fn reader<'a>(self, file: impl Read + 'a) -> Box<dyn Read + 'a> {
        match self {
            Compression::Raw => Box::new(BufReader::new(file)),
            Compression::Xz => Box::new(liblzma::read::XzDecoder::new(file)),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
            Compression::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(file)),
        }
    }
}

/// What to do with the records.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Name of the workload.
    pub workload: String,
    /// What to say of where it comes from.
    pub origin: String,
    /// Records to read at most.
    pub limit: Option<u64>,
    /// zstd level.
    pub level: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    ip: u64,
    is_branch: bool,
    taken: bool,
    results: [u8; 2],
    sources: [u8; 4],
    stores: [u64; 2],
    loads: [u64; 4],
}

impl Record {
    fn parse(bytes: &[u8; RECORD_BYTES]) -> Record {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Record {
            ip: word(0),
            is_branch: bytes[8] != 0,
            taken: bytes[9] != 0,
            results: [bytes[10], bytes[11]],
            sources: [bytes[12], bytes[13], bytes[14], bytes[15]],
            stores: [word(16), word(24)],
            loads: [word(32), word(40), word(48), word(56)],
        }
    }

    fn bytes(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..8].copy_from_slice(&self.ip.to_le_bytes());
        out[8] = self.is_branch.into();
        out[9] = self.taken.into();
        out[10..12].copy_from_slice(&self.results);
        out[12..16].copy_from_slice(&self.sources);
        let words = self.stores.iter().chain(&self.loads);
        for (place, word) in out[16..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// ChampSim's own rules, which look at the special registers only.
    fn branch(&self) -> Branch {
        if !self.is_branch {
            return Branch::None;
        }
        let reads = |r| self.sources.contains(&r);
        let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
        let reads_other = self.sources.iter().any(|r| !special.contains(r));
        let writes_sp = self.results.contains(&STACK_POINTER);
        match (reads(STACK_POINTER) && writes_sp, reads(FLAGS), reads_other) {
            (true, _, true) => Branch::IndirectCall,
            (true, _, false) if reads(INSTRUCTION_POINTER) => Branch::Call,
            (true, _, false) => Branch::Return,
            (false, true, _) => Branch::Conditional,
            (false, false, true) => Branch::IndirectJump,
            (false, false, false) => Branch::Jump,
        }
    }
}

/// Reads ChampSim records from `input` and writes a halfwink trace to `out`.
///
/// # Errors
/// If the records end in the middle of one, cannot be decompressed, or if there are none.
pub fn import_champsim<W: Write>(
    input: impl Read,
    compression: Compression,
    options: &ImportOptions,
    out: W,
) -> Result<(Summary, W), TraceError> {
    let mut header = Header::new(&options.workload, &options.origin, CodeForm::Decoded);
    header.notes.push(
        "imported from ChampSim records: user instructions only, physical addresses are the \
         virtual ones, all accesses are 8 bytes, functional units are guessed"
            .to_owned(),
    );
    let io = |e| TraceError::at(0, Problem::Io(e));
    let mut importer = Importer {
        writer: TraceWriter::create(out, &header, options.level).map_err(io)?,
        registers: Registers::default(),
        blocks: HashMap::new(),
        pending: Vec::new(),
    };
    let mut records = Records { input: compression.reader(input), at: 0 };
    let limit = options.limit.unwrap_or(u64::MAX);
    let mut current = records.next()?;
    while let Some(record) = current.filter(|_| records.count() <= limit) {
        let next = records.next()?;
        importer.push(record, next.map(|r| r.ip)).map_err(io)?;
        current = next;
    }
    importer.end_block(None).map_err(io)?;
    if importer.writer.totals().instructions == 0 {
        return Err(TraceError::at(0, Problem::NoInstructions));
    }
    importer.writer.finish().map_err(io)
}

struct Records<'a> {
    input: Box<dyn Read + 'a>,
    at: u64,
}

impl Records<'_> {
    fn count(&self) -> u64 {
        self.at / RECORD_BYTES as u64
    }

    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        let mut bytes = [0; RECORD_BYTES];
        let mut filled = 0;
        while filled < RECORD_BYTES {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => {
                    let why = format!(
                        "the records end in the middle of one: {filled} of {RECORD_BYTES} bytes; is \
                         this a ChampSim trace?"
                    );
                    return Err(TraceError::at(self.at, Problem::Import(why)));
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let why = format!("the records do not decompress ({e})");
                    return Err(TraceError::at(self.at, Problem::Import(why)));
                }
            }
        }
        self.at += RECORD_BYTES as u64;
        Ok(Some(Record::parse(&bytes)))
    }
}

/// Gives ChampSim's register numbers, which mean nothing in particular, a place in a [`RegSet`].
#[derive(Default)]
struct Registers {
    known: HashMap<u8, u32>,
}

impl Registers {
    fn set(&mut self, numbers: &[u8]) -> RegSet {
        let bit = |n: u8| self.bit(n);
        RegSet(numbers.iter().filter(|&&n| n != 0).copied().map(bit).fold(0, |set, b| set | b))
    }

    fn bit(&mut self, number: u8) -> u64 {
        match number {
            STACK_POINTER => RegSet::STACK_POINTER.0,
            FLAGS => RegSet::FLAGS.0,
            INSTRUCTION_POINTER => 0,
            _ => {
                // General registers first, without the stack pointer; then vectors; then the rest
                // share one.
                let next = self.known.len() as u32;
                let n = *self.known.entry(number).or_insert(match next {
                    0..=3 => next,
                    4..=14 => next + 1,
                    15..=46 => next + 2,
                    _ => 57,
                });
                1 << n
            }
        }
    }
}

struct Importer<W: Write> {
    writer: TraceWriter<W>,
    registers: Registers,
    blocks: HashMap<Vec<u8>, BlockId>,
    pending: Vec<(Record, u8)>,
}

impl<W: Write> Importer<W> {
    fn push(&mut self, record: Record, next_ip: Option<u64>) -> io::Result<()> {
        let distance = next_ip.map_or(0, |next| next.wrapping_sub(record.ip));
        let sequential = (1..=15).contains(&distance);
        let len = if sequential { distance as u8 } else { 4 };
        self.pending.push((record, len));
        if record.is_branch || !sequential || self.pending.len() == MAX_BLOCK {
            self.end_block(next_ip)?;
        }
        Ok(())
    }

    fn end_block(&mut self, _next_ip: Option<u64>) -> io::Result<()> {
        let Some(&(first, _)) = self.pending.first() else { return Ok(()) };
        let mut key = Vec::with_capacity(self.pending.len() * 16);
        for (record, len) in &self.pending {
            let bytes = record.bytes();
            key.extend_from_slice(&bytes[..9]);
            key.extend_from_slice(&bytes[10..16]);
            key.push(*len);
            // Kinds depend on whether there are loads and stores.
            key.push(u8::from(record.loads != [0; 4]) | u8::from(record.stores != [0; 2]) << 1);
        }
        let block = match self.blocks.get(&key) {
            Some(&block) => block,
            None => {
                let instrs = self.instrs();
                let block = self.writer.define_block(&BlockDef {
                    pc: VirtAddr(first.ip),
                    phys: PhysAddr(first.ip),
                    phys_next_page: PhysAddr((first.ip | 0xfff).wrapping_add(1)),
                    kernel: false,
                    code: Code::Decoded(&instrs),
                })?;
                self.blocks.insert(key, block);
                block
            }
        };
        let mut accesses = Vec::new();
        for (n, (record, _)) in self.pending.iter().enumerate() {
            let loads = record.loads.iter().map(|&a| (a, false));
            let stores = record.stores.iter().map(|&a| (a, true));
            for (at, write) in loads.chain(stores).filter(|&(a, _)| a != 0) {
                let address = Address { virt: VirtAddr(at), phys: PhysAddr(at) };
                accesses.push(RawAccess { instr: n as u16, size: 8, write, address });
            }
        }
        let executed = self.pending.len() as u16;
        self.pending.clear();
        self.writer.run(block, executed, &accesses)
    }

    fn instrs(&mut self) -> Vec<Instr> {
        let mut offset = 0u16;
        let mut instrs = Vec::with_capacity(self.pending.len());
        for (record, len) in &self.pending {
            let reads = self.registers.set(&record.sources);
            let writes = self.registers.set(&record.results);
            let loads = record.loads != [0; 4];
            let stores = record.stores != [0; 2];
            let kind = match record.branch() {
                Branch::None if loads != stores => Kind::Move,
                Branch::None => Kind::IntAlu,
                _ => Kind::Branch,
            };
            // Which sources form the address is not told: the first ones of a load, all but the
            // last of a store.
            let address = if loads {
                reads.without(RegSet::FLAGS)
            } else if stores {
                let last = record.sources.iter().rev().find(|&&r| r != 0).copied();
                let value = self.registers.set(&last.into_iter().collect::<Vec<_>>());
                reads.without(RegSet::FLAGS).without(value)
            } else {
                RegSet::EMPTY
            };
            instrs.push(Instr {
                reads,
                writes,
                address,
                kind,
                branch: record.branch(),
                ..Instr::nop(offset, *len)
            });
            offset = offset.saturating_add(u16::from(*len));
        }
        instrs
    }
}

/// What to write.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions {
    /// User instructions.
    pub user: bool,
    /// Kernel instructions.
    pub kernel: bool,
    /// Instructions to write at most.
    pub limit: Option<u64>,
}

/// How an export went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Records written.
    pub records: u64,
    /// Memory accesses that a record had no room for.
    pub accesses_left_out: u64,
}

/// Writes the instructions of `file` to `out` as ChampSim records.
///
/// # Errors
/// If the trace is damaged, or `out` cannot be written to.
pub fn export_champsim(
    file: &TraceFile,
    options: ExportOptions,
    out: impl Write,
    compression: Compression,
) -> Result<Exported, TraceError> {
    let io = |e| TraceError::at(0, Problem::Io(e));
    match compression {
        Compression::Raw => {
            let mut out = BufWriter::new(out);
            let done = export(file, options, &mut out)?;
            out.flush().map_err(io)?;
            Ok(done)
        }
        Compression::Xz => {
            let mut out = liblzma::write::XzEncoder::new(out, 6);
            let done = export(file, options, &mut out)?;
            out.finish().map_err(io)?;
            Ok(done)
        }
        Compression::Gzip => {
            let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            let done = export(file, options, &mut out)?;
            out.finish().map_err(io)?;
            Ok(done)
        }
        Compression::Bzip2 => {
            let mut out = bzip2::write::BzEncoder::new(out, bzip2::Compression::default());
            let done = export(file, options, &mut out)?;
            out.finish().map_err(io)?;
            Ok(done)
        }
    }
}

fn export(
    file: &TraceFile,
    options: ExportOptions,
    out: &mut dyn Write,
) -> Result<Exported, TraceError> {
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    let mut done = Exported::default();
    let limit = options.limit.unwrap_or(u64::MAX);
    // The last record of a run is held back until the next run tells where its branch went.
    let mut held: Option<(Record, u64)> = None;
    let mut put = |record: &Record, done: &mut Exported| {
        done.records += 1;
        out.write_all(&record.bytes()).map_err(|e| TraceError::at(0, Problem::Io(e)))
    };
    while done.records < limit {
        let Item::Run(id) = (match stream.next_item()? {
            Item::End => break,
            item => item,
        }) else {
            continue;
        };
        let template = program.template(id);
        let block = program.block(template.block);
        if let Some((mut record, fall_through)) = held.take() {
            record.taken = record.is_branch && block.pc.0 != fall_through;
            put(&record, &mut done)?;
        }
        if !(if block.kernel { options.kernel } else { options.user }) {
            continue;
        }
        let records = records_of(&program, template, stream.addresses(), &mut done);
        let Some((last, before)) = records.split_last() else { continue };
        for record in before.iter().take((limit - done.records) as usize) {
            put(record, &mut done)?;
        }
        let instrs = program.instrs_of(block);
        let instr = &instrs[usize::from(template.executed) - 1];
        let fall_through = block.pc.0 + u64::from(instr.offset) + u64::from(instr.len);
        held = (done.records < limit).then_some((*last, fall_through));
    }
    if let Some((record, _)) = held.filter(|_| done.records < limit) {
        put(&record, &mut done)?;
    }
    Ok(done)
}

fn records_of(
    program: &Program,
    template: &Template,
    addresses: &[Address],
    done: &mut Exported,
) -> Vec<Record> {
    let block = program.block(template.block);
    let executed = &program.instrs_of(block)[..usize::from(template.executed)];
    let mut records: Vec<Record> =
        executed.iter().map(|i| record_of(block.pc.0 + u64::from(i.offset), i)).collect();
    for (site, address) in program.sites_of(template).iter().zip(addresses) {
        let Some(record) = records.get_mut(usize::from(site.instr)) else { continue };
        let places: &mut [u64] = if site.write { &mut record.stores } else { &mut record.loads };
        match places.iter_mut().find(|place| **place == 0) {
            Some(place) => *place = address.virt.0,
            None => done.accesses_left_out += 1,
        }
    }
    records
}

fn record_of(ip: u64, instr: &Instr) -> Record {
    let mut sources: Vec<u8> = Vec::new();
    let mut results: Vec<u8> = Vec::new();
    match instr.branch {
        Branch::None | Branch::Syscall | Branch::Sysret | Branch::Iret | Branch::Interrupt => {
            sources.extend(instr.reads.iter().map(number));
            results.extend(instr.writes.iter().map(number));
        }
        branch => {
            // What ChampSim tells branches by.
            results.push(INSTRUCTION_POINTER);
            let (special, other): (&[u8], bool) = match branch {
                Branch::Conditional => (&[INSTRUCTION_POINTER, FLAGS], false),
                Branch::Jump => (&[INSTRUCTION_POINTER], false),
                Branch::IndirectJump => (&[], true),
                Branch::Call => (&[INSTRUCTION_POINTER, STACK_POINTER], false),
                Branch::IndirectCall => (&[INSTRUCTION_POINTER, STACK_POINTER], true),
                _ => (&[STACK_POINTER], false),
            };
            sources.extend(special);
            if matches!(branch, Branch::Call | Branch::IndirectCall | Branch::Return) {
                results.push(STACK_POINTER);
            }
            if other {
                let free = instr.reads.without(RegSet::STACK_POINTER).without(RegSet::FLAGS);
                sources.push(free.iter().next().map_or(number(0), number));
            }
        }
    }
    let take = |from: &[u8], n: usize| from.get(n).copied().unwrap_or(0);
    Record {
        ip,
        is_branch: !matches!(instr.branch, Branch::None),
        taken: false,
        results: [take(&results, 0), take(&results, 1)],
        sources: [0, 1, 2, 3].map(|n| take(&sources, n)),
        stores: [0; 2],
        loads: [0; 4],
    }
}

/// ChampSim number of one of our registers.
fn number(n: u32) -> u8 {
    match n {
        4 => STACK_POINTER,
        16 => FLAGS,
        n => 64 + n as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Kernel, Synthetic};

    fn import(bytes: &[u8], compression: Compression) -> Result<TraceFile, TraceError> {
        let options = ImportOptions {
            workload: "test".into(),
            origin: "a test".into(),
            limit: None,
            level: 3,
        };
        let (_, out) = import_champsim(bytes, compression, &options, Vec::new())?;
        TraceFile::from_bytes(out)
    }

    /// A trace of a synthetic loop.
    fn recorded() -> TraceFile {
        let header = Header::new("mixed", "a test", CodeForm::Decoded);
        let mut writer = TraceWriter::create(Vec::new(), &header, 1).unwrap();
        let spec = Synthetic {
            kernel: Kernel::Mixed,
            footprint: 1 << 16,
            instructions: 20_000,
            seed: 3,
            duty: None,
        };
        let mut source = spec.source();
        let program = std::sync::Arc::clone(source.program());
        let blocks: Vec<BlockId> = program
            .blocks
            .iter()
            .map(|b| {
                let code = Code::Decoded(program.instrs_of(b));
                let (pc, phys, phys_next_page) = (b.pc, b.phys, b.phys_next_page);
                let def = BlockDef { pc, phys, phys_next_page, kernel: false, code };
                writer.define_block(&def).unwrap()
            })
            .collect();
        while let Item::Run(id) = source.next_item().unwrap() {
            let template = program.template(id);
            let block = blocks[template.block.0 as usize];
            let sites = program.sites_of(template);
            writer.run_as(block, template.executed, sites, source.addresses()).unwrap();
        }
        TraceFile::from_bytes(writer.finish().unwrap().1).unwrap()
    }

    fn everything(file: &TraceFile) -> Vec<(u64, Branch, Vec<u64>)> {
        let mut stream = file.stream();
        let program = std::sync::Arc::clone(stream.program());
        let mut out = Vec::new();
        loop {
            match stream.next_item().unwrap() {
                Item::End => return out,
                Item::Event(_) => {}
                Item::Run(id) => {
                    let template = program.template(id);
                    let block = program.block(template.block);
                    let sites = program.sites_of(template);
                    for (n, instr) in program.instrs_of(block).iter().enumerate() {
                        let own = sites.iter().zip(stream.addresses());
                        let own = own.filter(|(s, _)| usize::from(s.instr) == n);
                        let at = own.map(|(_, a)| a.virt.0).collect();
                        out.push((block.pc.0 + u64::from(instr.offset), instr.branch, at));
                    }
                }
            }
        }
    }

    #[test]
    fn export_and_import_keep_instructions_branches_and_addresses() {
        let file = recorded();
        let all = ExportOptions { user: true, kernel: true, limit: None };
        for compression in
            [Compression::Raw, Compression::Xz, Compression::Gzip, Compression::Bzip2]
        {
            let mut bytes = Vec::new();
            let done = export_champsim(&file, all, &mut bytes, compression).unwrap();
            assert_eq!(done.records, file.footer().totals.instructions);
            assert_eq!(done.accesses_left_out, 0);
            let again = import(&bytes, compression).unwrap();
            assert_eq!(everything(&again), everything(&file));
        }
    }

    #[test]
    fn limits_count_records() {
        let file = recorded();
        let some = ExportOptions { user: true, kernel: true, limit: Some(1001) };
        let mut bytes = Vec::new();
        export_champsim(&file, some, &mut bytes, Compression::Raw).unwrap();
        assert_eq!(bytes.len(), 1001 * RECORD_BYTES);
    }

    #[test]
    fn broken_records_are_one_line_with_the_offset() {
        let error = import(&[0; 100], Compression::Raw).unwrap_err().to_string();
        assert_eq!(
            error,
            "offset 64: the records end in the middle of one: 36 of 64 bytes; is this a ChampSim \
             trace?"
        );
        assert!(import(&[], Compression::Raw).unwrap_err().to_string().contains("no instructions"));
        let error = import(b"this is not gzip", Compression::Gzip).unwrap_err().to_string();
        assert!(error.contains("do not decompress"), "{error}");
    }
}
