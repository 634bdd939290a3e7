//! Ordered sets of machines against closed forms, and a pair as the set of two.

use crate::common;

use halfwink_engine::Law;
use halfwink_policy::steering::{
    Member, Progressive, ProgressiveParameters, Rest, Split, SplitParameters, SteeringPolicy,
    Threshold, ThresholdParameters,
};
use halfwink_server::closed_form::{erlang_b, Mg1, Mmk, SleepCycle};
use halfwink_server::{simulate, Arrivals, Options, Run};
use halfwink_techniques::server::{Model, Spec, Times, Workload};
use halfwink_units::Time;

fn named(kind: &str, count: u32) -> String {
    if count == 1 {
        kind.to_owned()
    } else {
        format!("{kind}*{count}")
    }
}

/// A set of so many machines of each kind, in this order.
fn model(kinds: &[(&str, u32)], change: impl FnOnce(&mut Spec)) -> Model {
    let mut spec = common::niccolini();
    spec.machines = kinds.iter().map(|(kind, count)| named(kind, *count)).collect();
    change(&mut spec);
    Model::new(spec).unwrap()
}

/// Sizes are milliseconds on every machine.
fn alike(size: Law) -> Workload {
    let times = Times::Linear { alpha_ms: 0.0, beta_ms: vec![1.0] };
    Workload { size, gamma: 1.0, small: times.clone(), big: times }
}

fn exponential(mean: f64) -> Workload {
    alike(Law::Exponential { mean })
}

fn run(model: &Model, work: &Workload, rate: f64, policy: SteeringPolicy, o: Options) -> Run {
    simulate(model, &model.check(work).unwrap(), &Arrivals::Poisson { rate }, policy, o).unwrap()
}

fn progressive(model: &Model, least_on: u32, holds: u32) -> ProgressiveParameters {
    ProgressiveParameters {
        members: model.set().sides().map(|side| Member { side, holds }).collect(),
        least_on,
        spare: 0,
        linger: Time::ZERO,
        rest: Rest::default(),
    }
}

fn policy(parameters: ProgressiveParameters) -> SteeringPolicy {
    Box::new(Progressive::new(parameters))
}

fn mean_ms(run: &Run) -> f64 {
    run.tally.latency.mean().unwrap().as_ns() / 1e6
}

#[test]
fn a_set_of_one_small_and_one_big_machine_is_the_pair_to_the_byte() {
    let play = |set: &[(&str, u32)], policy: fn(&Model) -> SteeringPolicy| {
        let model = model(set, |spec| {
            spec.faults.crash_every_s = 20.0;
            spec.faults.repair_s = 1.0;
            spec.faults.wake_late = 0.1;
            spec.faults.late_ms = 5.0;
        });
        let work = model.spec().workloads["count"].clone();
        let options =
            Options { slot: Some(Time::ns(1_000_000_000)), ..Options::requests(50_000, 7) };
        format!("{:?}", run(&model, &work, 400.0, policy(&model), options))
    };
    let set: &[(&str, u32)] = &[("small", 1), ("big", 1)];
    let threshold = |_: &Model| -> SteeringPolicy {
        Box::new(Threshold::new(ThresholdParameters::published(4)))
    };
    assert_eq!(play(&[], threshold), play(set, threshold));
    let progressive = |model: &Model| policy(progressive(model, 1, 4));
    assert_eq!(play(&[], progressive), play(set, progressive));
    assert_ne!(play(&[], threshold), play(set, progressive), "the policies differ");
}

#[test]
fn one_machine_of_five_workers_is_an_m_m_5_queue() {
    let model = model(&[("big", 1)], |spec| spec.big.workers = 5);
    let rate = 0.8 * 5.0 / 0.005;
    let all_on = policy(progressive(&model, u32::MAX, 5));
    let run = run(&model, &exponential(5.0), rate, all_on, Options::requests(2_000_000, 3));
    let queue = Mmk { arrival_rate: rate, service_rate: 200.0, servers: 5 };
    let expected = 1e3 * (queue.mean_wait() + 0.005);
    assert!((mean_ms(&run) / expected - 1.0).abs() < 0.02, "{} {expected}", mean_ms(&run));
}

#[test]
fn what_overflows_the_first_machines_of_an_order_is_lost_by_them_as_erlang_says() {
    // The first n machines together are M/G/k/k: whatever they cannot take is sent to later ones.
    let model = model(&[("small", 4), ("big", 2)], |spec| {
        spec.small.workers = 2;
        spec.big.workers = 1000;
    });
    let (rate, offered) = (1000.0, 7.0);
    let work = alike(Law::BoundedPareto { min: 2.0, max: 100.0, shape: 0.9 });
    let service_s = model.check(&work).unwrap().mean_s(model.set().side(0), 1);
    let rate = rate * offered / (rate * service_s);
    let mut parameters = progressive(&model, u32::MAX, 2);
    parameters.members[4].holds = 1000;
    let run = run(&model, &work, rate, policy(parameters), Options::requests(1_000_000, 5));
    let mut overflow = 1.0;
    for machine in 0..4 {
        let next = erlang_b(offered, 2 * (machine as u32 + 1));
        let carried = offered * (overflow - next);
        let busy = run.machines[machine].served_s / run.duration.as_s();
        assert!((busy / carried - 1.0).abs() < 0.01, "{machine}: {busy} {carried}");
        let sent = run.tally.sent[machine] as f64 / run.tally.arrived as f64;
        assert!((sent / (overflow - next) - 1.0).abs() < 0.01, "{machine}: {sent}");
        // 12.1 W idle, 8.3 W more with both workers busy.
        let power = run.machines[machine].energy_j / run.duration.as_s();
        assert!((power - (12.1 + 8.3 * carried / 2.0)).abs() < 0.05, "{machine}: {power}");
        overflow = next;
    }
    let sent = run.tally.sent[4] as f64 / run.tally.arrived as f64;
    assert!((sent / overflow - 1.0).abs() < 0.02, "{sent} {overflow}");
    assert_eq!(run.tally.sent[5], 0);
    assert_eq!(run.tally.waited_ps, [0; 6]);
}

#[test]
fn equal_shares_in_turn_are_queues_with_erlang_gaps() {
    // One worker each: E3/M/1. Mean response 1 / (mu (1 - sigma)), where sigma is the root in
    // (0, 1) of sigma = E[exp(-mu (1 - sigma) gap)] (Kleinrock, "Queueing Systems" I, Sec 6.4).
    let model = model(&[("big", 5)], |spec| spec.big.workers = 1);
    let (mu, rate) = (200.0, 0.8 * 3.0 * 200.0);
    let shares =
        model.set().sides().enumerate().map(|(n, side)| (side, u32::from(n < 3))).collect();
    let split = Box::new(Split::new(&SplitParameters { shares }));
    let run = run(&model, &exponential(5.0), rate, split, Options::requests(2_000_000, 3));
    let sigma = (0..200).fold(0.5, |sigma: f64, _| (rate / (rate + mu * (1.0 - sigma))).powi(3));
    let expected = 1e3 / (mu * (1.0 - sigma));
    assert!((mean_ms(&run) / expected - 1.0).abs() < 0.02, "{} {expected}", mean_ms(&run));
    let thirds = run.tally.sent.iter().map(|&sent| 3.0 * sent as f64 / run.tally.arrived as f64);
    for (n, share) in thirds.enumerate() {
        assert!((share - f64::from(u8::from(n < 3))).abs() < 1e-4, "{n}: {share}");
    }
    let asleep = run.machines[4].state_s[2] / run.duration.as_s();
    assert!(asleep > 0.999, "{asleep}");
}

#[test]
fn a_set_whose_first_machine_holds_all_is_an_m_m_1_queue_with_set_up() {
    let (set_up_ms, down_ms) = (8.0, 3.0);
    let model = model(&[("big", 3)], |spec| {
        spec.big.workers = 1;
        (spec.big.wake_ms, spec.big.down_ms) = (set_up_ms, down_ms);
    });
    let rate = 0.6 * 200.0;
    for linger_ms in [0.0, 4.0] {
        let parameters = ProgressiveParameters {
            linger: Time::from_ns(linger_ms * 1e6),
            ..progressive(&model, 0, 1_000_000)
        };
        let options = Options::requests(1_000_000, 11);
        let run = run(&model, &exponential(5.0), rate, policy(parameters), options);
        let queue = Mg1::new(rate, 0.005, 1.0);
        let cycle = SleepCycle::fixed(linger_ms / 1e3, down_ms / 1e3, set_up_ms / 1e3);
        let expected = 1e3 * cycle.mean_response(&queue);
        assert!((mean_ms(&run) / expected - 1.0).abs() < 0.02, "{} {expected}", mean_ms(&run));
        let share = |state: usize| run.machines[0].state_s[state] / run.duration.as_s();
        let shares = cycle.shares(&queue);
        for (found, expected) in [
            (share(0), shares.busy + shares.idle),
            (share(1), shares.closing),
            (share(2), shares.asleep),
            (share(3), shares.set_up),
        ] {
            assert!((found - expected).abs() < 0.005, "{found} {expected}");
        }
        assert_eq!(run.tally.sent[1..], [0, 0]);
    }
}

#[test]
fn progressive_activation_follows_the_load_within_its_budget() {
    let model = model(&[("small", 4), ("big", 2)], |_| {});
    let work = model.spec().workloads["count"].clone();
    let whole = model.check(&work).unwrap().whole_capacity();
    let play = |load: f64, rest: Rest| {
        let parameters = ProgressiveParameters { rest, spare: 1, ..progressive(&model, 1, 4) };
        run(&model, &work, load * whole, policy(parameters), Options::requests(100_000, 2))
    };
    let [low, high] = [0.05, 0.6].map(|load| play(load, Rest::default()));
    assert!(low.power_w() < 0.6 * high.power_w(), "{} {}", low.power_w(), high.power_w());
    let sleeps = |run: &Run| run.machines.iter().map(|machine| machine.wakes).max();
    assert!(sleeps(&low) > Some(100), "{:?}", sleeps(&low));
    let rationed = play(0.05, Rest { least_awake: Time::ZERO, per_day: Some(5) });
    assert!(sleeps(&rationed) <= Some(6), "{:?}", sleeps(&rationed));
    assert!(rationed.power_w() > low.power_w());
}

#[test]
fn requests_of_lost_machines_of_a_set_are_answered_once() {
    let model = model(&[("small", 3), ("big", 2)], |spec| {
        spec.faults.crash_every_s = 5.0;
        spec.faults.repair_s = 3.0;
        spec.faults.wake_lost = 0.05;
        spec.faults.wake_timeout_ms = 100.0;
    });
    let work = model.spec().workloads["count"].clone();
    let parameters = ProgressiveParameters { spare: 1, ..progressive(&model, 1, 4) };
    let split = SplitParameters { shares: model.set().sides().zip([1, 1, 0, 0, 0]).collect() };
    for policy in [policy(parameters), Box::new(Split::new(&split))] {
        // A run fails unless each request is answered once.
        let run = run(&model, &work, 300.0, policy, Options::requests(50_000, 9));
        assert!(
            run.tally.losses.iter().take(2).all(|&losses| losses > 5),
            "{:?}",
            run.tally.losses
        );
        assert!(run.tally.resteered.iter().sum::<u64>() > 10);
    }
}

#[test]
fn kinds_and_counts_that_cannot_be_are_said() {
    let wrong = |machines: &str| {
        let mut spec = common::niccolini();
        spec.machines = vec!["big".to_owned(), machines.to_owned()];
        Model::new(spec).unwrap_err().to_string()
    };
    let kinds = "one of small, big and the names of kinds, as small or small*4";
    assert_eq!(wrong("medium"), format!("machines: found `medium`, expected {kinds}"));
    for count in ["0", "250", "-1", "x", ""] {
        let expected =
            format!("machines: found `small*{count}`, expected 1 to 250 machines, in all");
        assert_eq!(wrong(&format!("small*{count}")), expected);
    }
    let mut spec = common::niccolini();
    spec.kinds.insert("medium".to_owned(), spec.small.clone());
    let error = Model::new(spec.clone()).unwrap_err().to_string();
    let expected = "kinds.medium.times: expected `small` or `big`, whose times workloads have";
    assert_eq!(error, expected);
    let medium = spec.kinds.get_mut("medium").unwrap();
    (medium.times, medium.speed) = (Some("big".to_owned()), 0.5);
    spec.machines = vec!["small*2".to_owned(), "medium".to_owned()];
    let model = Model::new(spec).unwrap();
    assert_eq!(model.set().names(), ["small-1", "small-2", "medium"]);
    let service = model.service("count").unwrap();
    let of_pair = Model::new(common::niccolini()).unwrap().service("count").unwrap();
    let medium_s = service.mean_s(model.set().side(2), 1);
    let big_s = of_pair.mean_s(halfwink_policy::steering::Side::Big, 1);
    assert!((medium_s / big_s - 2.0).abs() < 1e-9, "{medium_s} {big_s}");
}
