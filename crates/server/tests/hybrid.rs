//! The world of hybrid servers against cases that can be computed by hand, and closed forms.

use crate::common;

use std::sync::Arc;

use halfwink_engine::Law;
use halfwink_policy::steering::{
    Always, AlwaysOn, Side, SleepTimer, SleepTimerParameters, SteeringPolicy, Threshold,
    ThresholdParameters,
};
use halfwink_server::closed_form::Mginf;
use halfwink_server::confidence::Estimate;
use halfwink_server::{simulate, Arrivals, Goal, Options, Run};
use halfwink_techniques::server::{Model, Spec, Times, Workload};
use halfwink_units::Time;

fn model(change: impl FnOnce(&mut Spec)) -> Model {
    let mut spec = common::niccolini();
    change(&mut spec);
    Model::new(spec).unwrap()
}

/// Sizes are milliseconds on the big machine; the small one takes three times as long.
fn plain(size: Law) -> Workload {
    Workload {
        size,
        gamma: 1.0,
        small: Times::Linear { alpha_ms: 0.0, beta_ms: vec![3.0] },
        big: Times::Linear { alpha_ms: 0.0, beta_ms: vec![1.0] },
    }
}

fn threshold(s_t: u32) -> SteeringPolicy {
    Box::new(Threshold::new(ThresholdParameters::published(s_t)))
}

fn run(model: &Model, work: Workload, at: Arrivals, policy: SteeringPolicy, o: Options) -> Run {
    simulate(model, &model.check(&work).unwrap(), &at, policy, o).unwrap()
}

fn recorded(ms: &[u64]) -> Arrivals {
    let times: Arc<[Time]> = ms.iter().map(|&ms| Time::ns(ms * 1_000_000)).collect();
    Arrivals::Recorded { times, sizes: Arc::new([]) }
}

#[test]
fn a_short_day_by_hand() {
    let model = model(|spec| {
        spec.small.workers = 1;
        spec.big.workers = 1;
        spec.big.idle_w = 100.0;
        spec.big.max_w = 300.0;
        spec.big.sleep_share = 0.1;
        (spec.big.down_ms, spec.big.wake_ms) = (2.0, 5.0);
    });
    // 10 ms big, 30 ms small. At 10: small until 40. At 12: the small one has one, so the big one
    // wakes until 17, serves until 27, is down at 29. At 28: again small is taken; the big one goes
    // down until 29, wakes until 34, serves until 44, is down at 46.
    let work = plain(Law::Fixed { value: 10.0 });
    let run = run(&model, work, recorded(&[10, 12, 28]), threshold(1), Options::all(1));
    assert_eq!(run.duration, Time::ns(44_000_000));
    assert_eq!(run.tally.sent, [1, 2]);
    assert_eq!(run.finished(), 3);
    assert_eq!(run.tally.waited_ps, [0, (5 + 6) * 1_000_000_000]);
    let waits = &run.tally.waits;
    assert_eq!((waits.count(), waits.quantile(0.0)), (3, Some(Time::ZERO)));
    assert_eq!(waits.max(), Some(Time::ns(6_000_000)));
    let mean = run.tally.latency.mean().unwrap().as_ns() / 1e6;
    assert!((mean - (30.0 + 15.0 + 16.0) / 3.0).abs() < 1e-9, "{mean}");
    let [small, big] = &run.machines[..] else { panic!("a pair") };
    let ms = |s: f64| s * 1e3;
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
    // At the start it goes down for 2 ms; asleep until 12.
    let [on, down, asleep, waking, _] = big.state_s;
    near(ms(on), 20.0);
    near(ms(down), 2.0 + 2.0);
    near(ms(asleep), 10.0);
    near(ms(waking), 10.0);
    assert_eq!(big.wakes, 2);
    near(ms(big.served_s), 20.0);
    near(big.energy_j * 1e3, 20.0 * 300.0 + 14.0 * 100.0 + 10.0 * 10.0);
    near(ms(small.served_s), 30.0);
    near(small.energy_j * 1e3, 44.0 * 12.1 + 30.0 * 8.3);
    near(run.energy_j(), run.books.energy_where(|_| true).as_j());
}

#[test]
fn work_stands_still_while_its_machine_sleeps() {
    use halfwink_policy::steering::{Action, Event, Steering};
    use halfwink_policy::{Policy, Snapshot};
    /// Sleeps at its second arrival, wakes at its third.
    struct Napper(u32, Vec<Action>);
    impl Policy for Napper {
        type Event = Event;
        type Action = Action;
        fn on_event(&mut self, _now: Time, event: &Event) {
            if *event == Event::Arrive {
                self.0 += 1;
                self.1.push(Action::Send { side: Side::Big });
                match self.0 {
                    2 => self.1.push(Action::Sleep { side: Side::Big }),
                    3 => self.1.push(Action::Wake { side: Side::Big }),
                    _ => {}
                }
            }
        }
        fn poll_action(&mut self) -> Option<Action> {
            (!self.1.is_empty()).then(|| self.1.remove(0))
        }
        fn snapshot(&self) -> Snapshot {
            Vec::new()
        }
    }
    impl Steering for Napper {}
    let model = model(|spec| {
        spec.big.workers = 2;
        (spec.big.down_ms, spec.big.wake_ms) = (1.0, 3.0);
    });
    // The first has 10 ms to do, stands still from 4 to 23 ms: 20 to wake, 3 more. So it is done at
    // 29; the second, which came at 4, is served from 23 to 33 and the third from 29 to 39.
    let work = plain(Law::Fixed { value: 10.0 });
    let policy = Box::new(Napper(0, Vec::new()));
    let run = run(&model, work, recorded(&[0, 4, 20]), policy, Options::all(1));
    assert_eq!(run.duration, Time::ns(39_000_000));
    let latencies = run.tally.latency.total();
    assert_eq!(latencies, Time::ns((29 + 29 + 19) * 1_000_000));
    let served = run.machines[1].served_s;
    assert!((served - 0.030).abs() < 1e-12, "{served}");
}

#[test]
fn one_worker_is_an_m_m_1_queue_and_four_are_an_m_m_4() {
    let erlang_c = |k: u32, a: f64| {
        let mut b = 1.0;
        for n in 1..=k {
            b = a * b / (f64::from(n) + a * b);
        }
        let rho = a / f64::from(k);
        b / (1.0 - rho * (1.0 - b))
    };
    for (workers, load) in [(1, 0.7), (4, 0.8)] {
        let model = model(|spec| spec.big.workers = workers);
        let rate = load * f64::from(workers) * 1000.0 / 5.0;
        let work = plain(Law::Exponential { mean: 5.0 });
        let policy = Box::new(Always::new(Side::Big));
        let arrivals = Arrivals::Poisson { rate };
        let run = run(&model, work, arrivals, policy, Options::requests(2_000_000, 3));
        let a = rate * 0.005;
        let expected = 5.0 + erlang_c(workers, a) * 5.0 / (f64::from(workers) - a);
        let mean = run.tally.latency.mean().unwrap().as_ns() / 1e6;
        assert!((mean / expected - 1.0).abs() < 0.02, "{workers}: {mean}, {expected}");
        // Utilisation law, and Eq 3.2 of its mean.
        let busy = run.machines[1].served_s / run.duration.as_s();
        assert!((busy / a - 1.0).abs() < 0.01, "{busy}, {a}");
        let power = run.machines[1].energy_j / run.duration.as_s();
        assert!((power - (160.0 + 160.0 * load)).abs() < 1.5, "{power}");
    }
}

#[test]
fn with_workers_for_all_it_is_an_m_g_infinity_queue() {
    // Nobody waits, so the big machine is empty for exp(-offered) of the time, whatever the sizes.
    let model = model(|spec| {
        spec.big.workers = 4096;
        (spec.big.wake_ms, spec.big.down_ms) = (0.0, 0.0);
    });
    for size in [
        Law::Fixed { value: 5.0 },
        Law::Hyperexponential { mean: 5.0, cv: 3.0 },
        Law::BoundedPareto { min: 1.0, max: 200.0, shape: 1.2 },
    ] {
        let work = plain(size);
        let offered = 1.5;
        let mean_s = model.check(&work).unwrap().mean_s(Side::Big, 1);
        let arrivals = Arrivals::Poisson { rate: offered / mean_s };
        let policy = Box::new(SleepTimer::new(SleepTimerParameters::power_nap()));
        let run = run(&model, work, arrivals, policy, Options::requests(1_000_000, 5));
        let queue = Mginf { arrival_rate: offered / mean_s, service: mean_s };
        let [on, _, asleep, ..] = run.machines[1].state_s;
        let empty = asleep / (on + asleep);
        assert!((empty / queue.busy(0) - 1.0).abs() < 0.02, "{empty}, {}", queue.busy(0));
        let busy = run.machines[1].served_s / run.duration.as_s();
        assert!((busy / queue.mean_number() - 1.0).abs() < 0.02, "{busy}");
        assert_eq!(run.tally.waited_ps[1], 0);
    }
}

#[test]
fn nothing_waits_at_the_small_machine_if_the_threshold_is_its_threads() {
    // Niccolini 2012, Sec 3.2.3.
    let model = model(|_| {});
    let service = model.service("count").unwrap();
    let rate = 0.9 * (service.capacity(Side::Small) + service.capacity(Side::Big));
    for (s_t, waits) in [(4, false), (8, true)] {
        let arrivals = Arrivals::Poisson { rate };
        let options = Options::requests(100_000, 1);
        let run = simulate(&model, &service, &arrivals, threshold(s_t), options).unwrap();
        assert_eq!(run.tally.longest_wait[0] > Time::ZERO, waits, "S_t {s_t}");
    }
}

#[test]
fn with_ideal_sleep_the_big_machine_draws_only_what_it_works_for() {
    let model = model(|spec| {
        spec.big.sleep_share = 0.0;
        (spec.big.wake_ms, spec.big.down_ms) = (0.0, 0.0);
    });
    let service = model.service("count").unwrap();
    let rate = 0.3 * service.capacity(Side::Big);
    let arrivals = Arrivals::Poisson { rate };
    let play = |policy| {
        simulate(&model, &service, &arrivals, policy, Options::requests(50_000, 1)).unwrap()
    };
    let (hybrid, on) = (play(threshold(4)), play(Box::new(AlwaysOn::new(4))));
    // The same arrivals and sizes, and no time to wake: the same delays to the picosecond.
    assert_eq!(hybrid.tally.latency.total(), on.tally.latency.total());
    assert_eq!(hybrid.tally.sent, on.tally.sent);
    let big = hybrid.machines[1];
    assert_eq!(big.state_s[1] + big.state_s[3], 0.0);
    let awake = 160.0 * big.state_s[0] + 40.0 * big.served_s;
    assert!((big.energy_j / awake - 1.0).abs() < 1e-6);
    assert!((on.machines[1].state_s[0] - on.duration.as_s()).abs() < 1e-9);
}

#[test]
fn parts_add_up_to_the_run() {
    let model = model(|_| {});
    let service = model.service("count").unwrap();
    let arrivals = Arrivals::Mmpp { rates: [50.0, 800.0], stays_s: [0.5, 0.2] };
    let slot = Some(Time::ns(250_000_000));
    let until = Time::ns(20_100_000_000);
    let whole = Options { until, ..Options::all(9) };
    let play = |slot| {
        let options = Options { slot, ..whole };
        simulate(&model, &service, &arrivals, threshold(4), options).unwrap()
    };
    let (parts, one) = (play(slot), play(None));
    assert_eq!(parts.books.rows, one.books.rows);
    assert_eq!(parts.tally.latency.total(), one.tally.latency.total());
    assert!(parts.slots.len() >= 81, "{}", parts.slots.len());
    let sum: u64 = parts.slots.iter().map(|s| s.tally.arrived).sum();
    assert_eq!(sum, one.tally.arrived);
    let joules: f64 = parts.slots.iter().flat_map(|s| s.machines.iter().map(|m| m.energy_j)).sum();
    assert!((joules / one.energy_j() - 1.0).abs() < 1e-9);
    assert_eq!(one.finished(), one.tally.arrived, "drained");
}

#[test]
fn a_run_ends_when_its_results_are_known_and_the_closed_form_lies_in_its_interval() {
    let model = model(|spec| spec.big.workers = 1);
    let service = model.check(&plain(Law::Exponential { mean: 5.0 })).unwrap();
    let goal = Some(Goal { relative: 0.02, confidence: 0.95 });
    let mut within = 0;
    for seed in 0..10 {
        let arrivals = Arrivals::Poisson { rate: 0.7 * 200.0 };
        let options = Options { goal, ..Options::requests(20_000_000, seed) };
        let policy = Box::new(Always::new(Side::Big));
        let run = simulate(&model, &service, &arrivals, policy, options).unwrap();
        let found = run.precision.unwrap();
        assert!(found.reached && run.tally.arrived < 10_000_000, "{}", run.tally.arrived);
        // M/M/1: the mean of an exponential time in the system, and its quantiles.
        let mean = 0.005 / 0.3;
        assert!(found.mean_s.relative() <= 0.02 && found.p99_s.relative() <= 0.02);
        let hits = |e: &Estimate, exact: f64| u32::from((e.mean - exact).abs() <= e.half_width);
        within += hits(&found.mean_s, mean) + hits(&found.p99_s, mean * 100f64.ln());
        let small_w = 12.1 * 0.25;
        within += hits(&found.power_w, small_w + 160.0 + 160.0 * 0.7);
    }
    // 30 intervals of 95 %: fewer than 24 hits would be one chance in 10,000.
    assert!(within >= 24, "{within}");
}

#[test]
fn a_run_that_cannot_keep_up_ends_and_says_so() {
    let model = model(|_| {});
    let service = model.service("count").unwrap();
    let arrivals = Arrivals::Poisson { rate: 2.0 * service.capacity(Side::Small) };
    let goal = Some(Goal { relative: 0.01, confidence: 0.95 });
    let options = Options { goal, ..Options::requests(50_000_000, 1) };
    let policy = Box::new(Always::new(Side::Small));
    let run = simulate(&model, &service, &arrivals, policy, options).unwrap();
    assert!(!run.precision.unwrap().reached);
    assert!(run.tally.arrived < 2_000_000);
    assert!(run.finished() < run.tally.arrived * 6 / 10);
}

#[test]
fn a_policy_that_forgets_its_machine_is_an_error_not_a_hang() {
    let model = model(|_| {});
    let work = plain(Law::Fixed { value: 1.0 });
    let service = model.check(&work).unwrap();
    use halfwink_policy::steering::{Action, Event, Steering};
    use halfwink_policy::{Policy, Snapshot};
    struct Forgets(u32, Vec<Action>);
    impl Policy for Forgets {
        type Event = Event;
        type Action = Action;
        fn on_event(&mut self, _now: Time, event: &Event) {
            if *event == Event::Arrive && self.0 > 0 {
                self.0 -= 1;
                self.1.push(Action::Send { side: Side::Big });
            }
        }
        fn poll_action(&mut self) -> Option<Action> {
            self.1.pop()
        }
        fn snapshot(&self) -> Snapshot {
            Vec::new()
        }
    }
    impl Steering for Forgets {}
    let play = |answers, actions| {
        let policy = Box::new(Forgets(answers, actions));
        simulate(&model, &service, &recorded(&[1, 2]), policy, Options::all(1))
    };
    let silent = play(1, vec![]).unwrap_err().to_string();
    assert!(silent.contains("nowhere"), "{silent}");
    let asleep = play(2, vec![Action::Sleep { side: Side::Big }]).unwrap_err().to_string();
    assert!(asleep.contains("sleep for ever with 2 requests"), "{asleep}");
}
