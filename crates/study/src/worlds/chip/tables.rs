//! What a run found out, as sums and tables.

use halfwink_chip::{
    add_calls, Calls, CoreResult, EnergyParts, GatedUnit, Machine, MemoryCounts, MemoryKind,
    Precision, PrefetchCounts, PrefetcherCounts, RunResult, TlbCounts,
};
use halfwink_engine::{Histogram, Mode};
use halfwink_policy::offload::{CallProfile, Cause};
use halfwink_power::CoreState;
use halfwink_trace::{exception_name, syscall_name};
use halfwink_units::{Energy, Time, LINE_BYTES};

use crate::table::{integer, real, text, Head, Table, Value};
use crate::worlds::common::{interval, Intervals};

/// Counts of caches, branches and memory, by component and mode.
pub(crate) const COUNTERS: [Head; 4] =
    [text("component"), text("counter"), integer("user"), integer("kernel")];

/// Stall lengths and latencies, as buckets.
pub(crate) const HISTOGRAMS: [Head; 4] =
    [text("histogram"), real("from_ns"), real("to_ns"), integer("count")];

/// States of the cores over time, if they were asked for.
pub(crate) const TIMELINE: [Head; 4] =
    [text("component"), text("state"), real("start_ns"), real("end_ns")];

/// Kernel invocations by cause and place, if the technique watches them.
pub(crate) const CALLS: [Head; 8] = [
    text("kind"),
    integer("number"),
    text("name"),
    text("place"),
    integer("invocations"),
    integer("instructions"),
    real("running_s"),
    real("taken_s"),
];

pub(crate) fn us(time: Time) -> f64 {
    time.as_ns() * 1e-3
}

/// Totals over the cores that had work.
pub(crate) struct Sums {
    pub(crate) instructions: u64,
    pub(crate) kernel_instructions: u64,
    pub(crate) uops: u64,
    pub(crate) requests: u64,
    pub(crate) latency: Histogram,
    pub(crate) stalls: Histogram,
    pub(crate) memory_stalls: Histogram,
    pub(crate) residency: [Time; CoreState::ALL.len()],
    pub(crate) run: Time,
    pub(crate) wakes: u64,
    pub(crate) halts: u64,
    pub(crate) late_wakes: u64,
    pub(crate) late: Time,
    pub(crate) most_outstanding: u64,
    /// Kernel invocations, by place (own core, OS core).
    pub(crate) invocations: [u64; 2],
    /// Time in which they ran, and for which they took the thread from its core.
    pub(crate) kernel_running: [Time; 2],
    pub(crate) kernel_taken: [Time; 2],
}

impl Sums {
    /// Returns the time in which cores are off or nearly so: gated by a technique, or in an idle
    /// state deeper than C1.
    pub(crate) fn gated(&self) -> Time {
        let off = |sum, &deep: &CoreState| sum + self.residency[deep as usize];
        CoreState::DEEP.iter().fold(self.residency[CoreState::Gated as usize], off)
    }

    pub(crate) fn of(result: &RunResult) -> Sums {
        let mut sums = Sums {
            instructions: 0,
            kernel_instructions: 0,
            uops: 0,
            requests: 0,
            latency: Histogram::default(),
            stalls: Histogram::default(),
            memory_stalls: Histogram::default(),
            residency: Default::default(),
            run: Time::ZERO,
            wakes: 0,
            halts: 0,
            late_wakes: 0,
            late: Time::ZERO,
            most_outstanding: 0,
            invocations: [0; 2],
            kernel_running: [Time::ZERO; 2],
            kernel_taken: [Time::ZERO; 2],
        };
        for core in &result.cores {
            sums.add(core);
        }
        // Their work, not their time: shares are of the run of threads, which begin on the other
        // cores.
        for core in &result.os_cores {
            sums.add_work(core);
        }
        sums
    }

    /// Adds the work that a core retired, wherever the thread began.
    fn add_work(&mut self, core: &CoreResult) {
        self.instructions += core.work.instructions.iter().sum::<u64>();
        self.kernel_instructions += core.work.instructions[1];
        self.uops += core.work.uops.iter().sum::<u64>();
        let outstanding = u64::from(core.caches.most_outstanding);
        // Cores have their most at different times, so that a sum would be of no time.
        self.most_outstanding = self.most_outstanding.max(outstanding);
    }

    fn add(&mut self, core: &CoreResult) {
        self.add_work(core);
        self.requests += core.requests;
        self.latency.add(&core.latency);
        self.stalls.add(&core.stalls);
        self.memory_stalls.add(&core.memory_stalls);
        for (sum, time) in self.residency.iter_mut().zip(core.residency) {
            *sum += time;
        }
        self.run += core.finished - core.started;
        self.wakes += core.wakes;
        self.halts += core.halts;
        self.late_wakes += core.late_wakes;
        self.late += core.late;
        for call in core.calls.values() {
            for place in 0..2 {
                self.invocations[place] += call.invocations[place];
                self.kernel_running[place] += call.running[place];
                self.kernel_taken[place] += call.taken[place];
            }
        }
    }
}

/// Returns the columns about the kernel, for techniques that watch it; shares are of the run time.
pub(crate) fn kernel_columns(result: &RunResult, sums: &Sums) -> Vec<(&'static str, Value)> {
    let share = |time: Time| Value::from(time.as_s() / sums.run.as_s());
    vec![
        ("os_cores", result.os_cores.len().into()),
        ("kernel_invocations", sums.invocations.iter().sum::<u64>().into()),
        ("moved_invocations", sums.invocations[1].into()),
        ("kernel_time_share", share(sums.kernel_running[0] + sums.kernel_running[1])),
        ("os_core_time_share", share(sums.kernel_running[1])),
        ("away_share", share(sums.kernel_taken[1])),
    ]
}

/// Columns of what the energy of [`working_energy`] went into; what is left are the events.
pub(crate) const ENERGY: [Head; 3] =
    [real("working_core_leakage_j"), real("working_core_clock_j"), real("working_core_wake_up_j")];

/// Returns the cells of these columns.
pub(crate) fn energy_columns(result: &RunResult) -> [(&'static str, Value); 3] {
    let sum = |part: fn(&EnergyParts) -> Energy| {
        let cores = result.cores.iter().chain(&result.os_cores);
        cores.map(|core| part(&core.energy)).sum::<Energy>().as_j()
    };
    let sums = [sum(|p| p.leakage), sum(|p| p.clock), sum(|p| p.wake_up)];
    let [leakage, clock, wake_up] = sums.map(Value::from);
    [(ENERGY[0].0, leakage), (ENERGY[1].0, clock), (ENERGY[2].0, wake_up)]
}

/// True for the name of a core, of either kind.
pub(crate) fn is_core(name: &str) -> bool {
    name.starts_with("core") || is_os_core(name)
}

fn is_os_core(name: &str) -> bool {
    name.starts_with("os")
}

/// Energy of the cores that had work, and of those that were there to help them, in joules.
pub(crate) fn working_energy(result: &RunResult) -> f64 {
    result.books.energy_where(|name| is_working(result, name)).as_j()
}

/// Returns whether a component is a core that has work in this run.
fn is_working(result: &RunResult, name: &str) -> bool {
    let number = name.strip_prefix("core").and_then(|n| n.parse().ok());
    // The ledger also has cores without work, as `core` with a higher number: they are unused.
    number.is_some_and(|n: usize| n < result.cores.len()) || is_os_core(name)
}

/// Returns the share of the time in which cores had work that they ran at all: the rest they
/// waited for memory, gated or not.
pub(crate) fn running_share(result: &RunResult) -> f64 {
    let mut sums = [Time::ZERO; 2];
    for (name, state, cause, row) in result.books.named_rows() {
        // Halts are left out: at a lower frequency a core halts less, and takes no longer for its
        // work.
        if is_working(result, name) && cause.mode != Mode::Idle {
            sums[usize::from(state.0 == CoreState::Active.name())] += row.time;
        }
    }
    let [waited, ran] = sums.map(Time::as_s);
    ran / (ran + waited)
}

/// Returns the bytes that memory moved, in both directions, for each second of the run, in 10^9
/// bytes.
pub(crate) fn memory_gb_s(result: &RunResult) -> f64 {
    let lines: u64 = result.memory.lines().iter().sum();
    (lines * LINE_BYTES) as f64 / result.duration.as_s() * 1e-9
}

/// Returns the mean time from a read's arrival at the controller to its data, if there is a
/// controller.
pub(crate) fn memory_read_mean_ns(machine: &Machine, result: &RunResult) -> Option<f64> {
    let MemoryKind::Dram(spec) = &machine.memory.kind else { return None };
    let memory = &result.memory;
    // Reads that the write queue answers never become lines, but their clocks are in the sum.
    let reads = memory.lines()[0] + memory.forwarded;
    let ns = (memory.read_clocks * spec.device.clock_ps) as f64 * 1e-3;
    (reads > 0).then(|| ns / reads as f64)
}

pub(crate) fn counter_table(result: &RunResult) -> Table {
    let mut table = Table::new(&COUNTERS);
    let mut push = |component: &str, counter: &str, [user, kernel]: [u64; 2]| {
        table.push(vec![component.into(), counter.into(), user.into(), kernel.into()]);
    };
    for (name, core) in named_cores(result) {
        let (caches, branches) = (&core.caches, &core.branches);
        for (counter, values) in [
            ("instructions", core.work.instructions),
            ("uops", core.work.uops),
            ("l1i.accesses", caches.l1i_accesses),
            ("l1i.misses", caches.l1i_misses),
            ("l1d.accesses", caches.l1d_accesses),
            ("l1d.misses", caches.l1d_misses),
            ("l2.accesses", caches.l2_accesses),
            ("l2.misses", caches.l2_misses),
            ("branches", branches.predicted),
            ("branches.mispredicted", branches.mispredicted),
        ] {
            push(&name, counter, values);
        }
        for (counter, values) in core_counters(core) {
            push(&name, &counter, values);
        }
        // What went wrong, where something did, is nobody's: it stands in the first column.
        for (counter, count) in core.faults.named().into_iter().filter(|(_, count)| *count > 0) {
            push(&name, counter, [count, 0]);
        }
        for (cache, counts) in prefetchers(&core.prefetch) {
            for (counter, count) in [
                ("issued", counts.issued),
                ("dropped", counts.dropped),
                ("useful", counts.useful),
                ("late", counts.late),
                ("useless", counts.useless),
                ("lookups", counts.lookups),
            ] {
                push(&name, &format!("{cache}.prefetch.{counter}"), [count, 0]);
            }
        }
    }
    push("l3", "accesses", result.l3.accesses);
    push("l3", "misses", result.l3.misses);
    push("l3", "cold_fills", result.l3.cold_fills);
    push("l3", "transfers", result.l3.transfers);
    push("l3", "upgrades", result.l3.upgrades);
    push("memory", "reads", result.memory.reads);
    push("memory", "writes", result.memory.writes);
    push("memory", "activates", result.memory.activates);
    // What no code asked for, where there was some of it.
    for (n, payer) in ["flush", "preheat", "device", "prefetch"].into_iter().enumerate() {
        let commands = result.memory.others[n];
        for (component, counter, count) in [
            ("l3", "accesses", result.l3.others[n]),
            ("memory", "activates", commands.activates),
            ("memory", "reads", commands.reads),
            ("memory", "writes", commands.writes),
        ] {
            if count > 0 {
                push(component, &format!("{payer}.{counter}"), [count, 0]);
            }
        }
    }
    for (counter, count) in of_controllers(&result.memory) {
        push("memory", counter, [count, 0]);
    }
    table
}

/// Returns what the controllers do of themselves. It belongs to no side, and stands in the first
/// column.
fn of_controllers(memory: &MemoryCounts) -> [(&'static str, u64); 5] {
    [
        ("refreshes", memory.refreshes),
        ("forwarded", memory.forwarded),
        ("merged", memory.merged),
        ("held", memory.held),
        ("queued_writes", memory.queued_writes),
    ]
}

/// Returns the counters of address translation, if it took anything, and of units that were gated
/// by themselves. The power of a unit belongs to no side, and stands in the first column.
fn core_counters(core: &CoreResult) -> Vec<(String, [u64; 2])> {
    let mut counters: Vec<(String, [u64; 2])> = Vec::new();
    counters.extend(tlb_counters(&core.tlb).into_iter().map(|(name, n)| (name.to_owned(), n)));
    for GatedUnit { name, gated, charging, wakes } in &core.gated_units {
        let of_unit = [("gated_ps", gated.0), ("charging_ps", charging.0), ("wakes", *wakes)];
        counters.extend(of_unit.map(|(counter, n)| (format!("{name}.{counter}"), [n, 0])));
    }
    counters
}

/// Returns the counters of address translation, if it took anything.
fn tlb_counters(tlb: &TlbCounts) -> Vec<(&'static str, [u64; 2])> {
    if *tlb == TlbCounts::default() {
        return Vec::new();
    }
    vec![
        ("itlb.accesses", tlb.instruction_accesses),
        ("itlb.misses", tlb.instruction_misses),
        ("dtlb.accesses", tlb.data_accesses),
        ("dtlb.misses", tlb.data_misses),
        ("tlb.walks", tlb.walks),
        ("tlb.walk_reads", tlb.walk_reads),
        ("tlb.walk_misses", tlb.walk_misses),
    ]
}

/// Returns prefetchers that were asked anything. What they do belongs to no side, and stands in the
/// first column.
fn prefetchers(counts: &PrefetchCounts) -> impl Iterator<Item = (&'static str, PrefetcherCounts)> {
    let all = [("l1i", counts.l1i), ("l1d", counts.l1d), ("l2", counts.l2)];
    all.into_iter().filter(|(_, counts)| *counts != PrefetcherCounts::default())
}

pub(crate) fn histogram_table(result: &RunResult) -> Table {
    let sums = Sums::of(result);
    let mut table = Table::new(&HISTOGRAMS);
    for (name, histogram) in
        [("stall", &sums.stalls), ("memory-stall", &sums.memory_stalls), ("latency", &sums.latency)]
    {
        for bucket in histogram.log_buckets(4) {
            let row = vec![
                name.into(),
                bucket.from.as_ns().into(),
                bucket.to.as_ns().into(),
                bucket.count.into(),
            ];
            table.push(row);
        }
    }
    table
}

pub(crate) fn timeline_table(machine: &Machine, result: &RunResult) -> Table {
    let mut table = Table::new(&TIMELINE);
    for (name, core) in named_cores(result) {
        for (state, start, end) in core.timeline.iter().flat_map(|t| &t.spans) {
            table.push(vec![
                name.as_str().into(),
                machine.state_name(*state).into(),
                start.as_ns().into(),
                end.as_ns().into(),
            ]);
        }
    }
    table
}

/// All cores, by their names in the ledger.
pub(super) fn named_cores(result: &RunResult) -> impl Iterator<Item = (String, &CoreResult)> {
    let cores = result.cores.iter().enumerate().map(|(n, core)| (format!("core{n}"), core));
    cores.chain(result.os_cores.iter().enumerate().map(|(n, core)| (format!("os{n}"), core)))
}

/// Kernel invocations of all threads, by cause.
pub(super) fn calls_of(result: &RunResult) -> Calls {
    let mut calls = Calls::new();
    result.cores.iter().for_each(|core| add_calls(&mut calls, &core.calls));
    calls
}

/// Kind, number and name of a cause.
fn names(cause: Option<Cause>) -> (&'static str, u64, String) {
    match cause {
        Some(Cause::SystemCall { number }) => {
            ("syscall", u64::from(number), syscall_name(number).to_owned())
        }
        Some(Cause::Interrupt { vector }) => {
            ("interrupt", u64::from(vector), format!("interrupt-{vector}"))
        }
        Some(Cause::Exception { vector }) => {
            ("exception", u64::from(vector), exception_name(vector).to_owned())
        }
        None => ("unexplained", 0, "unexplained".to_owned()),
    }
}

pub(crate) fn calls_table(result: &RunResult) -> Table {
    let mut table = Table::new(&CALLS);
    for call in calls_of(result).values() {
        let (kind, number, name) = names(call.cause);
        for (n, place) in ["own-core", "os-core"].into_iter().enumerate() {
            if call.invocations[n] > 0 {
                table.push(vec![
                    kind.into(),
                    number.into(),
                    Value::from(name.as_str()),
                    place.into(),
                    call.invocations[n].into(),
                    call.instructions[n].into(),
                    call.running[n].as_s().into(),
                    call.taken[n].as_s().into(),
                ]);
            }
        }
    }
    table
}

/// Returns a profile of each system call, in the cycles of the cores that it began on.
pub(crate) fn call_profile(result: &RunResult, machine: &Machine) -> Vec<CallProfile> {
    let calls = calls_of(result);
    let profile = calls.values().filter_map(|call| match call.cause {
        Some(Cause::SystemCall { number }) => Some(CallProfile {
            number,
            calls: call.invocations.iter().sum(),
            // The time is rounded up to cycles: a call that ran takes one at least.
            cycles: machine.clock.cycle_at_or_after(call.running[0] + call.running[1]),
        }),
        _ => None,
    });
    profile.collect()
}

/// How well figures for a unit of work are known.
pub(super) fn intervals(unit_of_work: &str, precision: &Precision) -> Intervals {
    let energy = match unit_of_work {
        "request" => precision.energy_j_per_request,
        _ => precision.energy_j_per_instruction,
    };
    Intervals {
        energy_j_per_unit: interval(energy, 1.0),
        latency_mean_us: interval(precision.latency_mean_s, 1e6),
        latency_p99_us: interval(precision.latency_p99_s, 1e6),
    }
}
