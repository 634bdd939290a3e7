//! What goes wrong, by hand and in the mean. What holds whatever goes wrong, each run looks at
//! itself ([`crate::Broken`]), and a thousand seeds of all techniques are played elsewhere
//! (`crates/study/src/worlds/chip/fault_tests.rs`).

use super::gating::{chase, spans};
use super::os_cores::{
    additions, always, beside, never, offload, one_call, random_calls, try_offload,
};
use super::*;
use crate::{FaultCounts, FaultSpec};

fn faulty(machine: Machine, faults: FaultSpec) -> Machine {
    Machine { faults, ..machine }
}

/// One load from memory and its user, on an in-order core.
fn one_miss(technique: &str, faults: FaultSpec) -> RunResult {
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(COLD)]);
    run(&faulty(simple("in-order"), faults), technique, vec![task(script, warm(&lines, &[]))])
}

const NONE: FaultSpec = FaultSpec::NONE;

#[test]
fn an_order_to_wake_that_is_lost_costs_the_watchdog() {
    let lost = FaultSpec { wake_lost: 1.0, watchdog: Time::ns(100), ..NONE };
    let result = one_miss("tap", lost);
    // Ordered in 37, as without faults, to be awake for the response in 44.
    assert_eq!(
        spans(&result)[3..],
        [("gated", 16, 137), ("charging", 137, 141), ("restoring", 141, 144), ("active", 144, 145)]
    );
    let core = &result.cores[0];
    assert_eq!((core.late_wakes, core.late), (1, Time::ns(100)));
    assert_eq!(core.faults, FaultCounts { wakes_lost: 1, ..FaultCounts::default() });
}

#[test]
fn wake_ups_are_late_by_their_mean() {
    let machine = |share| {
        let late = FaultSpec { wake_late: share, late: Time::ns(20), ..NONE };
        faulty(simple("in-order"), late)
    };
    let task = || task(chase(), Arc::default());
    let sound = run(&machine(0.0), "tap", vec![task()]);
    let all = run(&machine(1.0), "tap", vec![task()]);
    let some = run(&machine(0.1), "tap", vec![task()]);
    let charging = |r: &RunResult| r.cores[0].residency[5].as_ns() / r.cores[0].wakes as f64;
    assert_eq!(sound.cores[0].faults, FaultCounts::default());
    assert_eq!(all.cores[0].faults.wakes_late, all.cores[0].wakes);
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.1, "{found}, expected {expected}");
    };
    near(charging(&sound), 4.0);
    near(charging(&all), 24.0);
    near(charging(&some), 6.0);
    near(some.cores[0].faults.wakes_late as f64, some.cores[0].wakes as f64 / 10.0);
    // As much is done, and none of it in less time.
    assert_eq!(all.cores[0].work.instructions, sound.cores[0].work.instructions);
    assert!(all.duration > some.duration && some.duration > sound.duration);
}

#[test]
fn core_without_tokens_never_gates_or_loses_time() {
    let on = one_miss("always-on", NONE);
    let lost = one_miss("tap", FaultSpec { token_lost: 1.0, ..NONE });
    assert_eq!((lost.cores[0].wakes, ns(&lost)), (0, ns(&on)));
    // From the first level, the second and the third, and memory's estimate.
    assert_eq!(lost.cores[0].faults.tokens_lost, 4);
    // So late that the core has done its work by then.
    let late = FaultSpec { token_late: 1.0, token_delay: Time::ns(1_000_000), ..NONE };
    let late = one_miss("tap", late);
    assert_eq!((late.cores[0].wakes, ns(&late)), (0, ns(&on)));
    assert_eq!(late.cores[0].faults.tokens_late, 4);
}

#[test]
fn faults_that_do_not_come_change_nothing() {
    // The OS core is gone after the run's end, and one wake-up or token in a trillion is hit.
    let rare = 1e-12;
    let none = FaultSpec {
        wake_lost: rare,
        wake_late: rare,
        token_lost: rare,
        token_late: rare,
        os_gone_after: Time::ns(1_000_000_000),
        ..NONE
    };
    for (technique, make) in [("tap", always as fn() -> _), ("idle-gate", beside)] {
        let play = |faults| {
            let machine = faulty(simple("out-of-order"), faults);
            let tasks = vec![random_calls(1, 60), random_calls(2, 60)];
            try_offload(&machine, technique, make, tasks, USUAL).unwrap()
        };
        assert_eq!(text(&play(none)), text(&play(NONE)));
    }
}

/// All of a result but what knows of the host.
fn text(result: &RunResult) -> String {
    let RunResult { books, l3, memory, duration, cores, os_cores, precision: _, pieces: _ } =
        result;
    let energy = books.energy_where(|_| true);
    format!("{energy:?} {l3:?} {memory:?} {duration:?} {cores:?} {os_cores:?}")
}

/// Everything at once.
const ALL: FaultSpec = FaultSpec {
    wake_lost: 0.3,
    watchdog: Time::ns(300),
    wake_late: 0.5,
    late: Time::ns(30),
    token_lost: 0.2,
    token_late: 0.3,
    token_delay: Time::ns(40),
    os_silent_every: Time::ns(3_000),
    os_silent: Time::ns(500),
    os_gone_after: Time::ns(40_000),
    os_timeout: Time::ns(800),
    seed: 7,
};

#[test]
fn fault_draws_do_not_depend_on_playing_order() {
    for (kind, technique) in [("in-order", "tap"), ("out-of-order", "tap-or-mapg")] {
        for make in [always as fn() -> _, beside] {
            let play = |how| {
                let machine = faulty(simple(kind), ALL);
                let tasks = (0..3).map(|n| random_calls(n, 80)).collect();
                text(&try_offload(&machine, technique, make, tasks, how).unwrap())
            };
            let usual = play(USUAL);
            assert!(usual == play(USUAL), "{kind} {technique}");
            for quantum in [1, 50, 1_000] {
                let how = How { never_skip: quantum == 50, quantum: Some(Time::ns(quantum)) };
                assert!(usual == play(how), "{kind} {technique} {quantum}");
            }
        }
    }
    let machine = |seed| faulty(simple("in-order"), FaultSpec { seed, ..ALL });
    let play = |seed| offload(&machine(seed), always, vec![random_calls(1, 80)]).duration;
    assert_ne!(play(1), play(2), "a seed is a run");
}

#[test]
fn a_call_whose_core_answers_no_more_runs_at_home() {
    let timeout = Time::ns(5_000);
    // Gone before the first call.
    let gone = FaultSpec { os_gone_after: Time(1), os_timeout: timeout, ..NONE };
    let machine = faulty(simple("in-order"), gone);
    let task = || one_call(&additions(), &additions(), [0; 3]);
    let stay = offload(&machine, never, vec![task()]);
    let goes = offload(&machine, always, vec![task()]);
    // Away and home again: half a switch each, and the timeout between.
    let extra = ns(&goes) - ns(&stay);
    assert!((5_200..=5_204).contains(&extra), "{extra}");
    let call = &goes.cores[0].calls[&(1 << 32)];
    assert_eq!((call.invocations, call.instructions), ([1, 0], [8, 0]));
    assert_eq!(goes.os_cores[0].work.instructions, [0, 0]);
    let once = FaultCounts { os_waits: 1, os_timeouts: 1, ..FaultCounts::default() };
    assert_eq!(goes.cores[0].faults, once);
    // Who knows does not ask again.
    let many = offload(&machine, always, vec![random_calls(1, 60)]);
    assert_eq!(many.cores[0].faults, FaultCounts { os_refusals: 59, ..once });
    let never = offload(&machine, never, vec![random_calls(1, 60)]);
    assert_eq!(many.cores[0].work, never.cores[0].work);
}

#[test]
fn a_call_waits_for_a_core_that_answers_soon() {
    let silent = FaultSpec {
        os_silent_every: Time::ns(2_000),
        os_silent: Time::ns(1_000),
        os_timeout: Time::ns(1_000_000),
        ..NONE
    };
    let task = || vec![random_calls(1, 400)];
    let sound = offload(&simple("in-order"), always, task());
    let waits = offload(&faulty(simple("in-order"), silent), always, task());
    let FaultCounts { os_waits, os_timeouts, os_refusals, .. } = waits.cores[0].faults;
    assert_eq!((os_timeouts, os_refusals), (0, 0));
    // Whenever it is asked, it answers after a microsecond more in the mean.
    assert!(os_waits > 50, "{os_waits}");
    let each = (waits.duration - sound.duration).as_ns() / os_waits as f64;
    assert!((700.0..1_300.0).contains(&each), "{each}");
    let moved = |r: &RunResult| r.cores[0].calls.values().map(|c| c.invocations[1]).sum::<u64>();
    assert_eq!(moved(&waits), moved(&sound));
}

#[test]
fn an_interrupt_runs_in_place_while_its_core_answers_nobody() {
    let gone = FaultSpec { os_gone_after: Time(1), ..NONE };
    let tick = 2 << 32 | 236;
    let sound = offload(&simple("in-order"), beside, vec![random_calls(3, 42)]);
    let gone = offload(&faulty(simple("in-order"), gone), beside, vec![random_calls(3, 42)]);
    assert_eq!(sound.cores[0].calls[&tick].invocations, [2, 12]);
    assert_eq!(gone.cores[0].calls[&tick].invocations, [14, 0]);
    assert_eq!(gone.cores[0].faults.os_refusals, 14);
}

#[test]
fn run_with_faults_has_no_followers() {
    let machine = faulty(simple("in-order"), FaultSpec { wake_late: 0.5, ..NONE });
    let make = |_| policy(&machine, "tap");
    let options = Options { retention: true, ..Options::new(&make) };
    let follower = crate::Follower { machine: &machine, policy: &make, retention: true };
    let tasks = vec![task(chase(), Arc::default())];
    let (mut codes, control) = (CodeCache::new(), RunControl::new());
    let (_, followed) =
        crate::run_together(&machine, tasks, &options, &[follower], &mut codes, &control).unwrap();
    assert!(followed.iter().all(Option::is_none));
}
