//! Every schedule of circuits under many seeds of faults. What must hold each run looks at: see
//! `halfwink_fabric::Broken`.

use halfwink_engine::{stream, RunControl, Stream};
use halfwink_fabric::tcp::Algorithm;
use halfwink_fabric::world::{play as simulate, Setting, Transport};
use halfwink_fabric::Faults;
use halfwink_policy::circuits::host::Scheme;
use halfwink_techniques::choices;
use halfwink_units::Time;

use crate::fault_seeds::{any, play, plays_all};
use crate::library::Library;

/// Seeds that once broke what must hold; they are played first.
const KEPT: [u64; 0] = [];
const USUAL: u64 = 1000;

/// Links that lose little or all, news that do not come, hosts that are silent for weeks of slots.
fn faults(random: &mut Stream) -> Faults {
    Faults {
        frame_lost: any(random, &[0.0, 0.001, 0.2, 1.0]),
        sync_lost: any(random, &[0.0, 0.01, 0.5]),
        link_down_every_s: any(random, &[0.0, 1e-3, 1e-2]),
        link_down_ms: any(random, &[0.01, 1.0, 20.0]),
        silent_every_s: any(random, &[0.0, 1e-3, 1e-2]),
        silent_ms: any(random, &[0.01, 1.0, 20.0]),
    }
}

#[test]
fn no_frame_is_lost_uncounted_and_no_connection_waits_for_ever_whatever_goes_wrong() {
    let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let info = library.fabric("mordia", &[]).unwrap();
    let mut sum = halfwink_fabric::FaultCounts::default();
    let mut timeouts = 0;
    let test = "no_frame_is_lost_uncounted";
    play(test, &KEPT, USUAL, |seed| {
        let random = &mut stream(seed, "which faults");
        let mut hosts = info.hosts().unwrap().clone();
        hosts.faults = faults(random);
        hosts.count = any(random, &[2, 3, 7]);
        hosts.tcp.least_timeout_ms = any(random, &[0.2, 2.0, 200.0]);
        let algorithm = any(random, &[Algorithm::Cubic, Algorithm::Reno, Algorithm::Dctcp]);
        let offload = seed % 3 == 0;
        let transport = any(random, &[Transport::Udp, Transport::Tcp { algorithm, offload }]);
        let setting = Setting {
            switch: &info.fabric.spec().switch,
            hosts: &hosts,
            scheme: any(random, &Scheme::ALL),
            transport,
            duration: Time::ns(5_000_000),
            day: Time::ns(106_000),
            seed,
        };
        let mut broken = Vec::new();
        for choice in choices("fabric", &[]).unwrap() {
            let policy = info.schedule(&choice, hosts.count, 1).unwrap();
            if !policy.has_circuits() {
                continue;
            }
            match simulate(&setting, policy, &RunControl::new()) {
                Ok(run) => {
                    sum.frames += run.faults.frames;
                    sum.sync += run.faults.sync;
                    sum.silent += run.faults.silent;
                    timeouts += run.tcp.map_or(0, |tcp| tcp.tally.timeouts);
                }
                Err(error) => broken.push(format!("{choice}: {error}")),
            }
        }
        broken
    });
    let enough = sum.frames > 1_000 && sum.sync > 1_000 && sum.silent > 1_000 && timeouts > 100;
    assert!(enough || !plays_all(), "{sum:?}, {timeouts} timeouts");
}
