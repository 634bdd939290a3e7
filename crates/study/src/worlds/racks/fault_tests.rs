//! Every schedule of circuits between racks under many seeds of faults. What must hold each run
//! looks at: see `halfwink_fabric::flows::RacksBroken`.

use halfwink_engine::{draw, stream, RunControl, Stream};
use halfwink_fabric::flows::traffic::ALONE;
use halfwink_fabric::flows::{
    play as simulate, Flow, RackFaultCounts, RackFaults, Setting, Traffic,
};
use halfwink_techniques::choices;
use halfwink_units::Time;
use rand::RngExt;

use super::job::routes;
use crate::fault_seeds::{any, play, plays_all};
use crate::library::Library;

/// Seeds that once broke what must hold; they are played first. In these less than a byte was lost
/// where the last of a flow went to a rack between.
const KEPT: [u64; 5] = [70, 175, 216, 609, 755];
const USUAL: u64 = 1000;

/// Links that are mostly up, mostly down; days of which none, half or nearly all are missed.
fn faults(random: &mut Stream) -> RackFaults {
    RackFaults {
        day_lost: any(random, &[0.0, 0.01, 0.5, 0.95]),
        link_down_every_s: any(random, &[0.0, 1e-4, 1e-3, 1e-2]),
        link_down_ms: any(random, &[0.01, 0.1, 5.0]),
    }
}

/// Flows of a few bytes to a few days' worth, together and one after the other.
fn traffic(random: &mut Stream, servers: u32) -> Traffic {
    let (mut traffic, mut at) = (Traffic::default(), 0.0);
    let apart_ns = any(random, &[0.0, 1e3, 1e5]);
    for _ in 0..random.random_range(1..40) {
        at += apart_ns * draw::exponential(random);
        let (from, to) = (random.random_range(0..servers), random.random_range(0..servers));
        let bytes = any(random, &[1.0, 2e3, 1e5, 3e6]) * (1.0 + random.random::<f64>());
        traffic.add(Flow { from, to, bytes, after: Time::from_ns(at), group: ALONE }, &[]);
    }
    traffic.close();
    traffic
}

#[test]
fn no_byte_is_lost_and_none_takes_a_dark_circuit_whatever_goes_wrong() {
    let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let infos =
        ["opera-648", "hybrid-648", "training-64"].map(|name| library.fabric(name, &[]).unwrap());
    let (mut sum, mut ended) = (RackFaultCounts::default(), 0);
    let test = "no_byte_is_lost_and_none_takes_a_dark_circuit";
    play(test, &KEPT, USUAL, |seed| {
        let random = &mut stream(seed, "which faults");
        let info = &infos[random.random_range(0..infos.len())];
        let mut racks = info.racks().unwrap().clone();
        racks.faults = faults(random);
        racks.count = any(random, &[2, 4, 6, 12]);
        racks.servers = any(random, &[1, 3]);
        racks.planes = racks.planes.min(any(random, &[1, 2]));
        let traffic = traffic(random, racks.all_servers());
        let mut broken = Vec::new();
        for choice in choices("racks", &[]).unwrap() {
            // Not every schedule has so few racks on so many planes.
            let Ok(policy) = info.schedule(&choice, racks.count, racks.planes) else { continue };
            let setting = Setting {
                racks: &racks,
                switch: &info.fabric.spec().switch,
                routes: routes(&choice),
                at_most: Time::ns(50_000_000),
                seed,
            };
            match simulate(&setting, policy, &traffic, &RunControl::new()) {
                Ok(run) => {
                    sum.days += run.faults.days;
                    sum.links += run.faults.links;
                    ended += run.times.iter().flatten().count();
                }
                Err(error) => broken.push(format!("{choice}: {error}")),
            }
        }
        broken
    });
    let enough = sum.days > 1_000 && sum.links > 1_000 && ended > 10_000;
    assert!(enough || !plays_all(), "{sum:?}, {ended} ended");
}
