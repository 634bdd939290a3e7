//! STREAM on more and more cores: the memory channel must fill, and stay full.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use halfwink_chip::{run, CodeCache, Geometry, Machine, MemoryKind, Options, RunResult, Task};
use halfwink_dram::{BankHash, Page, Spec};
use halfwink_engine::{Input, RunControl};
use halfwink_policy::gating::{AlwaysOn, GatingPolicy, Tap};
use halfwink_power::CoreState;
use halfwink_trace::{Kernel, LoadKind, Synthetic};
use halfwink_units::Time;

fn machine(name: &str, cores: usize) -> Machine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../machines/{name}.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    Machine::parse(&Input::new(name, text)).unwrap().with_cores(cores)
}

/// Each core with its part of arrays of 96 MB, as studies/gating-stream.toml has them.
fn stream(machine: &Machine, cores: usize, policy: &dyn Fn(usize) -> GatingPolicy) -> RunResult {
    let task = |n: usize| {
        let footprint = (96 << 20) / cores as u64;
        let seed = n as u64 + 1;
        let limit = 400_000;
        let spec =
            Synthetic { kernel: Kernel::Stream, footprint, instructions: limit, seed, duty: None };
        let (source, warm) = (Box::new(spec.source()), Arc::default());
        Task {
            source,
            warm,
            load: LoadKind::Closed,
            limit,
            start: Time::ZERO,
            shared: None,
            thread: None,
        }
    };
    let options = Options::new(policy);
    let tasks = (0..cores).map(task).collect();
    run(machine, tasks, &options, &mut CodeCache::new(), &RunControl::new()).unwrap()
}

/// Bytes per second of a channel that always carries data.
fn peak_bandwidth(machine: &Machine) -> f64 {
    match &machine.memory.kind {
        MemoryKind::Dram(spec) => spec.peak_bandwidth(),
        MemoryKind::Uniform { .. } => f64::INFINITY,
    }
}

/// Share of the channel's peak that reads and writes use.
fn share_of_peak(cores: usize, l3: &str, change: impl Fn(&mut Spec)) -> f64 {
    let mut machine = machine("ev6", cores);
    let MemoryKind::Dram(spec) = &mut machine.memory.kind else { panic!("no controller") };
    change(spec);
    machine.l3.geometry = Some(Geometry::parse(l3).unwrap());
    let result = stream(&machine, cores, &|_| Box::new(AlwaysOn));
    let counts = result.memory;
    let lines: u64 = counts.reads.iter().chain(&counts.writes).sum();
    lines as f64 * 64.0 / result.duration.as_s() / peak_bandwidth(&machine)
}

/// With the cache of the machine, which the first lines fill, and with one that soon gives back a
/// dirty line for every third that comes.
#[test]
fn more_cores_fill_the_channel_and_keep_it_full() {
    for l3 in ["8MB:16", "512KB:16"] {
        let shares = [1, 2, 4, 8].map(|cores| share_of_peak(cores, l3, |_| {}));
        assert!(shares[0] > 0.4, "{l3} {shares:?}");
        assert!(shares[1] > shares[0] * 1.3, "{l3} {shares:?}");
        assert!(shares[2] > 0.85 && shares[3] > 0.85, "{l3} {shares:?}");
    }
}

/// The estimate comes once the controller has given the command that reads the line: a core that
/// waits in its queue may sleep, and does, without being late.
#[test]
fn tap_sleeps_through_the_queue() {
    for cores in [1, 8] {
        let machine = machine("ev6", cores);
        let costs = |core: usize| machine.gating_costs(core);
        let on = stream(&machine, cores, &|_| Box::new(AlwaysOn));
        let entries = machine.token_entries();
        let tap = stream(&machine, cores, &|core| Box::new(Tap::new(costs(core), entries)));
        assert_eq!(on.duration, tap.duration, "{cores} cores");
        let share = |state: CoreState| {
            let times = tap.cores.iter().map(|core| core.residency[state as usize].as_s());
            times.sum::<f64>() / tap.duration.as_s() / cores as f64
        };
        let (gated, stalled) = (share(CoreState::Gated), share(CoreState::Stalled));
        assert!(cores == 1 || gated > stalled, "{cores} cores: {gated} gated, {stalled} stalled");
    }
}

/// What docs/chip.md shows: with all parts of the controller, and with one of them taken away. A
/// queue for a single write is none.
#[test]
fn what_the_parts_of_the_controller_are_worth_is_on_record() {
    type Change = fn(&mut Spec);
    let changes: [(&str, Change); 4] = [
        ("all", |_| {}),
        ("no hash", |spec| spec.hash = BankHash::None),
        ("no write queue", |spec| {
            let rules = &mut spec.rules;
            (rules.drain_at, rules.drain_to, rules.idle_drain) = (1, 0, 0);
        }),
        ("closed page", |spec| spec.rules.page = Page::Closed),
    ];
    let mut out = String::new();
    for l3 in ["8MB:16", "512KB:16"] {
        for (what, change) in changes {
            let shares = [1, 2, 4, 8].map(|cores| share_of_peak(cores, l3, change));
            let percent = shares.map(|share| format!("{:.0} %", share * 100.0));
            writeln!(out, "{l3} {what}: {}", percent.join(", ")).unwrap();
        }
    }
    insta::assert_snapshot!(out);
}
