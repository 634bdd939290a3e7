//! Both engines give the same run; books balance; load that cannot be carried is seen.

use std::sync::Arc;

use halfwink_arrivals::Arrivals;
use halfwink_engine::Law;
use halfwink_node::{Engine, Options, Run};
use halfwink_techniques::node::{Announce, Dispatch, Input, Plan};
use halfwink_units::Time;

use crate::common::{gating_menu, in_c1, in_c6, menu, poisson, run, service, spec, ten_us};

fn summary(run: &Run) -> String {
    format!(
        "{:?} {:?} {:?} {} {} {:?}",
        run.slices,
        run.busy,
        run.states,
        run.tally.waited_ps,
        run.tally.ticks,
        run.tally.latency.max()
    )
}

#[test]
fn recurrence_and_queue_give_the_same_run() {
    for make in [in_c6, gating_menu, menu] {
        for (load, background) in [(0.05, 20.0), (0.6, 0.0)] {
            let mut spec = spec(6);
            spec.kernel.background_per_s = background;
            spec.idle_states[1].wake_us = [5.0, 35.0];
            let announced = Some(Announce {
                lead_us: 30.0,
                lost: 0.1,
                stray: 0.2,
                patience_us: 50.0,
                loads: true,
            });
            for announce in [None, announced] {
                let plan = Plan { announce, ..Plan::default() };
                let plays = |engine| {
                    let options = Options { engine, ..Options::requests(100_000, 17) };
                    run(spec.clone(), &ten_us(), &poisson(6, load), &plan, make, options)
                };
                assert_eq!(summary(&plays(Engine::Any)), summary(&plays(Engine::Queue)));
            }
        }
    }
}

/// Times of a log begin at 0, where no announcement can be before a request.
#[test]
fn requests_of_a_log_are_announced_too() {
    let times = (0..1000).map(|n| Time::ns(50_000 * n)).collect();
    let load = Arrivals::Recorded { times, sizes: Arc::default() };
    let plan = Plan {
        announce: Some(Announce {
            lead_us: 30.0,
            lost: 0.1,
            stray: 0.2,
            patience_us: 50.0,
            loads: true,
        }),
        ..Plan::default()
    };
    for engine in [Engine::Any, Engine::Queue] {
        let options = Options { engine, ..Options::requests(1000, 17) };
        let found = run(spec(2), &ten_us(), &load, &plan, in_c6, options);
        assert!(found.tally.arrived >= 890, "{engine:?}: {}", found.tally.arrived);
    }
}

/// Work that comes in the very picosecond in which a core is done does not find it idle.
#[test]
fn work_at_the_end_of_work_is_no_idle_time() {
    let plays = |engine| {
        let options = Options { engine, ..Options::requests(1000, 17) };
        let load = Arrivals::Constant { rate: 1e5 };
        let fixed = service(Law::Fixed { value: 10.0 });
        run(spec(1), &fixed, &load, &Plan::default(), in_c1, options)
    };
    let (apart, queued) = (plays(Engine::Any), plays(Engine::Queue));
    assert_eq!(summary(&apart), summary(&queued));
    assert_eq!(apart.tally.wakes.iter().sum::<u64>(), 1, "{:?}", apart.tally.wakes);
}

#[test]
fn menu_ticks_and_sleeps_deep_at_low_load() {
    let options = Options::requests(50_000, 19);
    let found = run(spec(8), &ten_us(), &poisson(8, 0.01), &Plan::default(), menu, options);
    assert!(found.states[2].share > 0.9, "{:?}", found.states);
    let busy = run(spec(8), &ten_us(), &poisson(8, 0.8), &Plan::default(), menu, options);
    assert!(busy.states[2].share < 0.05, "{:?}", busy.states);
}

#[test]
fn slices_sum_to_the_ledger() {
    let plan = Plan {
        package: Some("pc1a".to_owned()),
        dispatch: Dispatch::Packing(2),
        input: Input::Coalesced(20.0),
        announce: None,
    };
    let found =
        run(spec(8), &ten_us(), &poisson(8, 0.3), &plan, menu, Options::requests(100_000, 23));
    let sum: f64 = found.slices.iter().map(|slice| slice.energy_j).sum();
    assert!((sum / found.energy_j() - 1.0).abs() < 1e-9, "{sum} {}", found.energy_j());
    let units: u64 = found.slices.iter().map(|slice| slice.units).sum();
    assert_eq!(units, found.tally.finished);
}

#[test]
fn load_beyond_the_machine_is_not_finished() {
    let options = Options::requests(200_000, 29);
    let found = run(spec(2), &ten_us(), &poisson(2, 1.5), &Plan::default(), in_c6, options);
    let share = found.tally.finished as f64 / found.tally.arrived as f64;
    assert!((0.6..0.75).contains(&share), "{share}");
}

#[test]
fn packing_leaves_cores_asleep_and_interrupts_wait() {
    let options = Options::requests(300_000, 31);
    let plays = |dispatch, hold_us| {
        let plan = Plan { dispatch, input: Input::Coalesced(hold_us), ..Plan::default() };
        run(spec(8), &ten_us(), &poisson(8, 0.2), &plan, menu, options)
    };
    let hashed = plays(Dispatch::Hash, 0.0);
    let packed = plays(Dispatch::Packing(2), 0.0);
    assert!(packed.states[2].share > hashed.states[2].share + 0.1, "{:?}", packed.states);
    let held = plays(Dispatch::Hash, 50.0);
    let mean = |run: &Run| run.mean_latency().mean * 1e6;
    assert!(mean(&held) > mean(&hashed) + 15.0, "{} {}", mean(&held), mean(&hashed));
    // The same requests came to all.
    assert_eq!(packed.tally.arrived, hashed.tally.arrived);
}
