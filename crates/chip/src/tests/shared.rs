//! Cores that share a cache and memory.

use super::*;
use crate::ChipError;
use halfwink_trace::{Kernel, Synthetic};

fn chase(seed: u64) -> Synthetic {
    Synthetic { kernel: Kernel::Chase, footprint: 1 << 22, instructions: 8_000, seed, duty: None }
}

fn stream() -> Synthetic {
    Synthetic {
        kernel: Kernel::Stream,
        footprint: 3 << 20,
        instructions: 20_000,
        seed: 1,
        duty: None,
    }
}

#[test]
fn simultaneous_requests_are_served_lower_core_first() {
    for kind in KINDS {
        let tasks = (0..3)
            .map(|_| {
                let mut writer = Writer::new();
                let block = writer.block(&[load(1, 2), alu(3, &[1])]);
                let (mut script, lines) = writer.script();
                script.run(block, vec![at(COLD)]);
                task(script, warm(&lines, &[]))
            })
            .collect();
        let result = run(&simple(kind), "always-on", tasks);
        let ends: Vec<u64> = result.cores.iter().map(|c| c.finished.0 / 1000).collect();
        // One bank of the third level starts an access a nanosecond. All three lines lie in the
        // same bank of memory, in different rows: 30 from activate to precharge, then 10 + 10 + 10
        // + 4. Controller at 18, 19, 20; data at 42, 42 + 40, 82 + 40.
        let first = if kind == "in-order" { 45 } else { 47 };
        assert_eq!(ends, [first, first + 40, first + 80], "{kind}");
    }
}

#[test]
fn contention_lengthens_stalls_and_changes_no_work() {
    for kind in KINDS {
        let machine = simple(kind);
        let alone = run(&machine, "always-on", vec![task(stream().source(), Arc::default())]);
        let crowd = (0..4).map(|_| task(stream().source(), Arc::default())).collect();
        let together = run(&machine, "always-on", crowd);
        assert_eq!(together.cores.len(), 4);
        for core in &together.cores {
            assert_eq!(core.work, alone.cores[0].work);
            assert!(core.finished > alone.cores[0].finished, "{kind}");
        }
        let mean = |r: &RunResult| r.cores[0].memory_stalls.mean().unwrap();
        assert!(mean(&together) > mean(&alone), "{kind}");
    }
}

#[test]
fn cores_have_memories_of_their_own() {
    // The same addresses on two cores: nothing is shared, so both miss alike.
    let machine = simple("in-order");
    let tasks =
        vec![task(chase(1).source(), Arc::default()), task(chase(1).source(), Arc::default())];
    let result = run(&machine, "always-on", tasks);
    assert_eq!(result.cores[0].caches.l2_misses, result.cores[1].caches.l2_misses);
    let alone = run(&machine, "always-on", vec![task(chase(1).source(), Arc::default())]);
    assert_eq!(result.l3.misses[0], 2 * alone.l3.misses[0]);
}

#[test]
fn a_core_without_work_is_unused_and_one_that_is_done_too() {
    let machine = simple("in-order");
    let short = Synthetic { instructions: 1_000, ..chase(1) };
    let tasks = vec![task(short.source(), Arc::default()), task(chase(2).source(), Arc::default())];
    let result = run(&machine, "always-on", tasks);
    assert!(result.cores[0].finished < result.cores[1].finished);
    assert_eq!(result.duration, result.cores[1].finished);
    let unused = |name: &str| -> Time {
        let rows = result.books.named_rows();
        let own = rows.filter(|(n, state, ..)| *n == name && state.0 == "unused");
        own.fold(Time::ZERO, |sum, (.., row)| sum + row.time)
    };
    assert_eq!(unused("core0"), result.duration - result.cores[0].finished);
    assert_eq!(unused("core3"), result.duration);
}

#[test]
fn more_work_than_cores_and_no_work_are_errors() {
    let machine = simple("in-order");
    let five = (0..5).map(|n| task(chase(n).source(), Arc::default())).collect();
    let error = try_run(&machine, "tap", five, USUAL).unwrap_err();
    assert_eq!(error.to_string(), "5 workloads for 4 cores");
    let empty = Script::new(Arc::new(Program::default()));
    let error = try_run(&machine, "tap", vec![task(empty, Arc::default())], USUAL).unwrap_err();
    assert!(matches!(error, ChipError::NoWork));
}

#[test]
fn a_warm_cache_misses_less() {
    // One page, so that its lines follow one another in physical memory too.
    let lines: Vec<u64> = (0..64).map(|n| 0x1000_0000 + n * 64).collect();
    let small = Synthetic { footprint: 64 * 64, ..chase(1) };
    let misses = |warm| {
        let result = run(&simple("in-order"), "always-on", vec![task(small.source(), warm)]);
        result.l3.misses[0]
    };
    let cold = misses(Arc::default());
    assert_eq!(cold - misses(warm(&[], &lines)), 64);
}
