//! Tests of the whole chip, by area: hand-computed cycles, exactness, gating, contention, requests.

mod exact;
mod faults;
mod fetch;
mod followers;
mod fused;
mod gating;
mod hand;
mod losing;
mod matched;
mod os_cores;
mod package;
mod prefetch;
mod preheat;
mod requests;
mod segregation;
mod shared;
mod shared_text;
mod strings;
mod threads;
mod translation;
mod ultrasparc;
mod units;

use std::sync::Arc;

use halfwink_engine::{Input, RunControl};
use halfwink_policy::gating::{
    AdaptiveIdle, AlwaysOn, Estimate, Expectation, Fupg, FupgParameters, GatingPolicy, IdleGate,
    MapgCounter, MapgParameters, Oracle, Switching, SwitchingParameters, Tap, WakeFor,
};
use halfwink_trace::{
    Address, Block, BlockId, Branch, Instr, Kind, LoadKind, Program, RegSet, Script, Site, Source,
    TemplateId, WarmLine, WarmSet,
};
use halfwink_units::{LineAddr, PhysAddr, Time, VirtAddr};

use crate::chip::Chip;
use crate::{ChipError, CodeCache, Machine, MapgSpec, Options, RunResult, Task, UnitDomains};

/// A machine whose times are easy to add up: 1 GHz, so that a cycle is a nanosecond.
///
/// first level 1, second level +4, third level +10; a miss there +3, then a closed bank 10 + 10 +
/// 4, then +2: 5, 15 and 44 ns from load to use.
const SIMPLE: &str = r#"
schema = 1
description = "test"
[chip]
cores = 4
clock_ghz = 1.0
[core]
kind = "in-order"
width = 2
store_queue = 4
refill_cycles = 4
syscall_cycles = 10
atomic_cycles = 6
[core.units]
alu = 2
multiply = 1
fp = 1
memory = 1
[core.latency_cycles]
alu = 1
multiply = 7
divide = 20
vector = 2
fp_add = 4
fp_multiply = 5
fp_divide = 15
[branch]
predictor = "bimodal"
indirect_entries = 16
return_entries = 8
[l1i]
size = "4KB"
ways = 2
latency_cycles = 1
mshrs = 1
[l1d]
size = "4KB"
ways = 2
latency_cycles = 1
mshrs = 2
[l2]
size = "16KB"
ways = 4
latency_ns = 4.0
[l3]
size = "64KB"
ways = 8
latency_ns = 10.0
banks = 1
occupancy_ns = 1.0
[memory]
channels = 1
ranks = 1
map = "row-rank-bank-column-group"
hash = "none"
page = "open"
queue = 8
drain_at = 8
drain_to = 0
idle_drain = 2
hit_cap = 4
patience = 256
forward = 10
request_ns = 3.0
response_ns = 2.0
[memory.device]
source = "round numbers"
clock_ps = 1000
groups = 1
banks = 8
row_bytes = 4096
[memory.device.timing]
burst = 4
t_cl = 10
t_cwl = 10
t_rcd = 10
t_rp = 10
t_ras = 30
t_wr = 10
t_rtp = 5
t_ccd_l = 4
t_ccd_s = 4
t_rrd_l = 4
t_rrd_s = 4
t_faw = 20
t_wtr_l = 4
t_wtr_s = 4
t_rtrs = 0
t_rfc = 60
t_refi = 0
[tokens]
l1_ns = 1.0
l2_ns = 5.0
l3_ns = 15.0
eta_ns = 2.0
[gating]
entry_cycles = 1
wake_up_ns = 4.0
control_cycles = 1
refill_cycles = 2
wake_up_energy_pj = 1955
leakage_reduction = 0.9775
retention_overhead = 0.0
[fupg]
core_share = 0.5
wake_up_ns = 6.0
wake_up_energy_pj = 1000
[dvfs]
frequencies = [1.0, 0.5]
voltage_slope = 0.4
[wake_up]
controller = "fixed"
slots = 5
stagger_ns = 1.0
delay_ns = 3.0
fastest_ns = 2.0
slowest_ns = 8.0
modes = 4
equation = [{ cores = 1, t0_ns = 2.0, alpha = 0.5, beta = 0.5, gamma = 0.0, delta = 0.0 }]
[os]
cores = 1
like = ""
switch_cycles = 200
transfer_ns = 5.0
power_down = true
time_slice_us = 0
[mapg]
t_llc_ns = 15.0
t_mem_ns = 20.0
[power.core]
leakage_w = 1.0
clock_w = 0.5
stalled_clock_w = 0.1
[power.core.event_pj]
uop = 100
alu = 20
multiply = 50
fp = 80
l1i_access = 30
l1d_access = 40
l2_access = 100
mispredict = 300
[power.l3]
leakage_w = 0.5
access_pj = 500
[power.memory]
closed_w = 0.5
open_w = 0.5
activate_pj = 20000
read_pj = 10000
write_pj = 11000
refresh_pj = 0
"#;

fn simple(kind: &str) -> Machine {
    let text = match kind {
        "in-order" => SIMPLE.to_owned(),
        _ => SIMPLE.replace(
            "kind = \"in-order\"",
            "kind = \"out-of-order\"\nwindow = 16\ninteger_queue = 8\nfp_queue = 8\nload_queue = 8",
        ),
    };
    Machine::parse(&Input::new("simple", text)).unwrap()
}

const KINDS: [&str; 2] = ["in-order", "out-of-order"];

const CODE: u64 = 0x1_0000;
const FLAGS: u32 = 16;

/// Blocks and what is done with them.
#[derive(Default)]
struct Writer {
    program: Program,
    pc: u64,
    lines: Vec<u64>,
}

/// An instruction to be laid out.
#[derive(Clone, Copy)]
struct Step {
    kind: Kind,
    reads: u64,
    writes: u64,
    base: u64,
    access: Option<bool>,
    branch: Branch,
}

/// Computes `to` from `from` (register numbers).
fn op(kind: Kind, to: u32, from: &[u32]) -> Step {
    let reads = from.iter().map(|r| 1 << r).sum();
    Step { kind, reads, writes: 1 << to, base: 0, access: None, branch: Branch::None }
}

fn alu(to: u32, from: &[u32]) -> Step {
    op(Kind::IntAlu, to, from)
}

/// Loads `to` from where `base` points.
fn load(to: u32, base: u32) -> Step {
    Step { base: 1 << base, access: Some(false), ..op(Kind::Move, to, &[]) }
}

/// Stores `value` where `base` points.
fn store(value: u32, base: u32) -> Step {
    let step = op(Kind::Move, 0, &[value]);
    Step { writes: 0, base: 1 << base, access: Some(true), ..step }
}

fn jump_if(flags_from: u32) -> Step {
    let step = op(Kind::Branch, 0, &[flags_from]);
    Step { writes: 0, branch: Branch::Conditional, ..step }
}

impl Writer {
    fn new() -> Writer {
        Writer { pc: CODE, ..Writer::default() }
    }

    /// A block behind the last one, four bytes to an instruction.
    fn block(&mut self, steps: &[Step]) -> TemplateId {
        self.block_at(self.pc, false, steps)
    }

    fn block_at(&mut self, pc: u64, kernel: bool, steps: &[Step]) -> TemplateId {
        let mut sites = Vec::new();
        let instrs: Vec<Instr> = steps
            .iter()
            .enumerate()
            .map(|(n, step)| {
                if let Some(write) = step.access {
                    sites.push(Site { instr: n as u16, size: 8, write, group: 0 });
                }
                Instr {
                    kind: step.kind,
                    reads: RegSet(step.reads | step.base),
                    writes: RegSet(step.writes),
                    address: RegSet(step.base),
                    branch: step.branch,
                    ..Instr::nop(4 * n as u16, 4)
                }
            })
            .collect();
        self.pc = pc + 4 * steps.len() as u64;
        let lines = (pc >> 6)..=((self.pc - 1) >> 6);
        self.lines.extend(lines);
        let block = Block {
            pc: VirtAddr(pc),
            phys: PhysAddr(pc),
            phys_next_page: PhysAddr((pc | 0xfff) + 1),
            kernel,
            first_instr: 0,
            instrs: 0,
        };
        let block: BlockId = self.program.push_block(block, &instrs);
        self.program.push_template(block, steps.len() as u16, &sites)
    }

    fn script(self) -> (Script, Vec<u64>) {
        (Script::new(Arc::new(self.program)), self.lines)
    }
}

fn at(byte: u64) -> Address {
    Address { virt: VirtAddr(byte), phys: PhysAddr(byte) }
}

/// Where data lies that no test puts into a cache beforehand.
const COLD: u64 = 0x20_0000;
/// Where data lies that [`warm`] can put into a level.
const DATA: u64 = 0x10_0000;

/// Lines in the caches before a run: code and data in the first level.
fn warm(code: &[u64], data: &[u64]) -> Arc<WarmSet> {
    let line = |n: u64, code| WarmLine { line: LineAddr(n), code, dirty: false, kernel: false };
    let code = code.iter().map(|&n| line(n, true));
    let data = data.iter().map(|&byte| line(byte >> 6, false));
    Arc::new(WarmSet { lines: code.chain(data).collect() })
}

fn task(source: impl Source + 'static, warm: Arc<WarmSet>) -> Task {
    Task {
        source: Box::new(source),
        warm,
        load: LoadKind::Closed,
        limit: u64::MAX,
        start: Time::ZERO,
        shared: None,
        thread: None,
    }
}

/// All techniques; the last two gate units in place of cores.
const TECHNIQUES: [&str; 11] = [
    "always-on",
    "idle-gate",
    "mapg-counter",
    "tap",
    "oracle",
    "tap-last",
    "tap-counted",
    "tap-or-mapg",
    "idle-adaptive",
    "fupg",
    "fupg-one",
];
/// Number of techniques that gate cores.
const GATES_CORES: usize = TECHNIQUES.len() - 2;

/// The machine as a technique has it.
fn adapted(machine: &Machine, technique: &str) -> Machine {
    let mut machine = machine.clone();
    match technique {
        "fupg" => machine.with_gated_units(),
        "fupg-one" => {
            machine.fupg.domains = UnitDomains::One;
            machine.with_gated_units()
        }
        _ => machine,
    }
}

fn policy(machine: &Machine, technique: &str) -> GatingPolicy {
    let costs = machine.gating_costs(0);
    match technique {
        "always-on" => Box::new(AlwaysOn),
        "idle-gate" => Box::new(IdleGate::new()),
        "idle-adaptive" => Box::new(AdaptiveIdle::new(costs)),
        "mapg-counter" => Box::new(MapgCounter::new(costs, mapg(machine))),
        "tap" => Box::new(Tap::new(costs, machine.token_entries())),
        "oracle" => Box::new(Oracle::new(costs)),
        "tap-last" => {
            let tap = Tap::new(costs, machine.token_entries());
            Box::new(tap.waking_for(WakeFor::LastResponse))
        }
        "tap-counted" => {
            let tap = Tap::new(costs, machine.token_entries());
            Box::new(tap.hearing(Estimate::Counted))
        }
        "tap-or-mapg" => {
            let parameters = SwitchingParameters { window: Time::ns(1_000), round: 5 };
            let tap = Tap::new(costs, machine.token_entries());
            let mapg = MapgCounter::new(costs, mapg(machine));
            Box::new(Switching::new(costs, parameters, tap, mapg))
        }
        "fupg" | "fupg-one" => Box::new(Fupg::new(FUPG)),
        other => panic!("no technique {other}"),
    }
}

const FUPG: FupgParameters =
    FupgParameters { idle: Time::ns(5), window: Time::ns(10_000), budget: Time::ns(200) };

fn mapg(machine: &Machine) -> MapgParameters {
    let MapgSpec { t_llc, t_mem } = machine.mapg;
    MapgParameters { t_llc, t_mem, expectation: Expectation::Memory }
}

/// How a chip is run, where it must not matter.
#[derive(Clone, Copy)]
struct How {
    never_skip: bool,
    quantum: Option<Time>,
}

const USUAL: How = How { never_skip: false, quantum: None };

fn try_run(
    machine: &Machine,
    technique: &str,
    tasks: Vec<Task>,
    how: How,
) -> Result<RunResult, ChipError> {
    let make = |_| policy(machine, technique);
    let retention = technique != "always-on";
    let timeline = Some((Time::ZERO, Time::ns(10_000)));
    let machine = adapted(machine, technique);
    play(&machine, tasks, &Options { retention, timeline, ..Options::new(&make) }, how)
}

fn play(
    machine: &Machine,
    tasks: Vec<Task>,
    options: &Options<'_>,
    how: How,
) -> Result<RunResult, ChipError> {
    let mut chip = Chip::new(machine, tasks, options, &[], &mut CodeCache::new())?;
    if let Some(quantum) = how.quantum {
        chip.quantum = quantum;
    }
    if how.never_skip {
        chip.cores.iter_mut().for_each(crate::core::Core::never_skip);
    }
    chip.play(&RunControl::new())?;
    Ok(chip.finish()?.0)
}

fn run(machine: &Machine, technique: &str, tasks: Vec<Task>) -> RunResult {
    try_run(machine, technique, tasks, USUAL).unwrap()
}

/// Nanoseconds until the last core is done.
fn ns(result: &RunResult) -> u64 {
    assert_eq!(result.duration.0 % 1000, 0);
    result.duration.0 / 1000
}
