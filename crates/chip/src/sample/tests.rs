#![allow(clippy::print_stdout)] // how near it was, for who looks

use std::path::Path;
use std::sync::Arc;

use halfwink_engine::{Input, RunControl};
use halfwink_policy::gating::{AlwaysOn, GatingPolicy, Tap};
use halfwink_trace::{Kernel, LoadKind, Synthetic, TraceFile};
use halfwink_units::Time;

use super::{again, cut, measure, Begins, Cut, FunctionalCounts, Measured, Window};
use crate::chip::{run, ChipError, CodeCache, Options};
use crate::machine::Machine;
use crate::result::RunResult;
use crate::task::Task;

fn machine(name: &str) -> Machine {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(format!("machines/{name}.toml"))).unwrap();
    Machine::parse(&Input::new(name, text)).unwrap().with_cores(1)
}

fn task(name: &str, limit: u64) -> Task {
    let path = format!("{}/../../workloads/{name}.hwt", env!("CARGO_MANIFEST_DIR"));
    let file = Arc::new(TraceFile::open(Path::new(&path)).unwrap());
    let load = file.header().load.as_ref().map_or(LoadKind::Closed, |load| load.kind);
    let warm = Arc::new(file.warm().unwrap());
    Task {
        source: Box::new(file.stream()),
        warm,
        load,
        limit,
        start: Time::ZERO,
        shared: None,
        thread: None,
    }
}

fn policy(machine: &Machine, technique: &str) -> GatingPolicy {
    match technique {
        "tap" => Box::new(Tap::new(machine.gating_costs(0), machine.token_entries())),
        _ => Box::new(AlwaysOn),
    }
}

/// A whole run, or a window.
fn with<R>(machine: &Machine, technique: &str, play: impl FnOnce(&Options<'_>) -> R) -> R {
    let policy = |_: usize| policy(machine, technique);
    play(&Options { retention: technique == "tap", ..Options::new(&policy) })
}

fn full(machine: &Machine, technique: &str, task: Task) -> RunResult {
    let control = RunControl::new();
    with(machine, technique, |options| {
        run(machine, vec![task], options, &mut CodeCache::new(), &control).unwrap()
    })
}

fn windows(machine: &Machine, task: Task, how: Cut) -> (Vec<Window>, FunctionalCounts) {
    let mut all = Vec::new();
    let take = |window| {
        all.push(window);
        Ok::<(), ChipError>(())
    };
    let counts = cut(machine, task, &how, &RunControl::new(), take).unwrap();
    (all, counts)
}

fn in_detail(
    machine: &Machine,
    technique: &str,
    load: LoadKind,
    window: &Window,
) -> Option<Measured> {
    let control = RunControl::new();
    with(machine, technique, |options| {
        measure(machine, window, load, options, &mut CodeCache::new(), &control).unwrap()
    })
}

const ALL: Cut =
    Cut { begins: Begins::Every { first: 0, period: u64::MAX }, warm_up: 0, unit: u64::MAX };

#[test]
fn one_window_over_everything_is_the_whole_run() {
    for (name, kind) in [("nginx", "ev6"), ("gcc", "ev6"), ("memcached", "in-order")] {
        let machine = machine(kind);
        for technique in ["always-on", "tap"] {
            let limit = 200_000;
            let result = full(&machine, technique, task(name, limit));
            let (windows, counts) = windows(&machine, task(name, limit), ALL);
            assert_eq!(windows.len(), 1);
            let load = task(name, limit).load;
            let found = in_detail(&machine, technique, load, &windows[0]).unwrap();
            let core = &result.cores[0];
            assert_eq!(counts.instructions, core.work.instructions, "{name}");
            let energy = |wanted: &dyn Fn(&str) -> bool| result.books.energy_where(wanted);
            let expected = Measured {
                instructions: core.work.instructions.iter().sum(),
                time: result.duration,
                core_energy: energy(&|name| name == "core0"),
                energy: energy(&|_| true),
                memory_stalls: core.memory_stalls.counts().collect(),
            };
            assert_eq!(found, expected, "{name} {technique}");
        }
    }
}

/// Stores write late and loads find their bytes in the store queue, so accesses come in another
/// order; what misses, and what is predicted wrongly, is the same on these recordings.
#[test]
fn an_in_order_core_misses_what_the_functional_pass_misses() {
    let machine = machine("in-order");
    for name in ["gcc", "gzip", "nginx", "postgresql"] {
        let result = full(&machine, "always-on", task(name, 1_000_000));
        let (_, found) = windows(&machine, task(name, 1_000_000), ALL);
        let core = &result.cores[0];
        assert_eq!(found.branches, core.branches, "{name}");
        let (caches, theirs) = (&found.caches, &core.caches);
        for (what, found, expected) in [
            ("l1i.misses", caches.l1i_misses, theirs.l1i_misses),
            ("l1d.misses", caches.l1d_misses, theirs.l1d_misses),
            ("l2.misses", caches.l2_misses, theirs.l2_misses),
            ("l3.misses", found.l3.misses, result.l3.misses),
            ("l3.accesses", found.l3.accesses, result.l3.accesses),
        ] {
            assert_eq!(found, expected, "{name} {what}");
        }
    }
}

/// A window somewhere behind begins with what a run has there: its parts are as long as the run.
#[test]
fn windows_side_by_side_are_as_long_as_the_run() {
    let machine = machine("ev6");
    for name in ["gcc", "gzip"] {
        let result = full(&machine, "always-on", task(name, 1_000_000));
        let how = Cut {
            begins: Begins::Every { first: 0, period: 20_000 },
            warm_up: 2_000,
            unit: 17_000,
        };
        let (windows, _) = windows(&machine, task(name, 1_000_000), how);
        assert_eq!(windows.len(), 50, "{name}");
        let (mut instructions, mut time, mut energy) = (0, Time::ZERO, 0.0);
        for window in &windows {
            let load = LoadKind::Closed;
            let found = in_detail(&machine, "always-on", load, window).unwrap();
            instructions += found.instructions;
            time += found.time;
            energy += found.core_energy.as_j();
        }
        let joules = result.books.energy_where(|name| name == "core0").as_j();
        let all: u64 = result.cores[0].work.instructions.iter().sum();
        let share = instructions as f64 / all as f64;
        let cpi = time.as_s() / (share * result.duration.as_s()) - 1.0;
        let per_instruction = energy / (share * joules) - 1.0;
        let off = format!("{name}: time off by {cpi}, energy by {per_instruction}");
        assert!(cpi.abs() < 0.02 && per_instruction.abs() < 0.02, "{off}");
    }
}

#[test]
fn a_window_that_ends_before_it_is_measured_says_nothing() {
    let machine = machine("ev6");
    let how = Cut {
        begins: Begins::Every { first: 9_000, period: u64::MAX },
        warm_up: 2_000,
        unit: 10_000,
    };
    let (all, _) = windows(&machine, task("gcc", 10_000), how);
    assert_eq!(in_detail(&machine, "always-on", LoadKind::Closed, &all[0]), None);
}

#[test]
fn caches_of_another_shape_are_an_error() {
    let (ev6, other) = (machine("ev6"), machine("ultrasparc"));
    let how = Cut { begins: Begins::Every { first: 0, period: u64::MAX }, warm_up: 0, unit: 1_000 };
    let (all, _) = windows(&ev6, task("gcc", 10_000), how);
    let control = RunControl::new();
    let found = with(&other, "always-on", |options| {
        let load = LoadKind::Closed;
        measure(&other, &all[0], load, options, &mut CodeCache::new(), &control)
    });
    assert!(matches!(found, Err(ChipError::OtherCaches)), "{found:?}");
}

/// A fill of a way in which nothing was: all of a first pass over less than the third level holds,
/// none of what comes when it is full.
#[test]
fn cold_fills_are_counted_until_the_third_level_is_full() {
    let machine = machine("ev6");
    let lines = machine.l3.geometry.map(|g| (g.sets * g.ways) as u64).unwrap();
    for (footprint, passes) in [(lines * 64 / 2, 1), (lines * 64 * 2, 2)] {
        let instructions = 4 * passes * footprint / 64;
        let spec =
            Synthetic { kernel: Kernel::Chase, footprint, instructions, seed: 1, duty: None };
        let task = || Task {
            source: Box::new(spec.source()),
            warm: Arc::default(),
            load: LoadKind::Closed,
            limit: u64::MAX,
            start: Time::ZERO,
            shared: None,
            thread: None,
        };
        let l3 = full(&machine, "always-on", task()).l3;
        let (_, found) = windows(&machine, task(), ALL);
        let cold = lines.min(footprint / 64);
        let near = |n: u64| n.abs_diff(cold) <= cold / 100;
        assert!(near(l3.cold_fills[0]) && l3.cold_fills[0] <= l3.misses[0], "{l3:?}");
        assert!(near(found.l3.cold_fills[0]), "{:?}", found.l3);
    }
}

#[test]
fn what_is_played_again_finds_what_the_first_time_left() {
    // A search by branches, in memory that its caches hold.
    let machine = machine("ev6");
    let path = format!("{}/../../workloads/host/search.hwt", env!("CARGO_MANIFEST_DIR"));
    let file = TraceFile::open(Path::new(&path)).unwrap();
    let warm = Arc::new(file.warm().unwrap());
    let count = file.footer().totals.instructions;
    let sources = [file.stream(), file.stream()];
    let second = again(&machine, sources, &warm, count, &RunControl::new()).unwrap();
    let first = full(&machine, "always-on", task("host/search", u64::MAX));
    assert_eq!(second.instructions, count);
    assert_eq!(first.cores[0].work.instructions.iter().sum::<u64>(), count);
    // Nothing but the predictor is warmer: a third of its first mispredictions are gone.
    let mut perfect = machine.clone();
    perfect.branch.predictor = crate::PredictorKind::Perfect;
    let without = full(&perfect, "always-on", task("host/search", u64::MAX)).duration;
    assert!(second.time < first.duration, "{:?} {:?}", second.time, first.duration);
    assert!(second.time > without);
    // With nothing to learn, the second time is as the first.
    let sources = [file.stream(), file.stream()];
    let second = again(&perfect, sources, &warm, count, &RunControl::new()).unwrap();
    let off = second.time.as_ns() / without.as_ns() - 1.0;
    assert!(off.abs() < 0.01, "{off}");
}
