//! Servers under a power cap against closed forms and sums by hand.

use halfwink_engine::RunControl;
use halfwink_server::capping::{run, Budget, Capping, CappingError, Outcome, Rule, Sampler, Stop};
use halfwink_units::Time;

const SECOND: Time = Time::ns(1_000_000_000);

fn milliseconds(n: f64) -> Time {
    Time::from_ns(n * 1e6)
}

fn exponential(servers: usize, cores: usize, load: f64) -> Capping {
    let gap = milliseconds(100.0 / load / cores as f64);
    Capping {
        servers,
        cores,
        gaps: Sampler::exponential(gap),
        sizes: Sampler::exponential(milliseconds(100.0)),
        epoch: SECOND,
        idle_w: 50.0,
        dynamic_w: 40.0,
        budget: None,
    }
}

fn play(setting: &Capping, stop: &Stop) -> Outcome {
    run(setting, stop, 7, &RunControl::new()).expect("it runs")
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found}, expected {expected}");
}

#[test]
fn one_core_without_a_cap_is_m_m_1() {
    for load in [0.3, 0.7, 0.85] {
        let stop = Stop { accuracy: 0.01, ..Stop::default() };
        let found = play(&exponential(20, 1, load), &stop);
        assert!(found.converged && found.response_s.relative() <= 0.01);
        let mean = 0.1 / (1.0 - load);
        near(found.response_s.mean, mean, 0.015);
        near(found.response_p95_s.mean, -mean * 0.05_f64.ln(), 0.015);
        near(found.power_w, 50.0 + 40.0 * load, 0.005);
        assert_eq!((found.cap_w.samples, found.budget_most_w), (0, 0.0));
    }
}

/// Mean time in the system of M/M/k with service times of mean 1 (Erlang's C).
fn erlang(cores: usize, load: f64) -> f64 {
    let k = cores as f64;
    let offered = load * k;
    let (mut term, mut sum) = (1.0, 0.0);
    for n in 0..cores {
        sum += term;
        term *= offered / (n + 1) as f64;
    }
    let waits = term / (1.0 - load);
    1.0 + waits / (sum + waits) / (k * (1.0 - load))
}

#[test]
fn cores_without_a_cap_are_m_m_k() {
    for (cores, load) in [(2, 0.6), (4, 0.8), (16, 0.9)] {
        let stop = Stop { accuracy: 0.01, ..Stop::default() };
        let found = play(&exponential(10, cores, load), &stop);
        near(found.response_s.mean, 0.1 * erlang(cores, load), 0.015);
    }
}

/// One server of one core, a request of `size` seconds every ten.
fn rare(size: f64, rule: Rule) -> Outcome {
    let setting = Capping {
        gaps: Sampler::constant(milliseconds(10_000.0)),
        sizes: Sampler::constant(milliseconds(size * 1e3)),
        idle_w: 51.4,
        dynamic_w: 41.6,
        budget: Some(Budget::bighouse(rule)),
        ..exponential(1, 1, 0.5)
    };
    play(&setting, &Stop { warm_up: 9, epochs: Some(800), ..Stop::default() })
}

#[test]
fn a_request_at_half_speed_takes_what_the_rule_says() {
    // Its share is 6 W: far below 75 W, so it runs at half speed, and the factor is 1.9.
    let slower = rare(1.5, Rule::Slower);
    near(slower.response_s.mean, 1.5 * 1.9, 1e-9);
    near(slower.power_w, 51.4 + 41.6 * 0.285, 0.02);
    near(rare(1.5, Rule::Published).response_s.mean, 1.5 / 1.9, 1e-9);
    // Three seconds are planned anew at the second, third and fourth second, each time with 1/1.9 s
    // less: what is left is 2.4737, 1.9474, 1.4211 s, and the last of these is done at once.
    let left = 3.0 - 3.0 / 1.9;
    near(rare(3.0, Rule::Published).response_s.mean, 3.0 + left / 1.9, 1e-9);
}

#[test]
fn capping_counts_power_beyond_share() {
    // Seen at work at the 10th, 11th and 12th second of every ten: 41.6 - 6 W each.
    let found = rare(1.5, Rule::Slower);
    near(found.cap_w.mean, 35.6 * 0.3, 1e-9);
    near(found.over_cap, 0.3, 1e-9);
}

#[test]
fn no_more_is_shared_out_than_the_cap() {
    for cap_w in [60.0, 70.0, 90.0] {
        // What is not shared out covers servers without work.
        let budget = Budget { cap_w, floor_w: 50.0, ..Budget::bighouse(Rule::Slower) };
        let setting = Capping { budget: Some(budget), ..exponential(50, 4, 0.4) };
        let found = play(&setting, &Stop { epochs: Some(300), ..Stop::default() });
        assert!(found.budget_most_w <= cap_w + 1e-9, "{} of {cap_w}", found.budget_most_w);
        assert!(found.budget_most_w > cap_w - 1e-9, "{} of {cap_w}", found.budget_most_w);
    }
}

#[test]
fn a_higher_cap_is_faster_and_none_is_fastest() {
    let at = |budget| {
        let setting = Capping { budget, ..exponential(50, 4, 0.45) };
        play(&setting, &Stop { epochs: Some(400), ..Stop::default() }).response_s.mean
    };
    let capped = |cap_w| Some(Budget { cap_w, floor_w: 50.0, ..Budget::bighouse(Rule::Slower) });
    let found = [at(capped(60.0)), at(capped(75.0)), at(capped(95.0)), at(None)];
    assert!(found.windows(2).all(|pair| pair[0] > pair[1]), "{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_and_another_another() {
    let setting = exponential(5, 2, 0.5);
    let stop = Stop { epochs: Some(100), ..Stop::default() };
    let with = |seed| run(&setting, &stop, seed, &RunControl::new()).expect("it runs").response_s;
    assert_eq!(with(1), with(1));
    assert_ne!(with(1).mean, with(2).mean);
}

#[test]
fn what_cannot_be_is_said() {
    let stop = Stop::default();
    let found = |setting: &Capping, stop: &Stop| {
        run(setting, stop, 1, &RunControl::new()).unwrap_err().to_string()
    };
    let good = exponential(2, 2, 0.5);
    let none = Capping { servers: 0, ..good.clone() };
    assert_eq!(found(&none, &stop), "servers: expected a number above 0, found 0");
    let at_once = Capping { gaps: Sampler::constant(Time::ZERO), ..good.clone() };
    let expected = "gaps between requests: expected a number above 0, found 0";
    assert_eq!(found(&at_once, &stop), expected);
    let sure = Stop { confidence: 1.0, ..stop };
    assert_eq!(found(&good, &sure), "confidence: expected a number between 0 and 1, found 1");
    let exact = Stop { accuracy: f64::NAN, ..stop };
    assert_eq!(found(&good, &exact), "accuracy: expected a number above 0, found NaN");
    let error = run(&exponential(2, 2, 1.5), &stop, 1, &RunControl::new()).unwrap_err();
    assert!(matches!(error, CappingError::Overload { servers: 2, .. }), "{error}");
    let stopped = RunControl::new();
    stopped.stop();
    assert!(matches!(run(&good, &stop, 1, &stopped), Err(CappingError::Interrupted(_))));
}
