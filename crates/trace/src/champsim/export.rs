//! From a trace to ChampSim records.

use std::io::{BufWriter, Write};

use super::{Compression, Record, FLAGS, INSTRUCTION_POINTER, STACK_POINTER};
use crate::error::{Problem, TraceError};
use crate::format::TraceFile;
use crate::program::{Program, Template};
use crate::record::{Branch, Instr, RegSet};
use crate::source::{Address, Item, Source};

/// Options of an export.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions {
    /// Writes user instructions.
    pub user: bool,
    /// Writes kernel instructions.
    pub kernel: bool,
    /// Instructions to write at most.
    pub limit: Option<u64>,
}

/// Counters of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Number of records written.
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
    // The last record of a run is held back until the next run that is written tells where its
    // branch went: what interrupts user code is not where it goes.
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
        if !(if block.kernel { options.kernel } else { options.user }) {
            continue;
        }
        if let Some((mut record, fall_through)) = held.take() {
            record.taken = record.is_branch && block.pc.0 != fall_through;
            put(&record, &mut done)?;
        }
        let records = records_of(&program, template, stream.addresses(), &mut done);
        let Some((last, before)) = records.split_last() else { continue };
        for record in before.iter().take((limit - done.records) as usize) {
            put(record, &mut done)?;
        }
        let instrs = program.instrs_of(block);
        let instr = &instrs[usize::from(template.executed) - 1];
        let fall_through = block.end_of(instr);
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
    let mut records: Vec<Record> = executed.iter().map(|i| record_of(block.pc_of(i), i)).collect();
    for (site, address) in program.sites_of(template).iter().zip(addresses) {
        let Some(record) = records.get_mut(usize::from(site.instr)) else { continue };
        let places: &mut [u64] =
            if site.write { &mut record.stores[..2] } else { &mut record.loads };
        // Zero is an empty place in ChampSim's records, so an access to address zero is none there.
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
        results: [take(&results, 0), take(&results, 1), 0, 0],
        sources: [0, 1, 2, 3].map(|n| take(&sources, n)),
        stores: [0; 4],
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
