//! Kernel code on cores of its own, against what can be computed.

use halfwink_arrivals::Arrivals;
use halfwink_engine::{Law, RunControl};
use halfwink_node::closed_form::set_up_wait;
use halfwink_node::{simulate, Load, Moved, Options, Profile, ProfileSpec, Run, RunError, Variant};
use halfwink_techniques::node::{Dispatch, Idler, Input, Machine, Plan};

use crate::common::{in_c1, in_c6, menu, run, service, spec};

const EVENLY: fn(f64) -> Arrivals = |rate| Arrivals::Constant { rate };
const AT_RANDOM: fn(f64) -> Arrivals = |rate| Arrivals::Poisson { rate };

/// Requests of 10 us, of which a core of the kernel is visited so often for so long.
fn moving(visits: f64, visit_us: f64) -> Profile {
    let moved = Some(Moved { visits, visit_us, power: 0.5 });
    let technique = "away".to_owned();
    let away = Variant { technique, time: 1.0, power: 1.0, shared: 1.0, moved };
    let plain = service(Law::Fixed { value: 10.0 }).spec().clone();
    let profile = Profile::new(ProfileSpec { variants: vec![away], ..plain }).unwrap();
    profile.under("away").unwrap()
}

fn with(os_cores: u32, requests: u64) -> Options {
    Options { os_cores, ..Options::requests(requests, 11) }
}

fn play(
    cores: u32,
    profile: &Profile,
    load: &Arrivals,
    make: fn(usize) -> Idler,
    options: Options,
) -> Run {
    run(spec(cores), profile, load, &Plan::default(), make, options)
}

fn mean_us(run: &Run) -> (f64, f64) {
    let estimate = run.mean_latency().times(1e6);
    (estimate.mean, estimate.half_width)
}

fn assert_within((mean, half): (f64, f64), expected: f64) {
    assert!(half < 0.05 * expected, "{mean} ± {half} says nothing of {expected}");
    assert!((mean - expected).abs() < 1.5 * half, "{mean} ± {half}, expected {expected}");
}

#[test]
fn alone_a_request_takes_its_parts_its_visits_and_their_wake_ups() {
    // 100 ms apart: all cores sleep in between, and while the request is elsewhere.
    let load = EVENLY(10.0);
    for (visits, make, wake_ups) in
        [(0.0, in_c6 as fn(usize) -> Idler, 1.0), (3.0, in_c6, 7.0), (3.0, in_c1, 0.0)]
    {
        let found = play(4, &moving(visits, 2.5), &load, make, with(1, 2000));
        let expected = 10.0 + visits * 2.5 + wake_ups * 20.0;
        let (mean, _) = mean_us(&found);
        assert!((mean - expected).abs() < 1e-3, "{visits} visits: {mean}, expected {expected}");
    }
}

#[test]
fn slower_kernel_cores_take_so_much_longer_for_each_visit() {
    let mut machine = spec(4);
    machine.kernel_cores.slowdown = 1.6;
    let (plan, load) = (Plan::default(), EVENLY(10.0));
    let found = run(machine, &moving(3.0, 2.5), &load, &plan, in_c1, with(1, 2000));
    let (mean, _) = mean_us(&found);
    assert!((mean - (10.0 + 3.0 * 2.5 * 1.6)).abs() < 1e-3, "{mean}");
}

#[test]
fn cheaper_kernel_cores_change_their_own_energy_and_nothing_else() {
    let play = |power| {
        let mut machine = spec(4);
        machine.kernel_cores.power = power;
        let (plan, load) = (Plan::default(), AT_RANDOM(1e4));
        run(machine, &moving(2.0, 2.5), &load, &plan, in_c6, with(1, 50_000))
    };
    let (same, cheap) = (play(1.0), play(0.25));
    assert_eq!(format!("{:?}", same.tally), format!("{:?}", cheap.tally));
    let energy = |run: &Run, core: &str| {
        let rows = run.books.named_rows().filter(|(component, ..)| *component == core);
        rows.map(|(_, _, _, row)| row.energy.as_j()).sum::<f64>()
    };
    assert_eq!(energy(&cheap, "core2"), energy(&same, "core2"));
    let share = energy(&cheap, "core3") / energy(&same, "core3");
    assert!((share - 0.25).abs() < 1e-6, "{share} of the energy");
}

#[test]
fn fractions_of_a_visit_are_the_mean_and_take_the_time_and_the_power_of_the_profile() {
    let found = play(4, &moving(2.4, 2.5), &EVENLY(10_000.0), in_c1, with(1, 200_000));
    let (kernel, busy) = found.os_cores;
    assert_eq!(kernel, 1);
    let expected = 10_000.0 * 2.4 * 2.5e-6;
    assert!((busy / expected - 1.0).abs() < 5e-3, "{busy}, expected {expected}");
    let rows = found.books.named_rows().filter(|(_, _, cause, _)| cause.reason == "moved");
    let (time_s, energy_j) = rows
        .map(|(_, _, _, row)| (row.time.as_s(), row.energy.as_j()))
        .fold((0.0, 0.0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    assert!((energy_j / time_s - 0.5 * 4.0).abs() < 1e-6, "{energy_j} J in {time_s} s");
}

#[test]
fn with_a_kernel_core_for_each_a_core_is_a_queue_of_the_whole_time() {
    let load = AT_RANDOM(2.0 * 0.6 / 15e-6);
    let found = play(4, &moving(2.0, 2.5), &load, in_c1, with(2, 1_000_000));
    // Pollaczek and Khinchine, of a request that holds its core for 15 us.
    assert_within(mean_us(&found), 15.0 + set_up_wait(0.04, [15.0, 225.0], [0.0, 0.0]));
}

#[test]
fn many_cores_that_visit_one_are_a_queue_of_it() {
    let rate = 0.6 / 5e-6;
    let found = play(513, &moving(1.0, 5.0), &AT_RANDOM(rate), in_c1, with(1, 1_000_000));
    let visited = set_up_wait(rate * 1e-6, [5.0, 25.0], [0.0, 0.0]);
    // And of each core the queue of those that it holds, 1 / 512 of them.
    let held = 15.0 + visited;
    let own = set_up_wait(rate * 1e-6 / 512.0, [held, held * held], [0.0, 0.0]);
    let (mean, half) = mean_us(&found);
    assert_within((mean, half.max(0.02)), held + own);
}

#[test]
fn nothing_that_moves_is_the_machine_without_those_cores() {
    let load = AT_RANDOM(3.0 * 0.5 / 10e-6);
    let plain = service(Law::Fixed { value: 10.0 });
    for dispatch in [Dispatch::Hash, Dispatch::LeastLoaded, Dispatch::Lifo, Dispatch::Packing(2)] {
        let plan = Plan { dispatch, ..Plan::default() };
        let apart = run(spec(4), &moving(0.0, 1.0), &load, &plan, in_c6, with(1, 100_000));
        let alone = run(spec(3), &plain, &load, &plan, in_c6, with(0, 100_000));
        let latencies = |run: &Run| format!("{:?} {}", run.tally.latency, run.tally.waited_ps);
        assert_eq!(latencies(&apart), latencies(&alone), "{dispatch:?}");
    }
}

/// However requests come to cores, each is served once, and books balance.
#[test]
fn every_dispatch_serves_what_comes() {
    let load = AT_RANDOM(6.0 * 0.5 / 15e-6);
    for dispatch in [Dispatch::Hash, Dispatch::LeastLoaded, Dispatch::Fifo, Dispatch::Packing(2)] {
        let plan = Plan { dispatch, input: Input::Coalesced(5.0), ..Plan::default() };
        let mut machine = spec(8);
        machine.kernel.background_per_s = 2000.0;
        let found = run(machine, &moving(2.3, 2.2), &load, &plan, in_c1, with(2, 200_000));
        let (came, done) = (found.tally.arrived, found.tally.finished);
        assert!(came.abs_diff(done) < 200, "{dispatch:?}: {done} of {came}");
    }
}

/// The core whose request is away rests, and its tick wakes it: that ends no part of the request.
#[test]
fn tick_while_a_request_is_away_ends_no_part_of_it() {
    let [visits, visit_us, rate] = [3.0, 9000.0, 20.0];
    let mut machine = spec(4);
    machine.kernel.tick_us = 4000.0;
    let (plan, load) = (Plan::default(), EVENLY(rate));
    let found = run(machine, &moving(visits, visit_us), &load, &plan, menu, with(1, 2000));
    assert!(found.tally.ticks > 100, "{} ticks", found.tally.ticks);
    let (_, busy) = found.os_cores;
    let expected = rate * visits * visit_us * 1e-6;
    assert!((busy / expected - 1.0).abs() < 5e-3, "{busy}, expected {expected}");
    assert!(found.tally.arrived.abs_diff(found.tally.finished) <= 4, "{:?}", found.tally);
}

/// A core whose worker waits is held by a request for all of its time; with more workers for no
/// more than its own work.
#[test]
fn workers_take_other_requests_while_theirs_is_away() {
    // 80 % of what one core can do with 10 us, three times what it can with 30.
    let load = AT_RANDOM(0.8 / 10e-6);
    let done = |workers| {
        let options = Options { workers, ..with(7, 100_000) };
        let found = play(8, &moving(2.0, 10.0), &load, in_c1, options);
        found.tally.finished as f64 / found.duration.as_s()
    };
    let [waits, takes] = [1, 64].map(done);
    assert!((waits * 30e-6 - 1.0).abs() < 1e-3, "{waits} requests a second");
    assert!((takes * 10e-6 - 0.8).abs() < 0.01, "{takes} requests a second");
}

#[test]
fn machine_without_a_core_for_one_side_is_refused() {
    let machine = Machine::new(spec(4)).unwrap();
    for os_cores in [0, 4, 5] {
        let (plan, load) = (Plan::default(), Load::Open(EVENLY(1e4)));
        let (on, options) = ((&machine, &moving(1.0, 1.0)), with(os_cores, 2000));
        let found = simulate(on, &load, &plan, &in_c1, options, &RunControl::new());
        let Err(RunError::Plan(message)) = found else { panic!("{os_cores} cores were played") };
        assert!(message.contains("expected 1 to 3"), "{message}");
    }
}
