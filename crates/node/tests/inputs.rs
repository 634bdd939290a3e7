//! How requests get from the network card to a core, against what can be computed.

use halfwink_arrivals::Arrivals;
use halfwink_engine::Law;
use halfwink_node::closed_form::{coalesced_wait, set_up_wait};
use halfwink_node::{Options, Profile, Run};
use halfwink_techniques::node::{Idler, Input, Plan};

use crate::common::{in_c1, in_c6, menu, poisson, run, service, spec, ten_us, C1, C6};

/// Poisson arrivals at so many a core and microsecond.
fn rate(cores: u32, per_us: f64) -> Arrivals {
    Arrivals::Poisson { rate: f64::from(cores) * per_us * 1e6 }
}

fn play(profile: &Profile, load: &Arrivals, input: Input, make: fn(usize) -> Idler) -> Run {
    let plan = Plan { input, ..Plan::default() };
    run(spec(4), profile, load, &plan, make, Options::requests(200_000, 3))
}

fn mean_us(run: &Run) -> f64 {
    run.mean_latency().mean * 1e6
}

fn polled(span_us: f64, interrupt_us: f64) -> Input {
    Input::Polled { span_us, interrupt_us }
}

fn suspended(flush_us: f64, empty_polls: u32) -> Input {
    Input::Suspended { flush_us, empty_polls, interrupt_us: 0.0 }
}

#[test]
fn a_held_interrupt_costs_a_whole_timer_at_a_low_rate_and_half_at_a_high_one() {
    // Requests take next to nothing, so that none waits for another.
    let short = service(Law::Fixed { value: 1e-3 });
    for (per_us, hold_us) in [(1e-4, 50.0), (0.02, 50.0), (1.0, 50.0)] {
        let found = play(&short, &rate(4, per_us), Input::Coalesced(hold_us), in_c1);
        let expected = coalesced_wait(per_us, hold_us);
        let wait = mean_us(&found) - 0.001;
        assert!((wait / expected - 1.0).abs() < 0.02, "{per_us}: {wait}, expected {expected}");
    }
    assert!((coalesced_wait(1e-6, 50.0) - 50.0).abs() < 0.01);
    assert!((coalesced_wait(1e3, 50.0) - 25.0).abs() < 0.01);
}

#[test]
fn cores_that_poll_never_rest_and_save_interrupts_and_wake_ups() {
    let found = play(&ten_us(), &poisson(4, 0.3), polled(f64::INFINITY, 2.0), in_c6);
    // What is saved is taken off each request, as far as it has that much: E[max(S - 2, 0)].
    let mean = 10.0 * (-0.2_f64).exp();
    let [busy, _, kernel, waking] = found.busy;
    assert!((busy - 0.03 * mean).abs() < 0.003, "{busy}");
    assert!(kernel == 0.0 && waking == 0.0, "{kernel} {waking}");
    assert!((found.states[0].share - (1.0 - busy)).abs() < 1e-9, "{:?}", found.states);
    assert!(found.states[1..].iter().all(|state| state.share == 0.0), "{:?}", found.states);
    // Rest, mesh, four cores that spin at 3 W or work at 4.
    let watts = found.energy_j() / found.duration.as_s();
    let expected = 30.0 + 4.0 * (3.0 + busy);
    assert!((watts / expected - 1.0).abs() < 1e-6, "{watts}, expected {expected}");
    // Pollaczek and Khinchine of the shorter service, whose square is 2 * 100 * e^-0.2.
    let expected = mean + set_up_wait(0.03, [mean, 20.0 * mean], [0.0, 0.0]);
    assert!((mean_us(&found) / expected - 1.0).abs() < 0.02, "{} {expected}", mean_us(&found));
}

#[test]
fn a_core_that_has_polled_in_vain_rests_as_without() {
    let fixed = service(Law::Fixed { value: 10.0 });
    // One a millisecond: each is found after the poll of 50 us.
    let load = Arrivals::Constant { rate: 1000.0 };
    let few = |input, make| {
        let plan = Plan { input, ..Plan::default() };
        run(spec(1), &fixed, &load, &plan, make, Options::requests(2000, 3))
    };
    let [none, after] = [Input::AtOnce, polled(50.0, 2.0)].map(|input| few(input, in_c6));
    assert!((mean_us(&none) - mean_us(&after)).abs() < 1e-9, "{}", mean_us(&after));
    // 50 us of each millisecond at 3 W instead of 0.1 W.
    let more = (after.energy_j() - none.energy_j()) / none.duration.as_s();
    assert!((more - 0.05 * 2.9).abs() < 1e-4, "{more}");
    // A poll that lasts longer finds each, without interrupt or wake-up.
    let found = few(polled(2000.0, 2.0), in_c6);
    assert!((mean_us(&found) - 8.0).abs() < 1e-9, "{}", mean_us(&found));
    // All but the first, before which nothing was polled for.
    assert_eq!(found.tally.wakes[C6], 1);
    // A governor learns nothing while its core polls, and rests as it would behind it.
    let governed = few(polled(50.0, 0.0), menu);
    assert!(governed.states[2].share > 0.8, "{:?}", governed.states);
}

#[test]
fn a_request_behind_masked_interrupts_waits_for_the_timer() {
    let fixed = service(Law::Fixed { value: 10.0 });
    let mut timers = spec(1);
    timers.kernel.tick_work_us = 1.0;
    let few = |gap_us: f64, input| {
        let plan = Plan { input, ..Plan::default() };
        let load = Arrivals::Constant { rate: 1e6 / gap_us };
        run(timers.clone(), &fixed, &load, &plan, in_c6, Options::requests(20_000, 3))
    };
    // Done after 10 us; the next comes 5 us later, and is found by the timer 20 us after that,
    // which takes 1 us itself. Then it is 20 + 1 + 10 us behind its core's last work, and the one
    // behind it waits for a core that is busy: none waits longer than a timer.
    let found = few(15.0, suspended(20.0, 1));
    assert_eq!(found.tally.wakes[C6], 1);
    assert!(found.tally.wakes[C1] > 0);
    // Behind one timer that found nothing, interrupts are back: a wake-up from C6.
    let found = few(100.0, suspended(20.0, 1));
    assert!((mean_us(&found) - 30.0).abs() < 1e-6, "{}", mean_us(&found));
    // 20 us in C1 and 1 us of work for each.
    let seconds = found.duration.as_s();
    assert!((found.states[C1].share - 0.2).abs() < 1e-3, "{:?}", found.states);
    assert!((found.tally.ticks as f64 / seconds / 1e4 - 1.1).abs() < 0.05, "{}", found.tally.ticks);
    // A timer for longer finds each of them: half of none, the rest of the timer of all.
    let found = few(100.0, suspended(150.0, 1));
    // Done at 10, timer at 160: comes at 100, waits 60, 1 us of timer; done at 171; the next came
    // at 200: alone again. So all wait for a timer.
    assert_eq!(found.tally.wakes[C6], 1);
    assert!(mean_us(&found) > 40.0, "{}", mean_us(&found));
}

#[test]
fn a_masked_request_waits_as_renewal_theory_says() {
    // At a low load a request comes when interrupts are back; at a high one when its core is busy.
    // In between it may come while they are masked. Short requests, one timer: cycles of Poisson
    // arrivals. Behind a request, one that comes within the timer waits for the rest of it.
    let short = service(Law::Fixed { value: 1e-3 });
    let mut quick = spec(4);
    quick.kernel.tick_work_us = 0.0;
    let (per_us, flush_us) = (0.02, 50.0);
    let plan = Plan { input: suspended(flush_us, 1), ..Plan::default() };
    let options = Options::requests(400_000, 3);
    let found = run(quick, &short, &rate(4, per_us), &plan, in_c1, options);
    // Behind each that is served a timer runs. With probability p requests come within it: they
    // wait for what is left of it, half of it in the mean, and are served at its end, which begins
    // another. Else the next comes later and alone, and waits for nothing.
    let more = per_us * flush_us;
    let none = (-more).exp();
    let waits = more * 0.5 * flush_us;
    let expected = waits / (more + none);
    let wait = mean_us(&found) - 0.001;
    assert!((wait / expected - 1.0).abs() < 0.02, "{wait}, expected {expected}");
}

#[test]
fn moderation_holds_rare_requests_for_less_than_frequent_ones() {
    let short = service(Law::Fixed { value: 0.1 });
    let wait = |per_us| mean_us(&play(&short, &rate(4, per_us), Input::Moderated, in_c1));
    let (rare, frequent) = (wait(1e-3), wait(0.5));
    assert!(rare < 100.0 && frequent > 30.0, "{rare} {frequent}");
}
