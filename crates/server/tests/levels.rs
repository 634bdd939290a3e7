//! Levels of sleep against what is computed by hand.

use crate::common;

use halfwink_engine::Law;
use halfwink_policy::steering::{LevelCost, SleepTimer, SleepTimerParameters};
use halfwink_server::{simulate, Arrivals, Options, Run};
use halfwink_techniques::server::{Level, Model, ModelError, Times, Workload};
use halfwink_units::Time;

/// A big machine of 100 W that sleeps at 40 W and wakes in 2 s, or at 5 W and 30 s. It goes down at
/// once, and has room for all requests; the small one draws nothing.
fn model(levels: usize, change: impl Fn(&mut Level)) -> Result<Model, ModelError> {
    let mut spec = common::niccolini();
    (spec.small.idle_w, spec.small.max_w) = (0.0, 0.0);
    spec.faults.wake_timeout_ms = 60e3;
    let big = &mut spec.big;
    (big.workers, big.idle_w, big.max_w) = (1000, 100.0, 100.0);
    (big.sleep_share, big.transition_share) = (0.4, 1.0);
    (big.wake_ms, big.down_ms, big.cold_ms) = (2000.0, 0.0, 0.0);
    let mut deep =
        Level { name: "off".into(), sleep_share: 0.05, wake_ms: 30e3, down_ms: 0.0, cold_ms: 0.0 };
    change(&mut deep);
    big.levels = vec![deep; levels];
    Model::new(spec)
}

fn play(model: &Model, rate: f64, parameters: SleepTimerParameters, requests: u64) -> Run {
    let times = Times::Linear { alpha_ms: 0.0, beta_ms: vec![1e-6] };
    let (small, big) = (times.clone(), times);
    let work = Workload { size: Law::Fixed { value: 1.0 }, gamma: 1.0, small, big };
    let policy = Box::new(SleepTimer::new(parameters));
    let (service, arrivals) = (model.check(&work).unwrap(), Arrivals::Poisson { rate });
    simulate(model, &service, &arrivals, policy, Options::requests(requests, 7)).unwrap()
}

fn timers(first_s: f64, second_s: f64) -> SleepTimerParameters {
    let [first, second] = [first_s, second_s].map(|s| Time::from_ns(1e9 * s));
    let mut parameters = SleepTimerParameters::fixed(first);
    parameters.deeper[0] = second;
    parameters
}

#[test]
fn ladder_under_exponential_gaps_draws_and_delays_as_computed() {
    let model = model(1, |_| ()).unwrap();
    for (rate, first, second) in [(0.02, 5.0, 60.0), (0.005, 3.3, 80.0), (0.01, 0.0, 0.0)] {
        let run = play(&model, rate, timers(first, second), 40_000);
        // Share of gaps that last longer than so, and their mean length up to there.
        let longer = |s: f64| (-rate * s).exp();
        let until = |s: f64| (1.0 - longer(s)) / rate;
        let wakes = [longer(first) - longer(second), longer(second)];
        let [light_s, deep_s] = [2.0, 30.0];
        let waking_s = wakes[0] * light_s + wakes[1] * deep_s;
        let energy = 100.0 * (until(first) + waking_s)
            + 40.0 * (until(second) - until(first))
            + 5.0 * (1.0 / rate - until(second));
        let power = energy / (1.0 / rate + waking_s);
        assert!((run.power_w() / power - 1.0).abs() < 0.02, "{} of {power}", run.power_w());
        // A request that comes during a wake-up waits for half of it in the mean.
        let waited = |s: f64| s + rate * s * s / 2.0;
        let delay = wakes[0] * waited(light_s) + wakes[1] * waited(deep_s);
        let mean = delay / (1.0 + rate * waking_s);
        let found = run.tally.latency.mean().unwrap().as_s();
        assert!((found / mean - 1.0).abs() < 0.03, "{found} of {mean}");
        // Service takes no time here, so the waits are all of it.
        let waits = run.tally.waits.mean().unwrap().as_s();
        assert!((waits / found - 1.0).abs() < 1e-6, "{waits} of {found}");
    }
}

#[test]
fn ladder_of_one_level_is_break_even_timer() {
    let level = LevelCost { sleep_w: 40.0, transition_j: 120.0 };
    let plain = model(0, |_| ()).unwrap();
    // A level that saves nothing is never entered.
    let beside = model(1, |deep| (deep.sleep_share, deep.wake_ms) = (0.4, 2000.0)).unwrap();
    let useless = LevelCost { sleep_w: 40.0, transition_j: 500.0 };
    let runs = [
        play(&plain, 0.1, SleepTimerParameters::break_even(100.0, level), 20_000),
        play(&beside, 0.1, SleepTimerParameters::ladder(100.0, &[level, useless]), 20_000),
    ];
    let [one, other] = runs.map(|run| (run.energy_j().to_bits(), run.tally.latency.mean()));
    assert_eq!(one, other);
}

#[test]
fn levels_stand_apart_in_ledger() {
    let run = play(&model(1, |_| ()).unwrap(), 0.01, timers(1.0, 40.0), 50_000);
    let asleep = |name: &str| {
        let rows = run.books.named_rows().filter(|row| (row.0, row.1 .0) == ("big", name));
        rows.fold((0.0, 0.0), |(s, j), row| (s + row.3.time.as_s(), j + row.3.energy.as_j()))
    };
    let (light_s, light_j) = asleep("asleep");
    let (deep_s, deep_j) = asleep("asleep-2");
    assert!((light_j / light_s - 40.0).abs() < 1e-6, "{light_j} in {light_s}");
    assert!((deep_j / deep_s - 5.0).abs() < 1e-6, "{deep_j} in {deep_s}");
}

#[test]
fn requests_beyond_end_of_time_are_refused() {
    let model = model(0, |_| ()).unwrap();
    let service = model.service("count").unwrap();
    let policy = Box::new(SleepTimer::new(SleepTimerParameters::power_nap()));
    let (arrivals, options) = (Arrivals::Poisson { rate: 0.001 }, Options::requests(20_000, 7));
    let error = simulate(&model, &service, &arrivals, policy, options).unwrap_err().to_string();
    assert!(error.contains("requests take over 107 days, expected fewer requests"), "{error}");
    // The number that it names works, also under another seed.
    let (_, number) = error.rsplit_once("`--set requests=").unwrap();
    let fewer: u64 = number.trim_end_matches('`').parse().unwrap();
    assert_eq!(fewer, 8_000, "0.001 a second are 9,224 in 107 days");
    for seed in [7, 8, 9] {
        let policy = Box::new(SleepTimer::new(SleepTimerParameters::power_nap()));
        let options = Options::requests(fewer, seed);
        let run = simulate(&model, &service, &arrivals, policy, options).unwrap();
        assert_eq!(run.tally.latency.count(), fewer - fewer / 10);
    }
}

#[test]
fn levels_out_of_order_are_refused() {
    let wrong = |change: fn(&mut Level)| model(1, change).unwrap_err().to_string();
    let said = wrong(|deep| deep.sleep_share = 0.5);
    assert_eq!(said, "big.levels.off.sleep_share: 0.5, expected 0 to 0.4");
    let said = wrong(|deep| deep.wake_ms = 1000.0);
    assert_eq!(said, "big.levels.off.wake_ms: 1000, expected 2000 to 10000000");
    let said = model(4, |_| ()).unwrap_err().to_string();
    assert_eq!(said, "big.levels: 4 tables, expected 3 at most");
}
