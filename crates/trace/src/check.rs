//! Reading a whole trace to see whether it can be true.

use std::collections::HashMap;

use crate::error::{corrupt, TraceError};
use crate::event::Event;
use crate::format::{SectionInfo, TraceFile};
use crate::program::{Program, TemplateId};
use crate::record::{Branch, InstrFlags};
use crate::repeat::RepeatFold;
use crate::source::{Item, Source};

/// Counters of a complete read of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Chunks whose checksums and columns are whole.
    pub chunks: u64,
    /// Instructions, by privilege (user, kernel).
    pub instructions: [u64; 2],
    /// Number of executed blocks.
    pub runs: u64,
    /// Number of memory accesses.
    pub accesses: u64,
    /// Successions of runs that neither a branch, nor the next address, nor an event explains.
    pub unexplained: u64,
    /// Accesses through the direct map of physical memory, and those whose physical address is not
    /// what the map says.
    pub direct_map: u64,
    /// Number of wrong addresses: see `direct_map`.
    pub direct_map_wrong: u64,
    /// Requests that end without having begun, or begin twice.
    pub stray_requests: u64,
}

/// Reads everything and compares with what the file says of itself.
///
/// # Errors
/// If anything is damaged, or if the counts in the footer are not those of the chunks.
pub fn check(file: &TraceFile) -> Result<CheckReport, TraceError> {
    let mut report = CheckReport::default();
    let mut stream = file.stream();
    let program = std::sync::Arc::clone(stream.program());
    let mut flow = Flow::default();
    let mut requests: HashMap<u64, ()> = HashMap::new();
    loop {
        match stream.next_item()? {
            Item::Run(id) => {
                flow.run(&program, id, &mut report);
                count_accesses(file, &stream, &mut report);
            }
            Item::Event(event) => {
                flow.event(&event);
                match event {
                    Event::RequestBegin { id, .. } if requests.insert(id, ()).is_some() => {
                        report.stray_requests += 1;
                    }
                    Event::RequestEnd { id, .. } if requests.remove(&id).is_none() => {
                        report.stray_requests += 1;
                    }
                    _ => {}
                }
            }
            Item::End => break,
        }
    }
    report.chunks = file.footer().sections.iter().filter(|s| s.chunk.is_some()).count() as u64;
    file.warm()?;
    compare(file, &report)?;
    Ok(report)
}

fn count_accesses(file: &TraceFile, stream: &impl Source, report: &mut CheckReport) {
    report.accesses += stream.addresses().len() as u64;
    let Some(map) = file.header().direct_map else { return };
    for address in stream.addresses() {
        let offset = address.virt.0.wrapping_sub(map.virt_base);
        if offset < map.bytes {
            report.direct_map += 1;
            report.direct_map_wrong += u64::from(address.phys.0 != offset);
        }
    }
}

fn compare(file: &TraceFile, report: &CheckReport) -> Result<(), TraceError> {
    let totals = &file.footer().totals;
    let instructions: u64 = report.instructions.iter().sum();
    let pairs = [
        ("instructions", totals.instructions, instructions),
        ("kernel instructions", totals.kernel_instructions, report.instructions[1]),
        ("runs", totals.runs, report.runs),
        ("accesses", totals.accesses, report.accesses),
    ];
    for (what, said, found) in pairs {
        if said != found {
            let why = format!("it announces {said} {what}, the chunks hold {found}");
            return Err(corrupt(file.bytes(), "the footer", why));
        }
    }
    let indexed: u64 = file.footer().sections.iter().filter_map(chunk_instructions).sum();
    if indexed != instructions {
        let why =
            format!("its index announces {indexed} instructions, the chunks hold {instructions}");
        return Err(corrupt(file.bytes(), "the footer", why));
    }
    Ok(())
}

fn chunk_instructions(section: &SectionInfo) -> Option<u64> {
    section.chunk.map(|chunk| chunk.instructions)
}

/// Follows control from run to run.
#[derive(Default)]
struct Flow {
    fold: RepeatFold,
    /// Address at which the next run must start, unless an event explains another one.
    expected: Option<u64>,
    /// A repeated instruction may go on instead.
    repeating: Option<u64>,
    excused: bool,
}

impl Flow {
    fn event(&mut self, event: &Event) {
        let excuses = matches!(
            event,
            Event::Interrupt { .. } | Event::Exception { .. } | Event::Idle { .. } | Event::Cpu(_)
        );
        self.excused |= excuses;
    }

    fn run(&mut self, program: &Program, id: TemplateId, report: &mut CheckReport) {
        let template = program.template(id);
        let block = program.block(template.block);
        let repeat = self.fold.is_repeat(program, id);
        let mode = usize::from(block.kernel);
        report.instructions[mode] += u64::from(template.executed) - u64::from(repeat);
        report.runs += 1;
        let explained = self.excused
            || self.expected.is_none_or(|pc| pc == block.pc.0)
            || self.repeating == Some(block.pc.0);
        report.unexplained += u64::from(!explained);
        self.excused = false;
        let executed = &program.instrs_of(block)[..usize::from(template.executed)];
        let Some(last) = executed.last() else {
            self.expected = Some(block.pc.0);
            self.repeating = None;
            return;
        };
        // A foreign trace may hold any address.
        let at = block.pc_of(last);
        self.repeating = last.flags.has(InstrFlags::REP).then_some(at);
        self.expected = (last.branch == Branch::None).then(|| block.end_of(last));
    }
}
