//! What the kernel does in a trace: how often it is entered and why, for how long, and what it does
//! to the caches (Nellans 2014, Sec 4.1 to 4.3 and Ch. 5 introduction).
//!
//! A **kernel invocation** is a longest sequence of instructions retired with kernel privilege.
//! Interrupts and exceptions that arrive inside lengthen it (Sec 4.6.2), and so do the idle loop
//! and other programs' kernel code after a switch. Between two invocations lies a **user run**. The
//! runs of each CPU of the recorded machine are followed apart; their caches are those of one core.
//!
//! A miss belongs to the privilege of the instruction that missed, a line to the privilege of the
//! access that brought it in. Caches are LRU, allocate on writes and do not include one another;
//! there is no time, no prefetching, and write-backs are not accesses, so counts differ a little
//! from those of the simulated chip.

mod footprint;
mod levels;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use halfwink_trace::{Event, Item, Program, RepeatFold, Source, Template, TraceError, WarmSet};
use halfwink_units::Asid;

pub use footprint::Footprint;
pub use levels::LevelCounts;
pub use runs::{Entry, EntryProfile, Lengths};

use crate::lines::LineWalk;
use crate::machine::{Geometry, Machine};
use footprint::Touched;
use levels::Hierarchy;
use runs::{Entries, Follower};

/// The caches to look at. They see physical addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileCaches {
    /// Shape of the first-level instruction cache.
    pub l1i: Geometry,
    /// Shape of the first-level data cache.
    pub l1d: Geometry,
    /// Second level and further, each for instructions and data.
    pub unified: Vec<Geometry>,
}

impl ProfileCaches {
    /// Returns the caches of one core of a machine, with the shared cache for itself alone.
    #[must_use]
    pub fn of(machine: &Machine) -> ProfileCaches {
        ProfileCaches {
            l1i: machine.l1i.geometry,
            l1d: machine.l1d.geometry,
            unified: std::iter::once(machine.l2.geometry).chain(machine.l3.geometry).collect(),
        }
    }
}

/// Greatest lengths, in instructions, of the classes into which evictions by the kernel are sorted;
/// a last class has no bound. The boundaries that the prose of Nellans 2014, Sec 4.2 and 4.3 names.
pub const LENGTH_CLASSES: [u64; 4] = [25, 100, 1_000, 10_000];

/// Profile of a cache level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelProfile {
    /// Counters of accesses, misses and evictions.
    pub counts: LevelCounts,
    /// Evictions by the kernel, by the length of the invocation that caused them
    /// ([`LENGTH_CLASSES`]), then by whose line left (user, kernel).
    pub by_length: [[u64; 2]; LENGTH_CLASSES.len() + 1],
}

/// Profile of the kernel's work in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsProfile {
    /// Retired instructions (user, kernel); iterations of a repeated string instruction are one.
    pub instructions: [u64; 2],
    /// Kernel invocations by cause.
    pub entries: BTreeMap<Entry, EntryProfile>,
    /// L1I, L1D, then the further levels.
    pub levels: Vec<LevelProfile>,
    /// Number of distinct lines touched.
    pub footprint: Footprint,
    /// Times that a CPU went to other page tables than it had before.
    pub address_space_switches: u64,
}

impl OsProfile {
    /// Lengths of all kernel invocations; their sum is all kernel instructions.
    #[must_use]
    pub fn kernel_lengths(&self) -> Lengths {
        self.sum(|entry| &entry.kernel)
    }

    /// Lengths of all user runs; their sum is all user instructions.
    #[must_use]
    pub fn user_lengths(&self) -> Lengths {
        self.sum(|entry| &entry.user)
    }

    fn sum(&self, of: impl Fn(&EntryProfile) -> &Lengths) -> Lengths {
        let mut all = Lengths::default();
        self.entries.values().for_each(|entry| all.add(of(entry)));
        all
    }
}

/// Plays `source` to its end, with caches that hold `warm` at first.
///
/// # Errors
/// If the trace is damaged.
pub fn os_profile(
    source: &mut dyn Source,
    warm: &WarmSet,
    caches: &ProfileCaches,
) -> Result<OsProfile, TraceError> {
    let program = Arc::clone(source.program());
    let mut fold = RepeatFold::default();
    let mut profiler = Profiler::new(warm, caches);
    loop {
        match source.next_item()? {
            Item::Run(id) => {
                let repeat = fold.is_repeat(&program, id);
                let template = program.template(id);
                let retired = u64::from(template.executed) - u64::from(repeat);
                profiler.retire(program.block(template.block).kernel, retired);
                profiler.touch(&program, template, source, repeat);
            }
            Item::Event(Event::Cpu(cpu)) => profiler.switch_cpu(cpu),
            Item::Event(Event::AddressSpace(space)) => profiler.switch_space(space),
            Item::Event(event) => profiler.cpus.entry(profiler.cpu).or_default().run.event(&event),
            Item::End => return Ok(profiler.finish()),
        }
    }
}

/// Plays `source` to its end and looks at runs alone, not at caches: levels and footprint of the
/// result are empty.
///
/// # Errors
/// If the trace is damaged.
pub fn run_profile(source: &mut dyn Source) -> Result<OsProfile, TraceError> {
    let program = Arc::clone(source.program());
    let mut fold = RepeatFold::default();
    let mut profile = OsProfile::default();
    let mut current = 0;
    let mut cpus: BTreeMap<u16, Cpu> = BTreeMap::from([(0, Cpu::default())]);
    loop {
        let item = source.next_item()?;
        if let Item::Event(Event::Cpu(number)) = item {
            current = number;
        }
        let cpu = cpus.entry(current).or_default();
        match item {
            Item::Run(id) => {
                let repeat = fold.is_repeat(&program, id);
                let template = program.template(id);
                let kernel = program.block(template.block).kernel;
                let retired = u64::from(template.executed) - u64::from(repeat);
                profile.instructions[usize::from(kernel)] += retired;
                cpu.run.retire(kernel, retired, &mut profile.entries);
            }
            Item::Event(Event::AddressSpace(space)) => {
                let before = cpu.space.replace(space);
                profile.address_space_switches += u64::from(before.is_some_and(|b| b != space));
            }
            Item::Event(event) => cpu.run.event(&event),
            Item::End => break,
        }
    }
    for cpu in cpus.values_mut() {
        cpu.run.close(&mut profile.entries);
    }
    Ok(profile)
}

/// Evictions by the kernel, by level and owner, that wait for the length of their invocation.
type Waiting = Vec<[u64; 2]>;

#[derive(Default)]
struct Cpu {
    run: Follower,
    evictions: Waiting,
    /// The page tables in use, once the trace has said so.
    space: Option<Asid>,
}

struct Profiler {
    cpu: u16,
    cpus: BTreeMap<u16, Cpu>,
    instructions: [u64; 2],
    switches: u64,
    entries: Entries,
    hierarchy: Hierarchy,
    /// Evictions by the kernel that have been given to an invocation.
    given: Waiting,
    by_length: Vec<[[u64; 2]; LENGTH_CLASSES.len() + 1]>,
    touched: Touched,
    walk: LineWalk,
}

impl Profiler {
    fn new(warm: &WarmSet, caches: &ProfileCaches) -> Profiler {
        let mut hierarchy = Hierarchy::new(caches.l1i, caches.l1d, &caches.unified);
        for entry in &warm.lines {
            hierarchy.warm(entry.code, entry.line.0, usize::from(entry.kernel));
        }
        let levels = 2 + caches.unified.len();
        Profiler {
            cpu: 0,
            cpus: BTreeMap::new(),
            instructions: [0; 2],
            switches: 0,
            entries: Entries::new(),
            hierarchy,
            given: vec![[0; 2]; levels],
            by_length: vec![[[0; 2]; LENGTH_CLASSES.len() + 1]; levels],
            touched: Touched::new(),
            walk: LineWalk::new(),
        }
    }

    fn retire(&mut self, kernel: bool, retired: u64) {
        self.instructions[usize::from(kernel)] += retired;
        let cpu = self.cpus.entry(self.cpu).or_default();
        if let Some(length) = cpu.run.retire(kernel, retired, &mut self.entries) {
            self.settle();
            self.sort(self.cpu, length);
        }
    }

    /// Gives the evictions by the kernel since the last call to the current CPU.
    fn settle(&mut self) {
        let waiting = &mut self.cpus.entry(self.cpu).or_default().evictions;
        waiting.resize(self.given.len(), [0; 2]);
        for ((given, waiting), now) in
            self.given.iter_mut().zip(waiting).zip(self.hierarchy.counts())
        {
            for owner in 0..2 {
                waiting[owner] += now.evictions[1][owner] - given[owner];
            }
            *given = now.evictions[1];
        }
    }

    /// Files what waits at a CPU under the length of its invocation.
    fn sort(&mut self, cpu: u16, length: u64) {
        let class = LENGTH_CLASSES.partition_point(|&most| most < length);
        let waiting = std::mem::take(&mut self.cpus.entry(cpu).or_default().evictions);
        for (by_length, waiting) in self.by_length.iter_mut().zip(waiting) {
            by_length[class][0] += waiting[0];
            by_length[class][1] += waiting[1];
        }
    }

    fn switch_cpu(&mut self, cpu: u16) {
        self.settle();
        self.cpu = cpu;
    }

    fn switch_space(&mut self, space: Asid) {
        let before = self.cpus.entry(self.cpu).or_default().space.replace(space);
        self.switches += u64::from(before.is_some_and(|before| before != space));
    }

    fn touch(&mut self, program: &Program, template: &Template, source: &dyn Source, repeat: bool) {
        let mode = usize::from(program.block(template.block).kernel);
        let Profiler { walk, hierarchy, touched, .. } = self;
        walk.walk(program, template, source.addresses(), repeat, |touch| {
            hierarchy.access(touch.code, touch.line, mode);
            touched.touch(touch.line, mode);
        });
    }

    fn finish(mut self) -> OsProfile {
        self.settle();
        let cpus: Vec<u16> = self.cpus.keys().copied().collect();
        for cpu in cpus {
            let run = &mut self.cpus.entry(cpu).or_default().run;
            // Kernel accesses that no instruction followed count as an invocation of none.
            let length = run.close(&mut self.entries).unwrap_or(0);
            self.sort(cpu, length);
        }
        let counts = self.hierarchy.counts().zip(self.by_length);
        OsProfile {
            instructions: self.instructions,
            entries: self.entries,
            levels: counts.map(|(counts, by_length)| LevelProfile { counts, by_length }).collect(),
            footprint: self.touched.footprint(),
            address_space_switches: self.switches,
        }
    }
}
