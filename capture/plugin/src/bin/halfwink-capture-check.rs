// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks a captured trace from the file alone, without what the recorder knew: does control flow
//! continue, do addresses agree, does time add up?

use std::path::Path;
use std::process::ExitCode;

use halfwink_capture_plugin::block::{BlockInfo, Definition};
use halfwink_trace::{Event, Item, Source, TemplateId, TraceError, TraceFile};
use serde_json::{json, Value};

/// Linux maps its own text here; without randomisation `phys = virt - KERNEL_MAP`.
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;
/// Kernel text without modules.
const KERNEL_TEXT: std::ops::Range<u64> = KERNEL_MAP + (16 << 20)..KERNEL_MAP + (64 << 20);
const EXAMPLES: usize = 5;

/// The run that came last.
#[derive(Clone, Copy)]
struct Last {
    block: usize,
    executed: u16,
}

#[derive(Default)]
struct Check {
    runs: u64,
    retired: u64,
    unexplained: u64,
    examples: Vec<String>,
    direct_map: (u64, u64),
    text: (u64, u64),
    idle_gaps: (u64, u64),
    worst_gap_ns: u64,
    requests_out_of_order: u64,
    begin_times: (u64, u64, u64),
    idle_to: Option<(u64, u64)>,
    latencies_ns: Vec<u64>,
    open: std::collections::HashMap<u64, u64>,
}

impl Check {
    fn event(&mut self, event: &Event) {
        match *event {
            Event::Idle { from_ns, to_ns } => {
                // Between two idle periods every iteration takes a nanosecond.
                if let Some((to, retired)) = self.idle_to {
                    let expected = to + (self.retired - retired);
                    self.idle_gaps.0 += 1;
                    self.idle_gaps.1 += u64::from(expected != from_ns);
                    self.worst_gap_ns = self.worst_gap_ns.max(expected.abs_diff(from_ns));
                }
                self.idle_to = Some((to_ns, self.retired));
            }
            Event::RequestBegin { id, at_ns } => {
                let (count, first, last) = &mut self.begin_times;
                if *count == 0 {
                    *first = at_ns;
                }
                *count += 1;
                *last = at_ns;
                self.open.insert(id, at_ns);
            }
            Event::RequestEnd { id, at_ns } => {
                if let Some(begin) = self.open.remove(&id) {
                    self.requests_out_of_order += u64::from(at_ns < begin);
                    self.latencies_ns.push(at_ns.saturating_sub(begin));
                }
            }
            _ => {}
        }
    }

    fn flow(&mut self, infos: &[BlockInfo], last: Last, now: usize, entry: Option<u8>) {
        let (before, pc) = (&infos[last.block], infos[now].pc);
        let whole = last.executed == before.count;
        let ok = match entry {
            Some(_) => true,
            None if whole => {
                before.before_block(pc, None).executed == before.count && before.leads_to(pc)
            }
            None => before.index_of(pc) == Some(last.executed),
        };
        // An exception or a fresh start needs no more; an interrupt only comes between blocks.
        if !ok {
            self.unexplained += 1;
            if self.examples.len() < EXAMPLES {
                self.examples.push(format!("{:#x} to {pc:#x}", before.pc));
            }
        }
    }

    fn report(&mut self) -> Value {
        self.latencies_ns.sort_unstable();
        let at = |q: f64| {
            let rank = (q * self.latencies_ns.len() as f64) as usize;
            self.latencies_ns.get(rank).copied().unwrap_or(0)
        };
        let (begun, first, last) = self.begin_times;
        let rate = (begun.max(1) - 1) as f64 * 1e9 / (last - first).max(1) as f64;
        json!({
            "runs": self.runs,
            "unexplained": self.unexplained,
            "examples": self.examples,
            "direct_map_accesses": self.direct_map.0,
            "direct_map_wrong": self.direct_map.1,
            "kernel_text_blocks": self.text.0,
            "kernel_text_wrong": self.text.1,
            "idle_gaps": self.idle_gaps.0,
            "idle_gaps_wrong": self.idle_gaps.1,
            "idle_gap_worst_ns": self.worst_gap_ns,
            "requests_ended_before_begun": self.requests_out_of_order,
            "requests_per_s": rate,
            "latency_p50_ns": at(0.5),
            "latency_p99_ns": at(0.99),
        })
    }
}

fn infos_of(file: &TraceFile) -> Vec<BlockInfo> {
    let program = file.program();
    let lengths = |i: usize| {
        program.instrs_of(&program.blocks[i]).iter().map(|instr| instr.len).collect::<Vec<u8>>()
    };
    let definition = |(i, bytes): (usize, &Vec<u8>)| Definition {
        pc: program.blocks[i].pc.0,
        phys: program.blocks[i].phys.0,
        phys_next_page: program.blocks[i].phys_next_page.0,
        bytes: bytes.clone(),
        lengths: lengths(i),
    };
    file.code().iter().enumerate().map(definition).map(|d| BlockInfo::new(&d)).collect()
}

fn check(path: &Path) -> Result<Value, TraceError> {
    let file = TraceFile::open(path)?;
    let infos = infos_of(&file);
    let program = file.program();
    let mut check = Check::default();
    for block in &program.blocks {
        if KERNEL_TEXT.contains(&block.pc.0) {
            check.text.0 += 1;
            check.text.1 += u64::from(block.phys.0 != block.pc.0 - KERNEL_MAP);
        }
    }
    let mut stream = file.stream();
    let (mut last, mut entry): (Option<Last>, Option<u8>) = (None, None);
    loop {
        match stream.next_item()? {
            Item::End => break,
            Item::Event(event) => {
                check.event(&event);
                match event {
                    Event::Interrupt { vector } | Event::Exception { vector } => {
                        entry = Some(vector);
                    }
                    _ => {}
                }
            }
            Item::Run(TemplateId(n)) => {
                let template = program.templates[n as usize];
                let now = template.block.0 as usize;
                if let Some(last) = last {
                    check.flow(&infos, last, now, entry.take());
                }
                check.runs += 1;
                check.retired += u64::from(template.executed);
                last = Some(Last { block: now, executed: template.executed });
                let Some(map) = file.header().direct_map else { continue };
                for address in stream.addresses() {
                    let offset = address.virt.0.wrapping_sub(map.virt_base);
                    if offset < map.bytes {
                        check.direct_map.0 += 1;
                        check.direct_map.1 += u64::from(offset != address.phys.0);
                    }
                }
            }
        }
    }
    Ok(check.report())
}

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: halfwink-capture-check FILE");
        return ExitCode::from(2);
    };
    match check(Path::new(&path)) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("halfwink-capture-check: {error}");
            ExitCode::FAILURE
        }
    }
}
