//! Caches that a halt loses: what is written back, how long that takes, what it costs afterwards.

use halfwink_power::{CoreState, Lost};
use halfwink_trace::{Event, Kernel, Synthetic};
use halfwink_units::Energy;
use proptest::prelude::*;

use super::exact::{any_recipe, fingerprint, first_difference, script};
use super::*;
use crate::chip::Chip;
use crate::uncore::Uncore;
use crate::{run_together, Follower};

const CACHES: [Lost; 3] = [Lost::L1i, Lost::L1d, Lost::L2];

/// The same machine whose halted cores lose these, after so long without supply.
pub(super) fn losing(mut machine: Machine, loses: &[Lost], after_us: f64) -> Machine {
    (machine.gating.loses, machine.gating.loses_after_us) = (loses.to_vec(), after_us);
    machine
}

/// Machines that lose nothing, all at once, and some of it after a while.
pub(super) fn losing_somehow(machine: Machine, how: usize) -> Machine {
    match how {
        0 => machine,
        1 => losing(machine, &[Lost::L1i, Lost::L1d, Lost::L2, Lost::Branch, Lost::Tlb], 0.0),
        _ => losing(machine, &[Lost::L1d, Lost::Branch], 0.05),
    }
}

/// A store to a line that is there, a halt of so many nanoseconds, a load of it and its user.
fn store_halt_load(machine: &Machine, technique: &str, halt: u64) -> RunResult {
    let mut writer = Writer::new();
    let before = writer.block(&[store(1, 2)]);
    let after = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(before, vec![at(DATA)]);
    script.event(Event::Idle { from_ns: 1_000, to_ns: 1_000 + halt });
    script.run(after, vec![at(DATA)]);
    run(machine, technique, vec![task(script, warm(&lines, &[DATA]))])
}

fn spans(result: &RunResult) -> Vec<(&'static str, u64, u64)> {
    let timeline = result.cores[0].timeline.as_ref().unwrap();
    let in_ns = |t: Time| t.0 / 1000;
    timeline.spans.iter().map(|&(s, a, b)| (s.name(), in_ns(a), in_ns(b))).collect()
}

#[test]
fn a_lost_line_costs_what_the_third_level_takes() {
    let keeps = store_halt_load(&simple("in-order"), "idle-gate", 1_000);
    let machine = losing(simple("in-order"), &CACHES, 0.0);
    let loses = store_halt_load(&machine, "idle-gate", 1_000);
    // The walk reads 32 and 64 sets, and one dirty line takes a cycle more. The core halts at 1.
    // It wakes 1000 after that, in 4 + 3; then the line of code, and the line of data, are in the
    // third level: 15 each, where they were 0 and 1.
    assert_eq!(
        spans(&loses),
        [
            ("active", 0, 1),
            ("flushing", 1, 98),
            ("gating", 98, 99),
            ("gated", 99, 1_001),
            ("charging", 1_001, 1_005),
            ("restoring", 1_005, 1_008),
            ("stalled", 1_008, 1_023),
            ("active", 1_023, 1_024),
            ("stalled", 1_024, 1_038),
            ("active", 1_038, 1_039),
        ]
    );
    assert_eq!(ns(&loses), ns(&keeps) + 15 + 14);
    let losses = loses.cores[0].losses;
    // A line of code in the first level, one of data in it, and both in the second.
    assert_eq!((losses.losses, losses.lines, losses.written_back), (1, 4, 1));
    assert_eq!((losses.l1d_reads, losses.l2_reads, losses.cold_misses), (1, 0, [2, 0]));
    assert_eq!(loses.l3.others[0], 1);
    assert_eq!(keeps.cores[0].losses, crate::LossCounts::default());
}

#[test]
fn the_energy_of_a_loss_adds_up_by_hand() {
    let keeps = store_halt_load(&simple("in-order"), "idle-gate", 1_000);
    let machine = losing(simple("in-order"), &CACHES, 0.0);
    let loses = store_halt_load(&machine, "idle-gate", 1_000);
    let nj = |x: f64| Energy::from_pj(x * 1e3);
    let of = |r: &RunResult, part: &str| r.books.energy_where(|name| name == part);
    // 97 ns at 1.1 W that were gated at 0.0225; 29 ns of stalls at 1.1 W; the dirty line is read
    // out of the data cache; the code's line is looked up, and two look-ups of the second level.
    let core = nj(97.0 * (1.1 - 0.0225) + 29.0 * 1.1 + 0.04 + 0.03 + 0.2);
    assert_eq!(of(&loses, "core0") - of(&keeps, "core0"), core);
    // One line given back, two brought; 29 ns longer.
    assert_eq!(of(&loses, "l3") - of(&keeps, "l3"), nj(3.0 * 0.5 + 29.0 * 0.5));
    let rows: Vec<_> = loses.books.named_rows().collect();
    let row = |component: &str, state: &str, reason: &str| {
        let found = rows
            .iter()
            .filter(|(c, s, cause, _)| *c == component && s.0 == state && cause.reason == reason);
        found.fold((Time::ZERO, Energy(0)), |sum, row| (sum.0 + row.3.time, sum.1 + row.3.energy))
    };
    assert_eq!(row("core0", "flushing", "idle"), (Time::ns(97), nj(97.0 * 1.1)));
    assert_eq!(row("core0", "flushing", "flush-l1d"), (Time::ZERO, nj(0.04)));
    assert_eq!(row("core0", "stalled", "cold-caches"), (Time::ns(29), nj(29.0 * 1.1)));
    assert_eq!(row("l3", "on", "flush"), (Time::ZERO, nj(0.5)));
}

#[test]
fn a_wake_up_that_comes_while_lines_are_written_back_waits() {
    let machine = losing(simple("in-order"), &CACHES, 0.0);
    let loses = store_halt_load(&machine, "idle-gate", 50);
    assert_eq!(
        spans(&loses)[1..5],
        [("flushing", 1, 98), ("gating", 98, 99), ("charging", 99, 103), ("restoring", 103, 106)]
    );
}

#[test]
fn what_is_gated_for_a_short_time_retains_its_caches() {
    for kind in KINDS {
        let machine = losing(simple(kind), &CACHES, 0.5);
        let plain = fingerprint(&store_halt_load(&simple(kind), "idle-gate", 500));
        let short = store_halt_load(&machine, "idle-gate", 500);
        assert_eq!(first_difference(&plain, &fingerprint(&short)), None);
        let long = store_halt_load(&machine, "idle-gate", 2_000);
        let [_, gating, gated, flushing, again, deep, ..] = spans(&long)[..] else { panic!() };
        assert_eq!([gating.0, gated.0, again.0, deep.0], ["gating", "gated", "gating", "gated"]);
        assert_eq!((gated.2 - gated.1, flushing.2 - flushing.1), (500, 97));
        // Who never gates loses nothing, nor does who gates between accesses to memory.
        let spec = || Synthetic {
            kernel: Kernel::Chase,
            footprint: 1 << 20,
            instructions: 5_000,
            seed: 1,
            duty: None,
        };
        let machine = losing(simple(kind), &CACHES, 0.0);
        for technique in ["always-on", "tap", "mapg-counter", "oracle"] {
            let go = |machine: &Machine| {
                fingerprint(&run(machine, technique, vec![task(spec().source(), Arc::default())]))
            };
            assert_eq!(first_difference(&go(&simple(kind)), &go(&machine)), None, "{technique}");
        }
    }
}

#[test]
fn the_second_level_takes_what_the_first_loses() {
    let machine = losing(simple("in-order"), &[Lost::L1d], 0.0);
    let loses = store_halt_load(&machine, "idle-gate", 1_000);
    let keeps = store_halt_load(&simple("in-order"), "idle-gate", 1_000);
    // The code is there; the data in the second level: 5 ns, not 1.
    assert_eq!(ns(&loses), ns(&keeps) + 4);
    let losses = loses.cores[0].losses;
    assert_eq!((losses.l2_writes, losses.written_back, losses.cold_misses), (1, 0, [0; 2]));
    // 32 sets, and a line.
    assert_eq!(loses.cores[0].residency[CoreState::Flushing as usize], Time::ns(33));
}

#[test]
fn branch_tables_are_forgotten_and_counts_are_not() {
    let go = |machine: &Machine| {
        let mut writer = Writer::new();
        let block = writer.block(&[jump_if(0)]);
        let (mut script, lines) = writer.script();
        for round in 0..40 {
            script.run(block, vec![]);
            if round == 20 {
                script.event(Event::Idle { from_ns: 1_000, to_ns: 2_000 });
            }
        }
        run(machine, "idle-gate", vec![task(script, warm(&lines, &[]))]).cores[0].branches
    };
    let (keeps, loses) =
        (go(&simple("in-order")), go(&losing(simple("in-order"), &[Lost::Branch], 0.0)));
    assert_eq!(keeps.predicted, loses.predicted);
    assert!(loses.mispredicted[0] > keeps.mispredicted[0], "{loses:?}");
}

/// All data is somewhere: what was dirty in a core is dirty in the third level, or went to memory.
#[test]
fn no_dirty_line_is_lost() {
    for kind in KINDS {
        let machine = losing(simple(kind), &CACHES, 0.0).with_cores(1);
        let mut writer = Writer::new();
        let block = writer.block(&[store(1, 2)]);
        let (mut script, lines) = writer.script();
        // More than the data cache holds, and fewer than the second level.
        let written: Vec<u64> = (0..150).map(|n| (DATA >> 6) + n).collect();
        for line in &written {
            script.run(block, vec![at(line << 6)]);
        }
        script.event(Event::Idle { from_ns: 1_000, to_ns: 4_000 });
        script.run(block, vec![at(COLD)]);
        let make = |_| policy(&machine, "idle-gate");
        let options = Options { retention: true, ..Options::new(&make) };
        let tasks = vec![task(script, warm(&lines, &[]))];
        let mut chip = Chip::new(&machine, tasks, &options, &[], &mut CodeCache::new()).unwrap();
        chip.play(&RunControl::new()).unwrap();
        let Uncore { l3, counts, .. } = &mut chip.shared.uncore;
        let l3 = l3.as_mut().unwrap();
        let mut dirty = |line: &u64| l3.change(*line, 0, 0).is_some_and(|flags| flags & 2 != 0);
        assert_eq!(written.iter().copied().filter(|line| dirty(line)).count(), 150, "{kind}");
        let losses = chip.cores[0].common().private.losing.as_ref().unwrap().counts;
        assert_eq!((counts.others[0], losses.written_back), (150, 150));
        assert_eq!(counts.write_backs, 0);
        chip.finish().unwrap();
    }
}

/// Lines leave no faster than the third level's only bank takes them, one a nanosecond.
#[test]
fn a_busy_bank_holds_the_walk_up() {
    let mut machine = losing(simple("in-order"), &CACHES, 0.0);
    machine.l3.occupancy = Time::ns(100);
    let mut writer = Writer::new();
    let block = writer.block(&[store(1, 2)]);
    let (mut script, lines) = writer.script();
    for n in 0..8u64 {
        script.run(block, vec![at(DATA + 64 * n)]);
    }
    script.event(Event::Idle { from_ns: 1_000, to_ns: 9_000 });
    let data: Vec<u64> = (0..8).map(|n| DATA + 64 * n).collect();
    let result = run(&machine, "idle-gate", vec![task(script, warm(&lines, &data))]);
    // Two at a time, the miss registers: sent in 0 and 2 (behind its set and the line before), the
    // first arrives in 5, the others start 100 after each other; the walk is held up until each
    // answer, 10 behind its start. The last one starts in 5 + 7 * 100. Behind it, when its place
    // was free at the sixth's answer, come what is left of the sets.
    let flushing = result.cores[0].residency[CoreState::Flushing as usize];
    assert!(
        flushing >= Time::ns(5 + 700 + 10) && flushing < Time::ns(5 + 700 + 10 + 100),
        "{flushing}"
    );
    assert_eq!(result.l3.others[0], 8);
}

#[test]
fn run_that_loses_caches_is_no_follower() {
    for kind in KINDS {
        let spec = Synthetic {
            kernel: Kernel::Mixed,
            footprint: 1 << 16,
            instructions: 20_000,
            seed: 1,
            duty: Some(halfwink_trace::Duty { burst: 4_000, idle_ns: 3_000 }),
        };
        let machine = losing(simple(kind), &CACHES, 0.0);
        let tasks = || vec![task(spec.source(), Arc::default())];
        let names = ["idle-gate", "tap", "always-on"];
        for leader in names {
            let make = |_| policy(&machine, leader);
            let options = Options { retention: leader != "always-on", ..Options::new(&make) };
            let policies = names.map(|name| {
                let machine = &machine;
                move |_: usize| policy(machine, name)
            });
            let followers: Vec<Follower<'_>> = (0..3)
                .map(|n| Follower {
                    machine: &machine,
                    policy: &policies[n],
                    retention: names[n] != "always-on",
                })
                .collect();
            let (mut codes, control) = (CodeCache::new(), RunControl::new());
            let (_, found) =
                run_together(&machine, tasks(), &options, &followers, &mut codes, &control)
                    .unwrap();
            for (name, found) in names.iter().zip(found) {
                let follows = leader == "always-on" && *name == "always-on";
                assert_eq!(found.is_some(), follows, "{kind}: {name} behind {leader}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Neither skipping cycles nor running ahead changes a run that loses.
    #[test]
    fn how_it_is_simulated_changes_nothing(
        recipes in prop::collection::vec(any_recipe(), 1..4),
        technique in 0..TECHNIQUES.len(),
        kind in 0..2usize,
        how in 1..3usize,
        quantum in 1u64..300,
    ) {
        let machine = losing_somehow(simple(KINDS[kind]), how);
        let go = |never_skip, quantum| {
            let tasks = recipes.iter().enumerate().map(|(n, recipe)| {
                let (script, lines) = script(recipe, n as u64);
                Task { start: Time::ns(7 * n as u64), ..task(script, warm(&lines, &[])) }
            });
            let how = How { never_skip, quantum };
            let result = try_run(&machine, TECHNIQUES[technique], tasks.collect(), how).unwrap();
            let timelines = result.cores.iter().map(|core| format!("{:?}\n", core.timeline));
            timelines.collect::<String>() + &fingerprint(&result)
        };
        let usual = go(false, None);
        let other = go(false, Some(Time::ns(quantum)));
        prop_assert_eq!(first_difference(&usual, &other), None);
        prop_assert_eq!(first_difference(&usual, &go(true, None)), None);
    }
}
