//! Clients that wait for their answers, against what can be computed.

use halfwink_engine::{Law, RunControl};
use halfwink_node::closed_form::{machine_repairman, separate_queues};
use halfwink_node::{
    idle_power, simulate, Clients, Load, Options, Profile, ProfileSpec, Run, RunError,
};
use halfwink_techniques::node::{Announce, Dispatch, Input, Machine, Plan};

use crate::common::{gating_menu, in_c1, in_c6, menu, service, spec, ten_us};

const FIXED: Law = Law::Fixed { value: 100.0 };

fn clients(count: u32, think_us: Law) -> Load {
    Load::Closed(Clients { count, think_us })
}

fn play(cores: u32, profile: &Profile, load: &Load, plan: &Plan, options: Options) -> Run {
    let machine = Machine::new(spec(cores)).unwrap();
    let on = (&machine, profile);
    simulate(on, load, plan, &in_c1, options, &RunControl::new()).unwrap()
}

fn per_us(run: &Run) -> f64 {
    run.tally.finished as f64 / run.duration.as_s() * 1e-6
}

fn mean_us(run: &Run) -> (f64, f64) {
    let estimate = run.mean_latency().times(1e6);
    (estimate.mean, estimate.half_width)
}

fn assert_within((mean, half): (f64, f64), expected: f64, what: &str) {
    assert!(half < 0.05 * expected, "{what}: {mean} ± {half} says nothing of {expected}");
    assert!((mean - expected).abs() < 1.5 * half, "{what}: {mean} ± {half}, expected {expected}");
}

#[test]
fn one_queue_for_all_clients_is_the_machine_repairman() {
    for (cores, count, think) in [(1, 8, 50.0), (4, 12, 20.0), (4, 64, 100.0)] {
        let load = clients(count, Law::Exponential { mean: think });
        let plan = Plan { dispatch: Dispatch::Fifo, ..Plan::default() };
        let options = Options::requests(1_000_000, 3);
        let found = play(cores, &ten_us(), &load, &plan, options);
        let (rate, answer) = machine_repairman(cores, count, 10.0, think);
        let what = format!("{count} clients of {cores} cores");
        assert_within(mean_us(&found), answer, &what);
        // The response time law turns the interval of the mean into that of the throughput.
        let far = (per_us(&found) / rate - 1.0).abs();
        assert!(far < 3.0 * mean_us(&found).1 / (answer + think) + 1e-3, "{what}: {far}");
    }
}

#[test]
fn hashed_requests_of_clients_are_a_network_of_queues() {
    let load = clients(32, Law::Exponential { mean: 40.0 });
    let options = Options::requests(1_000_000, 5);
    let found = play(8, &ten_us(), &load, &Plan::default(), options);
    let (rate, answer) = separate_queues(8, 32, 10.0, 40.0);
    assert_within(mean_us(&found), answer, "mean value analysis");
    assert!((per_us(&found) / rate - 1.0).abs() < 0.01, "{} {rate}", per_us(&found));
}

/// N = X (R + Z), whatever happens within R: only cycles that the ends of the run cut are missing.
#[test]
fn clients_are_the_rate_times_the_answer_and_the_thought() {
    let plans = [
        Plan::default(),
        Plan { dispatch: Dispatch::Packing(2), input: Input::Coalesced(30.0), ..Plan::default() },
        Plan { package: Some("pc1a".to_owned()), dispatch: Dispatch::Lifo, ..Plan::default() },
        Plan { input: Input::Moderated, ..Plan::default() },
        Plan {
            input: Input::Polled { span_us: 30.0, interrupt_us: 1.0 },
            dispatch: Dispatch::LeastLoaded,
            ..Plan::default()
        },
        Plan {
            input: Input::Suspended { flush_us: 20.0, empty_polls: 3, interrupt_us: 1.0 },
            ..Plan::default()
        },
    ];
    for plan in &plans {
        for make in [in_c1 as fn(usize) -> _, in_c6, gating_menu, menu] {
            for count in [1, 7, 100] {
                let (load, options) = (clients(count, FIXED), Options::requests(100_000, 7));
                let machine = Machine::new(spec(4)).unwrap();
                let law = Law::Hyperexponential { mean: 10.0, cv: 2.0 };
                // Each answer comes 5 us after the core's work.
                let spec = ProfileSpec { apart_us: 5.0, ..service(law).spec().clone() };
                let profile = Profile::new(spec).unwrap();
                let on = (&machine, &profile);
                let found = simulate(on, &load, plan, &make, options, &RunControl::new()).unwrap();
                let cycles = found.tally.finished as f64;
                let spent_us = cycles * (mean_us(&found).0 + 100.0);
                let whole_us = f64::from(count) * found.duration.as_s() * 1e6;
                let longest_us = found.tally.latency.max().unwrap().as_ns() * 1e-3 + 100.0;
                let missing = (spent_us - whole_us).abs();
                assert!(missing < f64::from(count) * longest_us, "{plan:?} {count}: {missing}");
                assert!(missing < 0.005 * whole_us, "{plan:?} {count}: {missing} of {whole_us}");
            }
        }
    }
}

#[test]
fn a_single_client_never_waits_for_another() {
    let fixed = service(Law::Fixed { value: 10.0 });
    let options = Options::requests(10_000, 9);
    let found = play(4, &fixed, &clients(1, FIXED), &Plan::default(), options);
    assert!((per_us(&found) * 110.0 - 1.0).abs() < 1e-3, "{}", per_us(&found));
    assert_eq!(found.tally.waited_ps, 0);
}

#[test]
fn clients_draw_the_same_requests_whatever_the_policy() {
    // Alone on the machine, a client's n-th request takes the same under each.
    let (load, options) = (clients(1, FIXED), Options::requests(20_000, 11));
    let machine = Machine::new(spec(4)).unwrap();
    let profile = ten_us();
    let play = |make: fn(usize) -> _| {
        let (plan, control) = (Plan::default(), RunControl::new());
        simulate((&machine, &profile), &load, &plan, &make, options, &control).unwrap()
    };
    let (shallow, deep) = (play(in_c1), play(in_c6));
    // Each request wakes a core, in 20 us from C6.
    let longer = mean_us(&deep).0 - mean_us(&shallow).0;
    assert!((longer - 20.0).abs() < 0.2, "{longer}");
    assert!(deep.tally.finished < shallow.tally.finished);
    assert!(deep.energy_j() < shallow.energy_j());
}

#[test]
fn a_machine_without_requests_takes_the_power_of_its_states() {
    let (machine, profile) = (Machine::new(spec(4)).unwrap(), ten_us());
    let (plan, options) = (Plan::default(), Options::requests(1000, 1));
    let power = |make: fn(usize) -> _| {
        idle_power((&machine, &profile), &plan, &make, options, &RunControl::new()).unwrap()
    };
    // 20 W of the rest, 10 W of the mesh, and four cores.
    assert!((power(in_c1) - 36.0).abs() < 1e-6, "{}", power(in_c1));
    assert!((power(in_c6) - 30.4).abs() < 1e-6, "{}", power(in_c6));
    let mut waking = spec(4);
    waking.kernel.background_per_s = 1000.0;
    let machine = Machine::new(waking).unwrap();
    let found =
        idle_power((&machine, &profile), &plan, &in_c6, options, &RunControl::new()).unwrap();
    // A thousand wake-ups a core and second, each 20 us and 5 us at 4 W instead of 0.1 W.
    let more = 4.0 * 1000.0 * 25e-6 * 3.9;
    assert!((found - 30.4 - more).abs() < 0.1 * more, "{found}, expected {more} more");
}

#[test]
fn impossible_clients_are_refused() {
    let machine = Machine::new(spec(4)).unwrap();
    let profile = ten_us();
    let said = |load: Load, plan: &Plan| {
        let options = Options::requests(1000, 1);
        let found =
            simulate((&machine, &profile), &load, plan, &in_c1, options, &RunControl::new());
        match found {
            Err(RunError::Load(said) | RunError::Plan(said)) => said,
            _ => panic!("{load:?} was played"),
        }
    };
    let plain = Plan::default();
    assert!(said(clients(0, FIXED), &plain).contains("0 clients, expected 1 to"));
    assert!(said(clients(1, Law::Exponential { mean: -1.0 }), &plain).contains("think time"));
    let announce =
        Announce { lead_us: 20.0, lost: 0.0, stray: 0.0, patience_us: 100.0, loads: false };
    let told = Plan { announce: Some(announce), ..Plan::default() };
    assert!(said(clients(1, FIXED), &told).contains("play an open load"));
}
