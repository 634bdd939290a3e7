//! Cutting a short trace out of a long one, with the caches as the long one left them.

use std::collections::HashMap;
use std::io::Write;

use halfwink_units::LineAddr;

use crate::error::{Problem, TraceError};
use crate::event::Event;
use crate::format::{
    BlockDef, Code, CodeForm, Header, Summary, TraceFile, TraceWriter, WarmLine, WarmSet,
};
use crate::program::{BlockId, Program, Template, TemplateId};
use crate::repeat::RepeatFold;
use crate::source::{Address, Item, Source};

/// Range and options of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Instructions to leave out at the start.
    pub skip: u64,
    /// Instructions to keep; the slice ends with the run that reaches this.
    pub keep: u64,
    /// Lines to remember from before the slice, at most.
    pub warm_lines: usize,
    /// Leave the recorded programs' bytes out.
    pub decoded: bool,
    /// Level of zstd compression.
    pub level: i32,
}

/// Writes a slice of `file` to `out`.
///
/// # Errors
/// If `file` is damaged or ends before the slice begins, or `out` cannot be written to.
pub fn slice<W: Write>(file: &TraceFile, slice: Slice, out: W) -> Result<(Summary, W), TraceError> {
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    let mut history = History::default();
    let mut fold = RepeatFold::default();
    let mut skipped = 0;
    let mut state = [None; 2];
    // From the first instruction on and not from the nearest chunk: what is in the caches, and on
    // which CPU and in which address space the slice begins, is told by all that came before.
    while skipped < slice.skip {
        match stream.next_item()? {
            Item::Run(id) => {
                let template = program.template(id);
                let repeat = fold.is_repeat(&program, id);
                skipped += u64::from(template.executed) - u64::from(repeat);
                if slice.warm_lines > 0 {
                    history.run(&program, template, stream.addresses());
                }
            }
            Item::Event(event @ Event::Cpu(_)) => state[0] = Some(event),
            Item::Event(event @ Event::AddressSpace(_)) => state[1] = Some(event),
            Item::Event(_) => {}
            Item::End => return Err(TraceError::at(file.bytes(), Problem::NoInstructions)),
        }
    }
    let io = |e| TraceError::at(0, Problem::Io(e));
    let mut writer = TraceWriter::create(out, &header(file, slice), slice.level).map_err(io)?;
    if slice.warm_lines > 0 {
        writer.warm(&history.warm_set(slice.warm_lines)).map_err(io)?;
    }
    for event in state.into_iter().flatten() {
        writer.event(&event).map_err(io)?;
    }
    let mut copy = Copier::new(file, slice.decoded);
    while writer.totals().instructions < slice.keep {
        match stream.next_item()? {
            Item::Run(id) => {
                copy.run(&program, id, stream.addresses(), &mut writer).map_err(io)?;
            }
            Item::Event(event) => writer.event(&event).map_err(io)?,
            Item::End => break,
        }
    }
    writer.finish().map_err(io)
}

fn header(file: &TraceFile, slice: Slice) -> Header {
    let mut header = file.header().clone();
    // Their begins are counted from the first instruction of all.
    header.samples = None;
    if slice.decoded {
        header.code = CodeForm::Decoded;
    }
    let warm = if slice.warm_lines > 0 {
        format!(", with the last {} lines used before", slice.warm_lines)
    } else {
        String::new()
    };
    let form = if slice.decoded { ", decoded records only" } else { "" };
    header
        .history
        .push(format!("slice of {} instructions after {}{warm}{form}", slice.keep, slice.skip));
    header
}

/// Copies runs into a new trace, and defines blocks there as they are needed.
pub(crate) struct Copier<'a> {
    file: &'a TraceFile,
    decoded: bool,
    blocks: HashMap<BlockId, BlockId>,
}

impl Copier<'_> {
    pub(crate) fn new(file: &TraceFile, decoded: bool) -> Copier<'_> {
        Copier { file, decoded, blocks: HashMap::new() }
    }

    pub(crate) fn run<W: Write>(
        &mut self,
        program: &Program,
        id: TemplateId,
        addresses: &[Address],
        writer: &mut TraceWriter<W>,
    ) -> std::io::Result<()> {
        let template = program.template(id);
        let block = self.block(program, template.block, writer)?;
        writer.run_as(block, template.executed, program.sites_of(template), addresses)
    }

    fn block<W: Write>(
        &mut self,
        program: &Program,
        id: BlockId,
        writer: &mut TraceWriter<W>,
    ) -> std::io::Result<BlockId> {
        if let Some(&known) = self.blocks.get(&id) {
            return Ok(known);
        }
        let block = program.block(id);
        let instrs = program.instrs_of(block);
        let lengths: Vec<u8> = instrs.iter().map(|i| i.len).collect();
        let code = match self.file.code().get(id.0 as usize) {
            Some(bytes) if !self.decoded => Code::Bytes { bytes, lengths: &lengths },
            _ => Code::Decoded(instrs),
        };
        let new = writer.define_block(&BlockDef {
            pc: block.pc,
            phys: block.phys,
            phys_next_page: block.phys_next_page,
            kernel: block.kernel,
            code,
        })?;
        self.blocks.insert(id, new);
        Ok(new)
    }
}

/// Time and kind of the last use of each line.
#[derive(Default)]
pub(crate) struct History {
    clock: u64,
    lines: HashMap<u64, (u64, WarmLine)>,
}

impl History {
    pub(crate) fn run(&mut self, program: &Program, template: &Template, addresses: &[Address]) {
        let block = program.block(template.block);
        let mut last = None;
        // Code before data, though they alternate: that order is lost within one block only.
        for instr in &program.instrs_of(block)[..usize::from(template.executed)] {
            let line = Program::instr_phys(block, instr).line();
            if last.replace(line) != Some(line) {
                self.touch(line, true, false, block.kernel);
            }
        }
        for (site, address) in program.sites_of(template).iter().zip(addresses) {
            self.touch(address.phys.line(), false, site.write, block.kernel);
        }
    }

    fn touch(&mut self, line: LineAddr, code: bool, write: bool, kernel: bool) {
        self.clock += 1;
        let fresh = WarmLine { line, code, dirty: write, kernel };
        let entry = self.lines.entry(line.0).or_insert((0, fresh));
        let dirty = entry.1.dirty || write;
        *entry = (self.clock, WarmLine { dirty, ..fresh });
    }

    pub(crate) fn warm_set(self, most: usize) -> WarmSet {
        let mut all: Vec<(u64, WarmLine)> = self.lines.into_values().collect();
        all.sort_by_key(|&(at, _)| at);
        let first = all.len().saturating_sub(most);
        WarmSet { lines: all[first..].iter().map(|&(_, line)| line).collect() }
    }
}
