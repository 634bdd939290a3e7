//! Writing a trace.

use std::io::{self, Write};

use halfwink_units::{Asid, PhysAddr, VirtAddr};
use xxhash_rust::xxh3::xxh3_64;

use super::chunk::Encoder;
use super::dictionary::{DictionaryEncoder, MAX_BLOCK_INSTRS, MAX_SITES};
use super::header::{ChunkInfo, CodeForm, Footer, Header, SectionInfo, SectionKindName, Totals};
use super::section::{write_section, SectionKind};
use super::warm::WarmSet;
use super::{END_MAGIC, MAGIC, VERSION};
use crate::decode::{decode_block, memory_groups, MemoryGroups};
use crate::event::Event;
use crate::program::{Block, BlockId, Program, Site, TemplateId, GROUPS};
use crate::record::Instr;
use crate::repeat::RepeatFold;
use crate::source::Address;

/// A block of code to be recorded.
#[derive(Clone, Debug)]
pub struct BlockDef<'a> {
    /// Virtual address of the first instruction.
    pub pc: VirtAddr,
    /// Physical address of the first instruction.
    pub phys: PhysAddr,
    /// Physical address of the next page, if the block reaches into it.
    pub phys_next_page: PhysAddr,
    /// Runs with kernel privilege.
    pub kernel: bool,
    /// Instructions of the block.
    pub code: Code<'a>,
}

/// The instructions of a [`BlockDef`].
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    /// Machine code of the block.
    Bytes {
        /// All instructions, one after another.
        bytes: &'a [u8],
        /// Length of each instruction.
        lengths: &'a [u8],
    },
    /// Records that were decoded elsewhere.
    Decoded(&'a [Instr]),
}

/// One memory access of a run that is being recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawAccess {
    /// Which instruction of the block.
    pub instr: u16,
    /// Bytes accessed (at least one).
    pub size: u8,
    /// A store rather than a load.
    pub write: bool,
    /// Address of the access.
    pub address: Address,
}

/// Counts and size of a finished trace.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Counts of the trace.
    pub totals: Totals,
    /// Size of the file.
    pub bytes: u64,
}

/// Writes a trace, front to back, in constant memory but for the dictionary.
pub struct TraceWriter<W: Write> {
    out: W,
    offset: u64,
    level: i32,
    keep_bytes: bool,
    program: Program,
    /// Instruction bytes by block, while the file keeps them.
    code: Vec<Vec<u8>>,
    groups: Vec<MemoryGroups>,
    templates_of: Vec<Vec<TemplateId>>,
    dictionary: DictionaryEncoder,
    encoder: Encoder,
    sections: Vec<SectionInfo>,
    totals: Totals,
    fold: RepeatFold,
    cpu: u16,
    asid: Asid,
    open_requests: Vec<u64>,
    sites: Vec<Site>,
    addresses: Vec<Address>,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace. `level` is the zstd level: 3 while capturing, 19 for files to keep.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn create(mut out: W, header: &Header, level: i32) -> io::Result<TraceWriter<W>> {
        let json = serde_json::to_vec(header)?;
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.0.to_le_bytes())?;
        out.write_all(&VERSION.1.to_le_bytes())?;
        out.write_all(&(json.len() as u32).to_le_bytes())?;
        out.write_all(&xxh3_64(&json).to_le_bytes())?;
        out.write_all(&json)?;
        let program = Program::default();
        let mut encoder = Encoder::new(header.direct_map);
        encoder.begin(&program, 0, Asid(0));
        Ok(TraceWriter {
            out,
            offset: 24 + json.len() as u64,
            level,
            keep_bytes: header.code == CodeForm::Bytes,
            program,
            code: Vec::new(),
            groups: Vec::new(),
            templates_of: Vec::new(),
            dictionary: DictionaryEncoder::default(),
            encoder,
            sections: Vec::new(),
            totals: Totals::default(),
            fold: RepeatFold::default(),
            cpu: 0,
            asid: Asid(0),
            open_requests: Vec::new(),
            sites: Vec::new(),
            addresses: Vec::new(),
        })
    }

    /// Stores the cache lines in use before the first instruction. Call it before any run.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub fn warm(&mut self, set: &WarmSet) -> io::Result<()> {
        let body = set.encode(self.level)?;
        self.section(SectionKind::Warm, &body, SectionKindName::Warm, None)
    }

    /// Makes a block known. The caller must not define the same block twice.
    ///
    /// # Errors
    /// If the block is empty or too long, or if the header says that the file keeps instruction
    /// bytes and there are none.
    pub fn define_block(&mut self, block: &BlockDef<'_>) -> io::Result<BlockId> {
        let mut instrs = Vec::new();
        match block.code {
            Code::Bytes { bytes, lengths } => {
                decode_block(block.pc, bytes, lengths, &mut instrs);
                memory_groups(block.pc, bytes, lengths, &mut self.groups);
                if self.keep_bytes {
                    self.code.push(bytes.to_vec());
                }
            }
            Code::Decoded(_) if self.keep_bytes => {
                return Err(io::Error::other("this trace keeps instruction bytes: give bytes"));
            }
            Code::Decoded(given) => {
                instrs.extend_from_slice(given);
                self.groups.extend(given.iter().map(|i| MemoryGroups::guess(i.address)));
            }
        }
        if instrs.is_empty() || instrs.len() as u64 > MAX_BLOCK_INSTRS {
            return Err(io::Error::other(format!(
                "a block has {} instructions, expected 1 to {MAX_BLOCK_INSTRS}",
                instrs.len()
            )));
        }
        self.templates_of.push(Vec::new());
        let head = Block {
            pc: block.pc,
            phys: block.phys,
            phys_next_page: block.phys_next_page,
            kernel: block.kernel,
            first_instr: 0,
            instrs: 0,
        };
        Ok(self.program.push_block(head, &instrs))
    }

    /// Records that the first `executed` instructions of `block` retired, with these accesses in
    /// the order they happened.
    ///
    /// # Errors
    /// If an access is impossible, or the output cannot be written to.
    pub fn run(&mut self, block: BlockId, executed: u16, accesses: &[RawAccess]) -> io::Result<()> {
        self.sites.clear();
        self.addresses.clear();
        let head = *self.program.block(block);
        if executed > head.instrs || accesses.len() as u64 > MAX_SITES {
            return Err(io::Error::other(
                "a run is longer than its block, or has too many accesses",
            ));
        }
        for access in accesses {
            if access.instr >= head.instrs || access.size == 0 {
                return Err(io::Error::other("an access lies outside its block, or is empty"));
            }
            let groups = &self.groups[head.first_instr as usize + usize::from(access.instr)];
            let group = if access.write { groups.store } else { groups.load };
            debug_assert!(usize::from(group) < GROUPS);
            // What was recorded may differ from one execution to the next (a page fault, a string
            // instruction): the sites are the template's, not the block's.
            let RawAccess { instr, size, write, address } = *access;
            self.sites.push(Site { instr, size, write, group });
            self.addresses.push(address);
        }
        let template = self.template(block, executed);
        self.put(template)
    }

    /// Records a run whose sites are known: copied from another trace.
    ///
    /// # Errors
    /// If a site is impossible, or the output cannot be written to.
    pub fn run_as(
        &mut self,
        block: BlockId,
        executed: u16,
        sites: &[Site],
        addresses: &[Address],
    ) -> io::Result<()> {
        let head = self.program.block(block);
        let outside = |site: &Site| site.instr >= head.instrs || usize::from(site.group) >= GROUPS;
        if executed > head.instrs || sites.iter().any(outside) || sites.len() != addresses.len() {
            return Err(io::Error::other("a run does not fit its block"));
        }
        self.sites.clear();
        self.sites.extend_from_slice(sites);
        self.addresses.clear();
        self.addresses.extend_from_slice(addresses);
        let template = self.template(block, executed);
        self.put(template)
    }

    /// Records an event after the last run.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match *event {
            Event::Cpu(cpu) => self.cpu = cpu,
            Event::AddressSpace(asid) => self.asid = asid,
            Event::Idle { from_ns, to_ns } => {
                if to_ns < from_ns {
                    return Err(io::Error::other("an idle period ends before it begins"));
                }
                self.totals.idle_ns += to_ns - from_ns;
            }
            // Only requests that begin and end here count: a slice holds ends of earlier ones.
            Event::RequestBegin { id, .. } => self.open_requests.push(id),
            Event::RequestEnd { id, .. } => {
                if let Some(i) = self.open_requests.iter().position(|&open| open == id) {
                    self.open_requests.swap_remove(i);
                    self.totals.requests += 1;
                }
            }
            _ => {}
        }
        *self.totals.events.entry(event.name().to_owned()).or_default() += 1;
        self.encoder.event(event);
        if self.encoder.is_full() {
            self.end_chunk()?;
        }
        Ok(())
    }

    /// Returns the counts up to now.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Static tables so far.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub fn finish(mut self) -> io::Result<(Summary, W)> {
        // Events alone count too: those behind the last run would be lost.
        if self.encoder.head().runs > 0 || self.encoder.head().events > 0 {
            self.end_chunk()?;
        }
        let footer_offset = self.offset;
        let footer = Footer { sections: self.sections.clone(), totals: self.totals.clone() };
        let json = serde_json::to_vec(&footer)?;
        self.offset += write_section(&mut self.out, SectionKind::Footer, &json)?;
        self.out.write_all(&footer_offset.to_le_bytes())?;
        self.out.write_all(&END_MAGIC)?;
        self.out.flush()?;
        let summary = Summary { totals: self.totals, bytes: self.offset + 16 };
        Ok((summary, self.out))
    }

    /// The template for the sites in `self.sites`, new or known.
    fn template(&mut self, block: BlockId, executed: u16) -> TemplateId {
        let known = &mut self.templates_of[block.0 as usize];
        let found = known.iter().position(|&id| {
            let template = self.program.template(id);
            template.executed == executed && self.program.sites_of(template) == self.sites
        });
        if let Some(i) = found {
            let id = known[i];
            // Most blocks have one usual shape: keep it in front.
            known[..=i].rotate_right(1);
            return id;
        }
        let id = self.program.push_template(block, executed, &self.sites);
        known.push(id);
        id
    }

    fn put(&mut self, template: TemplateId) -> io::Result<()> {
        let shape = self.program.template(template);
        let block = *self.program.block(shape.block);
        let executed = u64::from(shape.executed);
        let repeated = self.fold.is_repeat(&self.program, template);
        let count = executed - u64::from(repeated);
        self.totals.instructions += count;
        self.totals.repeats += u64::from(repeated);
        if block.kernel {
            self.totals.kernel_instructions += count;
        }
        self.totals.runs += 1;
        self.totals.accesses += u64::from(shape.sites);
        self.encoder.run(&self.program, template, &self.addresses, count as u32);
        // After the run, not before: the limits of readers leave room for one run more.
        if self.encoder.is_full() {
            self.end_chunk()?;
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        // In front of the chunk that needs it, though it is known only now: `out` is never sought,
        // so that a trace can be written to a pipe.
        if self.dictionary.is_behind(&self.program) {
            let code = self.keep_bytes.then_some(self.code.as_slice());
            let body = self.dictionary.encode(&self.program, code, self.level)?;
            self.section(SectionKind::Dictionary, &body, SectionKindName::Dictionary, None)?;
        }
        let head = *self.encoder.head();
        let info = ChunkInfo {
            first_instruction: self.totals.instructions - u64::from(head.instructions),
            instructions: head.instructions.into(),
            runs: head.runs.into(),
        };
        let body = self.encoder.finish(self.level)?;
        self.section(SectionKind::Chunk, &body, SectionKindName::Chunk, Some(info))?;
        self.encoder.begin(&self.program, self.cpu, self.asid);
        Ok(())
    }

    fn section(
        &mut self,
        kind: SectionKind,
        body: &[u8],
        name: SectionKindName,
        chunk: Option<ChunkInfo>,
    ) -> io::Result<()> {
        self.sections.push(SectionInfo { offset: self.offset, kind: name, chunk });
        self.offset += write_section(&mut self.out, kind, body)?;
        Ok(())
    }
}
