//! Every technique of routers under many seeds of faults. What must hold each run looks at: see
//! `halfwink_router::Broken`.

use halfwink_engine::{stream, Stream};
use halfwink_router::{simulate, Options, Profile, Traffic};
use halfwink_techniques::choices;
use halfwink_techniques::router::{Faults, Model};
use halfwink_units::Time;

use crate::fault_seeds::{any, play, plays_all};
use crate::library::Library;

/// Seeds that once broke what must hold; they are played first.
const KEPT: [u64; 0] = [];
const USUAL: u64 = 1000;

/// Cores that mostly answer, that wake late, whose interrupts are all lost.
fn faults(random: &mut Stream) -> Faults {
    Faults {
        interrupt_lost: any(random, &[0.0, 0.01, 0.5, 1.0]),
        watchdog_ms: any(random, &[0.05, 0.5, 2_000.0]),
        wake_late: any(random, &[0.0, 0.1, 1.0]),
        late_us: any(random, &[1.0, 50.0, 1_000.0]),
        silent_every_s: any(random, &[0.0, 1e-4, 1e-3]),
        silent_ms: any(random, &[0.005, 0.1, 5.0]),
    }
}

#[test]
fn no_packet_is_lost_and_nothing_rests_with_packets_whatever_goes_wrong() {
    let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let specs =
        ["westmere", "linux"].map(|name| library.router(name, &[]).unwrap().model.spec().clone());
    let (mut interrupts, mut silent, mut forwarded) = (0, 0, 0);
    let test = "no_packet_is_lost_and_nothing_rests_with_packets";
    play(test, &KEPT, USUAL, |seed| {
        let random = &mut stream(seed, "which faults");
        let mut spec = any(random, &[&specs[0], &specs[1]]).clone();
        spec.faults = faults(random);
        spec.nic.ring = any(random, &[8, 64, 1024]);
        let model = Model::new(spec).unwrap();
        let app = model.app("ipv4").unwrap();
        let loads = [0.002, 0.1, 0.9].map(|load| load * any(random, &[1.0, 0.2]));
        // A thousand packets or so each, and a change of load for policies to follow.
        let full_pps = model.rate_mpps(app, model.fastest()) * 1e6;
        let us = 400.0 / full_pps * 1e6;
        let mut profile = Profile::constant(loads[1], 3, Time::from_ns(us * 1e3));
        profile.loads = loads.to_vec();
        let traffic = Traffic { full_pps, ..Traffic::random(&model, app, profile) };
        let options = Options {
            background: seed % 3 == 0,
            overall_order: seed % 5 == 0,
            ..Options::all_cores(&model, seed)
        };
        let mut broken = Vec::new();
        for choice in choices("router", &[]).unwrap() {
            let policy = choice.scaling(&model).unwrap();
            match simulate(&model, app, &traffic, policy, options) {
                Ok(run) => {
                    interrupts += run.faults.interrupts_lost;
                    silent += run.faults.silent;
                    forwarded += run.forwarded;
                }
                Err(error) => broken.push(format!("{choice}: {error}")),
            }
        }
        broken
    });
    let enough = interrupts > 1_000 && silent > 1_000 && forwarded > 10_000;
    assert!(enough || !plays_all(), "{interrupts} lost, {silent} silent, {forwarded} forwarded");
}
