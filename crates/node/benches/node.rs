//! How many requests a second one core plays, on 56 cores under receive-side scaling and menu, and
//! how much of that is drawing them.
//!
//! Prints one line of JSON for each load; `make bench` shows them. Rates are of this machine; their
//! ratio is what to compare.

#![allow(clippy::print_stdout, missing_docs)]

use std::time::Instant;

use halfwink_arrivals::Arrivals;
use halfwink_engine::{Law, RunControl};
use halfwink_node::{draw, simulate, Engine, Load, Options, Profile, ProfileSpec};
use halfwink_policy::scaling::{Depth, IdleParameters, IdleState, IdleStates, Menu};
use halfwink_techniques::node::{Idler, Machine, Plan};
use halfwink_units::Time;

const REQUESTS: u64 = 4_000_000;
const SERVICE_US: f64 = 11.0;

fn menu(_: usize) -> Idler {
    let state = |depth, exit, residency| IdleState {
        depth,
        exit: Time::ns(exit),
        residency: Time::ns(residency),
        polls: false,
    };
    let states = [
        state(Depth::C1, 1_000, 1_000),
        state(Depth::C3, 2_000, 4_000),
        state(Depth::C6, 290_000, 800_000),
    ];
    let (tick, timer) = (Time::ns(4_000_000), Time::ns(100_000_000));
    let states = IdleStates::new(&states);
    let parameters = IdleParameters { cores: 1, states, tick, timer, wake: Time::ZERO };
    Idler::Rest { policy: Box::new(Menu::new(parameters)), depths: [1, 2, 3] }
}

fn main() {
    let text = include_str!("../../../machines/node/golden-cove-56.toml");
    let machine = Machine::new(toml::from_str(text).expect("a description")).expect("a machine");
    let profile = Profile::new(ProfileSpec {
        schema: 1,
        workload: "bench".to_owned(),
        core: "any".to_owned(),
        made_by: "bench".to_owned(),
        requests: 0,
        service_us: Law::Exponential { mean: SERVICE_US },
        apart_us: 0.0,
        user_share: None,
        cold: Vec::new(),
        watts: None,
        variants: Vec::new(),
    })
    .expect("a profile");
    for load in [0.1, 0.3, 0.7] {
        let rate = load * 56.0 / (SERVICE_US * 1e-6);
        let arrivals = Load::Open(Arrivals::Poisson { rate });
        let options = Options::requests(REQUESTS, 1);
        let rate = |play: &dyn Fn()| {
            let begun = Instant::now();
            play();
            REQUESTS as f64 / begun.elapsed().as_secs_f64() * 1e-6
        };
        let on = (&machine, &profile);
        let run = |engine| {
            let options = Options { engine, ..options };
            let plan = Plan::default();
            let found = simulate(on, &arrivals, &plan, &menu, options, &RunControl::new());
            std::hint::black_box(found.expect("a run"));
        };
        let drawn = rate(&|| {
            std::hint::black_box(draw(on, &arrivals, options).expect("arrivals"));
        });
        let (apart, queued) = (rate(&|| run(Engine::Any)), rate(&|| run(Engine::Queue)));
        println!(
            "{{\"load\": {load}, \"million_requests_a_second\": {apart:.2}, \"by_event_queue\": \
             {queued:.2}, \"drawn\": {drawn:.2}}}"
        );
    }
}
