//! Every technique of the world under a thousand seeds of faults. What must hold each run looks at:
//! see `halfwink_server::Misled`.

use halfwink_engine::{stream, Stream};
use halfwink_server::{Arrivals, Options};
use halfwink_techniques::choices;
use halfwink_techniques::server::Faults;

use super::Cell;
use crate::fault_seeds::{any, play, plays_all};
use crate::library::Library;

/// Seeds that once broke what must hold; they are played first.
const KEPT: [u64; 0] = [];
const SEEDS: u64 = 1000;

/// Machines that are mostly sound, that are lost half of the time, that never come back.
fn faults(random: &mut Stream) -> Faults {
    Faults {
        wake_lost: any(random, &[0.0, 0.02, 0.5]),
        wake_late: any(random, &[0.0, 0.1, 0.5]),
        late_ms: any(random, &[0.1, 20.0, 500.0]),
        wake_timeout_ms: any(random, &[5.0, 12.0, 100.0, 10_000.0]),
        crash_every_s: any(random, &[0.0, 1.0, 5.0, 20.0]),
        repair_s: any(random, &[1e-3, 0.05, 2.0]),
        gone: any(random, &[0.0, 0.0, 0.1, 1.0]),
    }
}

#[test]
fn no_request_is_lost_and_nothing_sleeps_with_work_whatever_goes_wrong() {
    let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let info = library.server("niccolini", &[]).unwrap();
    let service = info.service("count").unwrap();
    let (mut losses, mut refused) = (0, 0);
    let test = "no_request_is_lost_and_nothing_sleeps_with_work";
    play(test, &KEPT, SEEDS, |seed| {
        let mut broken = Vec::new();
        let random = &mut stream(seed, "which faults");
        let faults = faults(random);
        let model = info.with(|spec| spec.faults = faults).unwrap();
        let load = any(random, &[0.02, 0.2, 0.6]);
        for choice in choices("server", &[]).unwrap() {
            let cell = Cell {
                arrivals: Arrivals::Poisson { rate: load * service.whole_capacity() },
                technique: choice.clone(),
                options: Options { drain: seed % 2 == 0, ..Options::requests(300, seed) },
                model: model.clone(),
                service: service.clone(),
            };
            match cell.run() {
                Ok(run) => {
                    losses += run.tally.losses.iter().sum::<u64>();
                    refused += run.tally.refused;
                }
                Err(error) => broken.push(format!("{choice}: {error}; {faults:?}")),
            }
        }
        broken
    });
    let enough = losses > 20_000 && refused > 100_000;
    assert!(enough || !plays_all(), "{losses} losses, {refused} refused: too few");
}
