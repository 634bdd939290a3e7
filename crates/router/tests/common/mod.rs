//! The shipped router, policies for it, and short traffic.

// Each test binary uses its own part of it.
#![allow(dead_code)]

use halfwink_engine::Input;
use halfwink_policy::scaling::{
    Depth, Napi, Polling, PowerSave, PowerSaveParameters, ScalingPolicy,
};
use halfwink_router::{simulate, Flows, Gap, Options, Profile, Run, Traffic};
use halfwink_techniques::router::{Model, Point};
use halfwink_units::Time;

pub fn text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/router/westmere.toml");
    std::fs::read_to_string(path).unwrap()
}

pub fn model() -> Model {
    Model::new(Input::new("westmere.toml", text()).parse().unwrap()).unwrap()
}

pub fn polling() -> ScalingPolicy {
    Box::new(Polling::new())
}

pub fn napi() -> ScalingPolicy {
    Box::new(Napi::new(Depth::C1))
}

pub fn power_save(in_order: bool) -> ScalingPolicy {
    let published = PowerSaveParameters::published(12, 14);
    Box::new(PowerSave::new(PowerSaveParameters { in_order, ..published }))
}

/// 64-byte packets at random; `ms` of them.
pub fn random(model: &Model, mpps: f64, ms: u64) -> Traffic {
    let app = model.app("ipv4").unwrap();
    let profile = Profile::constant(1.0, ms as usize, Time::ns(1_000_000));
    Traffic {
        full_pps: mpps * 1e6,
        bytes: 64,
        spacing: Time::ZERO,
        gap: Gap::Exponential,
        flows: Flows::Mixed,
        ..Traffic::random(model, app, profile)
    }
}

pub fn run(model: &Model, traffic: &Traffic, policy: ScalingPolicy, options: Options) -> Run {
    let run = simulate(model, model.app("ipv4").unwrap(), traffic, policy, options).unwrap();
    assert_eq!(run.received, run.forwarded + run.lost + run.queued, "packets are conserved");
    assert_eq!(run.latency.count(), run.forwarded);
    run
}

pub fn at(model: &Model, cores: u8, step: u8) -> Options {
    Options { start: Point { cores, step }, ..Options::all_cores(model, 1) }
}
