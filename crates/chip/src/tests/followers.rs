//! One run for several techniques: whoever follows to the end has the result of a run of its own.

use super::exact::{any_recipe, fingerprint, first_difference, script, Recipe};
use super::*;
use crate::{run_together, Follower, WakeUpKind};
use halfwink_trace::{Kernel, Synthetic};
use proptest::prelude::*;

fn retains(technique: &str) -> bool {
    technique != "always-on"
}

const WINDOW: Option<(Time, Time)> = Some((Time::ZERO, Time::ns(10_000)));

/// The result of the first technique, and of those others that could follow it.
fn together(
    machine: &Machine,
    techniques: &[&str],
    tasks: Vec<Task>,
) -> Result<Vec<Option<RunResult>>, ChipError> {
    let pairs: Vec<_> = techniques.iter().map(|&technique| (machine, technique)).collect();
    together_on(&pairs, tasks)
}

/// The same, each technique with its own idea of what sleeping costs.
fn together_on(
    pairs: &[(&Machine, &str)],
    tasks: Vec<Task>,
) -> Result<Vec<Option<RunResult>>, ChipError> {
    let policies: Vec<_> = pairs
        .iter()
        .map(|&(machine, technique)| move |_: usize| policy(machine, technique))
        .collect();
    let follower = |n: usize| {
        let (machine, technique) = pairs[n];
        Follower { machine, policy: &policies[n], retention: retains(technique) }
    };
    let all: Vec<Follower<'_>> = (0..pairs.len()).map(follower).collect();
    let machine = pairs[0].0;
    let options =
        Options { retention: all[0].retention, timeline: WINDOW, ..Options::new(all[0].policy) };
    let mut codes = CodeCache::new();
    let control = RunControl::new();
    let (first, others) = run_together(machine, tasks, &options, &all[1..], &mut codes, &control)?;
    Ok([Some(first)].into_iter().chain(others).collect())
}

fn whole(result: &RunResult) -> String {
    let spans = |core: &crate::CoreResult| format!("{:?}\n", core.timeline);
    let histograms = |core: &crate::CoreResult| {
        format!("{:?} {:?} {:?}\n", core.latency, core.stalls, core.memory_stalls)
    };
    let each = result.cores.iter().map(|core| histograms(core) + &spans(core));
    fingerprint(result) + &each.collect::<String>()
}

/// Who follows the first of these to its end, each of them held against a run of its own.
fn followers<'t>(
    machine: &Machine,
    techniques: &[&'t str],
    tasks: impl Fn() -> Vec<Task>,
) -> Vec<&'t str> {
    let found = together(machine, techniques, tasks()).unwrap();
    let mut there = Vec::new();
    for (technique, result) in techniques.iter().zip(found) {
        let Some(result) = result else { continue };
        let alone = whole(&run(machine, technique, tasks()));
        let difference = first_difference(&alone, &whole(&result));
        assert_eq!(difference, None, "{technique} behind {}", techniques[0]);
        there.push(*technique);
    }
    there
}

/// The techniques, this one first.
fn led_by(first: usize) -> Vec<&'static str> {
    let (before, behind) = TECHNIQUES[..GATES_CORES].split_at(first);
    [behind, before].concat()
}

fn recorded(recipes: &[Recipe]) -> Vec<Task> {
    let of = |(n, recipe): (usize, &Recipe)| {
        let (script, lines) = script(recipe, n as u64);
        let mut task = task(script, warm(&lines, &[]));
        task.start = Time::ns(7 * n as u64);
        task
    };
    recipes.iter().enumerate().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_follower_has_what_a_run_of_its_own_has(
        recipes in prop::collection::vec(any_recipe(), 1..4),
        first in 0..GATES_CORES,
        kind in 0..2usize,
        slots in any::<bool>(),
    ) {
        let mut machine = simple(KINDS[kind]);
        if slots {
            machine.wake_up.controller = WakeUpKind::Distributed;
        }
        let there = followers(&machine, &led_by(first), || recorded(&recipes));
        if there[0] == "always-on" {
            prop_assert!(there.contains(&"oracle"), "{there:?}");
        }
    }
}

fn generated(kernel: Kernel, halts: bool) -> Vec<Task> {
    let duty = halts.then_some(halfwink_trace::Duty { burst: 2_000, idle_ns: 3_000 });
    let of = |seed| Synthetic { kernel, footprint: 8 << 20, instructions: 30_000, seed, duty };
    (1..4).map(|seed| task(of(seed).source(), Arc::default())).collect()
}

#[test]
fn without_halts_tap_and_the_techniques_for_idle_cores_follow() {
    for kind in KINDS {
        let machine = simple(kind);
        let there =
            followers(&machine, &TECHNIQUES[..GATES_CORES], || generated(Kernel::Mixed, false));
        for technique in ["idle-gate", "idle-adaptive", "tap", "oracle"] {
            assert!(there.contains(&technique), "{kind}: {technique} parted: {there:?}");
        }
        assert!(!there.contains(&"mapg-counter"), "{kind}: it is late, and nobody saw it");
    }
}

#[test]
fn techniques_that_are_late_in_the_same_way_follow_each_other() {
    for kind in KINDS {
        let machine = simple(kind);
        let techniques = ["idle-gate", "tap", "always-on", "oracle"];
        let there = followers(&machine, &techniques, || generated(Kernel::Chase, true));
        assert_eq!(there, ["idle-gate", "tap"], "{kind}");
    }
}

#[test]
fn granted_wake_ups_allow_no_followers() {
    let mut machine = simple("in-order");
    machine.wake_up.controller = WakeUpKind::Central;
    let found = together(&machine, &["always-on", "oracle"], generated(Kernel::Mixed, false));
    assert!(matches!(&found.unwrap()[..], [Some(_), None]));
}

/// What sleeping costs is its own for each technique, and changes the pace only after a halt.
#[test]
fn cores_that_wake_in_other_times_follow_up_to_the_first_halt() {
    for kind in KINDS {
        let machine = simple(kind);
        let mut other = machine.clone();
        other.gating.wake_up_ns *= 0.5;
        other.gating.wake_up_energy_pj *= 3.0;
        for technique in ["oracle", "tap", "idle-gate"] {
            let pairs = [(&machine, technique), (&other, technique)];
            let mut found = together_on(&pairs, generated(Kernel::Chase, false)).unwrap();
            let follower = found.pop().flatten().expect("nobody waits for it");
            let alone = run(&other, technique, generated(Kernel::Chase, false));
            let difference = first_difference(&whole(&alone), &whole(&follower));
            assert_eq!(difference, None, "{kind} {technique}");
            for pair in [pairs, [pairs[1], pairs[0]]] {
                let found = together_on(&pair, generated(Kernel::Chase, true)).unwrap();
                assert_eq!(found[1].is_some(), technique == "oracle", "{kind} {technique}");
            }
        }
    }
}
