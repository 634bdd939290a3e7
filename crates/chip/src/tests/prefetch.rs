//! Prefetchers: what they gain, what they must not change, what they cost.

use halfwink_trace::{Kernel, Synthetic};
use halfwink_units::Energy;

use super::*;
use crate::{PrefetchKind, PrefetchSpec, PrefetcherSpec};

fn spec(kind: PrefetchKind, degree: usize, distance: usize, queue: usize) -> PrefetcherSpec {
    PrefetcherSpec { kind, degree, distance, entries: 16, queue }
}

/// The same machine with prefetchers at all caches, and registers for them.
pub(super) fn prefetching(mut machine: Machine) -> Machine {
    (machine.l1i.mshrs, machine.l1d.mshrs) = (4, 6);
    machine.prefetch = PrefetchSpec {
        l1i: Some(spec(PrefetchKind::NextLine, 1, 1, 1)),
        l1d: Some(spec(PrefetchKind::Stride, 2, 4, 3)),
        l2: Some(spec(PrefetchKind::Streamer, 2, 6, 4)),
    };
    machine
}

/// An out-of-order core with a channel of DDR3, and prefetchers of usual sizes.
fn ev6(prefetch: bool) -> Machine {
    let text = include_str!("../../../../machines/ev6.toml");
    let mut machine = Machine::parse(&Input::new("ev6", text)).unwrap().with_cores(1);
    if prefetch {
        machine.prefetch = PrefetchSpec {
            l1i: Some(spec(PrefetchKind::NextLine, 1, 1, 2)),
            l1d: Some(PrefetcherSpec { entries: 64, ..spec(PrefetchKind::Stride, 2, 8, 8) }),
            l2: Some(spec(PrefetchKind::Streamer, 4, 20, 32)),
        };
    }
    machine
}

fn synthetic(kernel: Kernel, footprint: u64, machine: &Machine) -> RunResult {
    let spec = Synthetic { kernel, footprint, instructions: 200_000, seed: 1, duty: None };
    run(machine, "always-on", vec![task(spec.source(), Arc::default())])
}

#[test]
fn a_stream_comes_near_what_memory_can_move() {
    let bandwidth = |prefetch| {
        let machine = ev6(prefetch);
        let result = synthetic(Kernel::Stream, 96 << 20, &machine);
        let crate::MemoryKind::Dram(spec) = &machine.memory.kind else { panic!() };
        let lines: u64 = result.memory.lines().iter().sum();
        lines as f64 * 64.0 / result.duration.as_s() / spec.peak_bandwidth()
    };
    let (without, with) = (bandwidth(false), bandwidth(true));
    assert!(with > 0.8 && with > 1.4 * without, "{without} {with}");
}

#[test]
fn a_pointer_chase_gains_nothing() {
    let time = |prefetch| synthetic(Kernel::Chase, 64 << 20, &ev6(prefetch)).duration.as_s();
    let gain = time(false) / time(true);
    assert!(gain < 1.01 && gain > 0.9, "{gain}");
}

/// Loads of `n` lines that follow one another, each waiting for the one before.
fn in_a_row(machine: &Machine, n: u64) -> RunResult {
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(2, &[1])]);
    let (mut script, lines) = writer.script();
    for line in 0..n {
        script.run(block, vec![at(COLD + line * 64)]);
    }
    run(machine, "always-on", vec![task(script, warm(&lines, &[]))])
}

#[test]
fn lines_in_a_row_are_there_before_they_are_needed() {
    for kind in KINDS {
        let alone = |l1d, l2| {
            let mut machine = prefetching(simple(kind));
            machine.l1d.mshrs = 16;
            machine.prefetch = PrefetchSpec { l1i: None, l1d, l2 };
            in_a_row(&machine, 40)
        };
        let none = alone(None, None);
        assert_eq!(none.l3.misses, [40, 0]);
        let stride = alone(Some(spec(PrefetchKind::Stride, 2, 4, 8)), None);
        // Two distances must agree; then every line is asked for, four in excess.
        let counts = stride.cores[0].prefetch.l1d;
        assert_eq!((stride.l3.misses, counts.issued), ([3, 0], 41), "{kind}");
        assert_eq!((counts.useful + counts.late, counts.useless), (37, 0), "{kind} {counts:?}");
        let streamer = alone(None, Some(spec(PrefetchKind::Streamer, 2, 4, 8)));
        let counts = streamer.cores[0].prefetch.l2;
        assert_eq!((streamer.l3.misses, counts.issued), ([2, 0], 42), "{kind}");
        assert_eq!((counts.useful + counts.late, counts.useless), (38, 0), "{kind} {counts:?}");
        let next = alone(Some(spec(PrefetchKind::NextLine, 1, 1, 4)), None);
        assert_eq!((next.l3.misses, next.cores[0].prefetch.l1d.issued), ([1, 0], 40), "{kind}");
        for faster in [&stride, &streamer, &next] {
            assert!(faster.duration < none.duration, "{kind}");
        }
        // What prefetches take has rows of its own, at the core, the third level and memory.
        let energy = |result: &RunResult, component: &str| {
            let rows = result.books.named_rows();
            let own = rows.filter(|(c, _, cause, _)| *c == component && cause.reason == "prefetch");
            own.fold(Energy(0), |sum, row| sum + row.3.energy)
        };
        let nj = |x: f64| Energy::from_pj(x * 1e3);
        let lookups = streamer.cores[0].prefetch.l2.lookups as f64;
        assert_eq!(energy(&streamer, "core0"), nj(0.1 * lookups), "{kind}");
        assert_eq!(energy(&streamer, "l3"), nj(0.5 * 42.0));
        assert!(energy(&streamer, "memory") >= nj(10.0 * 42.0));
        assert_eq!(energy(&none, "l3"), Energy(0));
    }
}

#[test]
fn a_queue_bounds_what_is_on_the_way() {
    let mut machine = prefetching(simple("in-order"));
    let streamer = PrefetcherSpec { queue: 1, ..spec(PrefetchKind::Streamer, 1, 8, 1) };
    machine.prefetch = PrefetchSpec { l2: Some(streamer), ..PrefetchSpec::default() };
    let counts = in_a_row(&machine, 40).cores[0].prefetch.l2;
    assert!(counts.dropped > 0 && counts.issued < 42, "{counts:?}");
}

/// Code that runs on through its lines is fetched ahead.
#[test]
fn the_next_line_of_code_is_fetched_ahead() {
    for kind in KINDS {
        let time = |next| {
            let mut machine = prefetching(simple(kind));
            let l1i = Some(spec(PrefetchKind::NextLine, 1, 1, 2)).filter(|_| next);
            machine.prefetch = PrefetchSpec { l1i, ..PrefetchSpec::default() };
            let mut writer = Writer::new();
            let blocks: Vec<TemplateId> =
                (0..20).map(|_| writer.block(&[alu(1, &[1]); 16])).collect();
            let (mut script, _) = writer.script();
            for block in blocks {
                script.run(block, vec![]);
            }
            let result = run(&machine, "always-on", vec![task(script, Arc::default())]);
            (result.duration, result.cores[0].prefetch.l1i)
        };
        let ((plain, _), (ahead, counts)) = (time(false), time(true));
        assert!(ahead < plain, "{kind}");
        assert_eq!((counts.issued, counts.late + counts.useful), (20, 19), "{kind} {counts:?}");
    }
}

/// Policies neither hear of a prefetch nor wake for one.
#[test]
fn cores_sleep_while_lines_are_prefetched() {
    for kind in KINDS {
        let machine = prefetching(simple(kind));
        let play = |technique| {
            let spec = Synthetic {
                kernel: Kernel::Mixed,
                footprint: 1 << 20,
                instructions: 20_000,
                seed: 3,
                duty: None,
            };
            run(&machine, technique, vec![task(spec.source(), Arc::default())])
        };
        let on = play("always-on");
        for technique in ["tap", "oracle"] {
            let slept = play(technique);
            assert_eq!(slept.duration, on.duration, "{kind} {technique}");
            assert_eq!(slept.cores[0].prefetch, on.cores[0].prefetch);
            assert!(slept.cores[0].wakes > 100, "{kind} {technique} {}", slept.cores[0].wakes);
        }
    }
}
