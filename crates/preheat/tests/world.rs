//! Every preheating policy in this world: requests are answered, books balance, and what is
//! prepared is faster than what is not.

use halfwink_engine::RunControl;
use halfwink_policy::preheat::{
    Hears, Late, NextLine, NoPreheat, Order, PreheatPolicy, Preheater, PreheaterParameters,
    Replayer, ReplayerParameters, ShamRequest, Stash, Stride, StrideParameters, Trigger, WakeOnly,
};
use halfwink_preheat::{simulate, Run, Spec, Traffic};
use halfwink_units::Time;

fn spec() -> Spec {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/preheat/odroid-xu3.toml");
    let spec: Spec = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    spec.check().unwrap();
    spec
}

fn traffic(spec: &Spec, service: &str) -> Traffic {
    let place = spec.services.keys().position(|name| name == service).unwrap();
    Traffic {
        services: vec![(place, 1.0)],
        rate: 200.0,
        requests: 60,
        lead: Time::from_ns(500_000.0),
        lost: 0.0,
        false_alarms: 0.0,
        restart_after: 0,
        seed: 1,
    }
}

fn run(spec: &Spec, traffic: &Traffic, policy: PreheatPolicy, hears: Hears) -> Run {
    simulate(spec, traffic, policy, hears, &RunControl::new()).unwrap()
}

fn preheater(late: Late) -> PreheatPolicy {
    let order = if late == Late::Concurrent { Order::FirstUse } else { Order::Address };
    Box::new(Preheater::new(PreheaterParameters {
        late,
        order,
        only_cold: true,
        ..PreheaterParameters::published()
    }))
}

fn policies() -> Vec<(&'static str, PreheatPolicy, Hears)> {
    let all = Hears { misses: true, packets: true, restarts: true };
    let jukebox = ReplayerParameters {
        what: halfwink_policy::preheat::Recorded::Misses,
        ..ReplayerParameters::jukebox()
    };
    let stride = StrideParameters { entries: 256, degree: 1, distance: 1 };
    vec![
        ("no-preheat", Box::new(NoPreheat), Hears::default()),
        ("wake-only", Box::new(WakeOnly::new(None)), Hears::default()),
        ("sham-request", Box::new(ShamRequest::new(None, Late::Wait)), Hears::default()),
        ("wait", preheater(Late::Wait), Hears::default()),
        ("skip", preheater(Late::Skip), Hears::default()),
        ("concurrent", preheater(Late::Concurrent), Hears::default()),
        ("next-line", Box::new(NextLine::new(1, 1)), all),
        ("stride", Box::new(Stride::new(stride)), all),
        ("jukebox", Box::new(Replayer::new(jukebox)), all),
        ("reap", Box::new(Replayer::new(ReplayerParameters::reap())), all),
        (
            "reap-announced",
            Box::new(Replayer::new(ReplayerParameters {
                trigger: Trigger::Announced,
                ..ReplayerParameters::reap()
            })),
            all,
        ),
        ("stash", Box::new(Stash::new(64)), all),
    ]
}

/// The run ends with the last answer, and a dump begins there.
#[test]
fn books_balance_when_a_run_ends_in_a_dump() {
    let spec = spec();
    for requests in 1..5 {
        let traffic = Traffic { requests, ..traffic(&spec, "nginx-2016") };
        run(&spec, &traffic, preheater(Late::Wait), Hears::default());
    }
}

#[test]
fn every_policy_answers_every_request() {
    let spec = spec();
    let mut means = Vec::new();
    for (name, policy, hears) in policies() {
        let run = run(&spec, &traffic(&spec, "nginx-2016"), policy, hears);
        assert_eq!(run.tally.latency.count(), 60, "{name}");
        let mean = run.tally.latency.mean().unwrap().as_ns() * 1e-3;

        means.push((name, mean));
    }
    let of = |name: &str| means.iter().find(|(n, _)| *n == name).unwrap().1;
    assert!(of("wake-only") < of("no-preheat"));
    assert!(of("wait") < of("wake-only"));
    assert!(of("sham-request") < of("wake-only"));
}
