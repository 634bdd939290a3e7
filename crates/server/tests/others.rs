//! Steering policies of others in the world of hybrid servers, against closed forms where there are
//! some.

use crate::common;

use halfwink_engine::Law;
use halfwink_policy::steering::{
    DreamWeaver, DreamWeaverParameters, Hal, HalParameters, KnightShift, KnightShiftParameters,
    OctopusMan, OctopusManParameters, Server, Shortest, ShortestParameters, SleepTimer,
    SleepTimerParameters, SteeringPolicy,
};
use halfwink_server::closed_form::{Mg1, Mmk, SleepCycle};
use halfwink_server::{simulate, Arrivals, Options, Run};
use halfwink_techniques::server::{Model, Times, Workload};
use halfwink_units::Time;

const fn ms(ms: u64) -> Time {
    Time::ns(1_000_000 * ms)
}

/// Machines of so many workers; the big one wakes in 4 ms and goes down in 2.
fn model(small: u32, big: u32) -> Model {
    let mut spec = common::niccolini();
    (spec.small.workers, spec.big.workers) = (small, big);
    (spec.big.down_ms, spec.big.wake_ms) = (2.0, 4.0);
    Model::new(spec).unwrap()
}

/// Milliseconds on the big machine, exponential; the small one takes three times as long.
fn play(model: &Model, mean_ms: f64, load: f64, policy: SteeringPolicy) -> Run {
    let work = Workload {
        size: Law::Exponential { mean: mean_ms },
        gamma: 1.0,
        small: Times::Linear { alpha_ms: 0.0, beta_ms: vec![3.0] },
        big: Times::Linear { alpha_ms: 0.0, beta_ms: vec![1.0] },
    };
    let arrivals = Arrivals::Poisson { rate: load * 1e3 / mean_ms };
    let service = model.check(&work).unwrap();
    simulate(model, &service, &arrivals, policy, Options::requests(1_000_000, 3)).unwrap()
}

fn mean_ms(run: &Run) -> f64 {
    run.tally.latency.mean().unwrap().as_ns() / 1e6
}

/// Shares of time of the big machine: on, going down, asleep, waking.
fn shares(run: &Run) -> [f64; 5] {
    run.machines[1].state_s.map(|s| s / run.duration.as_s())
}

#[test]
fn a_sleep_timer_is_an_m_g_1_queue_with_set_up_closing_down_and_linger() {
    let model = model(1, 1);
    for (linger, load) in [(0, 0.3), (7, 0.3), (7, 0.6), (30, 0.1)] {
        let policy = SleepTimer::new(SleepTimerParameters::fixed(ms(linger)));
        let run = play(&model, 5.0, load, Box::new(policy));
        let server = Mg1::new(load / 5.0, 5.0, 1.0);
        let cycle = SleepCycle::fixed(linger as f64, 2.0, 4.0);
        let (found, expected) = (mean_ms(&run), cycle.mean_response(&server));
        assert!((found / expected - 1.0).abs() < 0.01, "linger {linger}: {found}, {expected}");
        let s = cycle.shares(&server);
        let pairs = shares(&run).into_iter().zip([s.busy + s.idle, s.closing, s.asleep, s.set_up]);
        for (found, expected) in pairs {
            assert!((found - expected).abs() < 0.005, "linger {linger}: {found}, {expected}");
        }
    }
}

#[test]
fn cold_caches_delay_as_a_longer_wake_up_does_and_cost_what_serving_costs() {
    let [mut cold, mut slow] = [model(1, 1), model(1, 1)].map(|model| model.spec().clone());
    cold.big.cold_ms = 3.0;
    slow.big.wake_ms += 3.0;
    let [cold, slow] = [cold, slow].map(|spec| {
        let policy = SleepTimer::new(SleepTimerParameters::fixed(ms(7)));
        play(&Model::new(spec).unwrap(), 5.0, 0.3, Box::new(policy))
    });
    // With one worker, whatever waits for it waits for both alike.
    assert_eq!(mean_ms(&cold), mean_ms(&slow));
    assert_eq!(cold.duration, slow.duration);
    let (cold, slow) = (&cold.machines[1], &slow.machines[1]);
    let moved_s = 3e-3 * cold.wakes as f64;
    assert!((slow.state_s[3] - cold.state_s[3] - moved_s).abs() < 1e-2, "{moved_s}");
    assert!((cold.state_s[0] - slow.state_s[0] - moved_s).abs() < 1e-2, "{moved_s}");
}

#[test]
fn dream_weaver_finds_sleep_where_power_nap_finds_none_and_keeps_its_bound() {
    let model = model(1, 16);
    let sleep = |policy: SteeringPolicy| {
        let run = play(&model, 20.0, 4.8, policy);
        (shares(&run)[2], run.tally.latency.max().unwrap())
    };
    let (nap, longest) = sleep(Box::new(SleepTimer::new(SleepTimerParameters::power_nap())));
    let parameters = DreamWeaverParameters::published(16, ms(60));
    let (woven, held_up) = sleep(Box::new(DreamWeaver::new(parameters)));
    assert!(nap < 0.01 && woven > 0.2, "{nap}, {woven}");
    // Nothing waits for a worker at 30 % of 16: what differs is sleep, its bound and waking.
    assert!(held_up <= longest + ms(60 + 2 * 6), "{held_up:?}, {longest:?}");
}

#[test]
fn policies_of_pairs_use_the_small_machine_when_little_comes_and_the_big_one_when_much_does() {
    let model = model(4, 4);
    let policies = |name: &str| -> SteeringPolicy {
        match name {
            "octopus-man" => Box::new(OctopusMan::new(OctopusManParameters {
                period: ms(2_000),
                ..OctopusManParameters::published(ms(70))
            })),
            "knight-shift" => Box::new(KnightShift::new(KnightShiftParameters {
                capability_permille: 333,
                period: ms(500),
                ..KnightShiftParameters::published(4, 4)
            })),
            _ => Box::new(Hal::new(HalParameters::published(200, 4))),
        }
    };
    for name in ["octopus-man", "knight-shift", "hal"] {
        let [low, high] = [0.2, 3.2].map(|load| play(&model, 5.0, load, policies(name)));
        let small = |run: &Run| run.tally.sent[0] as f64 / run.tally.arrived as f64;
        assert!(
            small(&low) > 0.9 && small(&high) < 0.6,
            "{name}: {}, {}",
            small(&low),
            small(&high)
        );
        let [_, _, asleep, ..] = shares(&low);
        assert!(asleep > 0.8, "{name}: {asleep}");
        // Octopus-Man tries the small machine whenever it feels safe, and pays for it.
        assert!(mean_ms(&high) < 25.0 || name == "octopus-man", "{name}: {}", mean_ms(&high));
    }
}

#[test]
fn the_shortest_delay_is_below_that_of_the_big_machine_alone() {
    let model = model(4, 4);
    let fast = Server { workers: 4, service: ms(5) };
    let slow = Server { workers: 4, service: ms(15) };
    let parameters =
        ShortestParameters { small: slow, big: fast, wake_latency: ms(4), linger: Time::NEVER };
    let run = play(&model, 5.0, 3.6, Box::new(Shortest::new(parameters)));
    let alone = Mmk { arrival_rate: 0.72, service_rate: 0.2, servers: 4 }.mean_response();
    assert!(mean_ms(&run) < 0.8 * alone, "{}, {alone}", mean_ms(&run));
}
