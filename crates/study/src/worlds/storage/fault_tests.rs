//! Every technique of storage under many seeds of faults. What must hold each run looks at: see
//! `halfwink_storage::Broken`.

use halfwink_engine::{stream, RunControl, Stream};
use halfwink_storage::world::{play as simulate, Parts, Path, Setting};
use halfwink_storage::{Faults, Machine};
use halfwink_techniques::choices;

use super::StorageInfo;
use crate::fault_seeds::{any, play, plays_all};
use crate::library::Library;
use crate::mutant::Replaced;

/// Seeds that once broke what must hold; they are played first.
const KEPT: [u64; 0] = [];
const USUAL: u64 = 1000;

/// Devices that answer mostly, late, never; timeouts below what an I/O takes among them.
fn faults(random: &mut Stream) -> Faults {
    Faults {
        io_lost: any(random, &[0.0, 0.01, 0.3, 1.0]),
        io_late: any(random, &[0.0, 0.1, 1.0]),
        late_ms: any(random, &[0.01, 1.0, 100.0]),
        interrupt_lost: any(random, &[0.0, 0.01, 0.5, 1.0]),
        timeout_ms: any(random, &[0.01, 0.1, 5.0, 1_000.0]),
    }
}

#[test]
fn no_io_is_lost_or_ends_twice_whatever_goes_wrong() {
    let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let specs = ["westmere-ep", "linux-6.1", "sandybridge-e"]
        .map(|name| library.storage(name, &[]).unwrap().machine.spec().clone());
    let (mut errors, mut found, mut stale) = (0, 0, 0);
    let test = "no_io_is_lost_or_ends_twice";
    play(test, &KEPT, USUAL, |seed| {
        let random = &mut stream(seed, "which faults");
        let mut spec = any(random, &[&specs[0], &specs[1], &specs[2]]).clone();
        spec.faults = faults(random);
        let machine = Machine::new(spec).unwrap();
        let cpus = machine.spec().topology.cpus();
        let info = StorageInfo {
            name: String::new(),
            machine,
            text: String::new(),
            replaced: Replaced::default(),
        };
        let setting = Setting {
            machine: &info.machine,
            path: any(random, &[Path::Driver, Path::Queue, Path::QueueAndDriver]),
            parts: any(
                random,
                &[Parts::All, Parts::All, Parts::InterruptOnly, Parts::NoCompletion],
            ),
            issuers: any(random, &[1, 3, 12]).min(cpus),
            first: 0,
            depth: any(random, &[1, 4, 32]),
            bytes: 512,
            rate: any(random, &[None, Some(50e3)]),
            poisson: seed % 2 == 0,
            load: None,
            warm_up: any(random, &[0, 50]),
            ios: 200,
            seed,
        };
        let mut broken = Vec::new();
        for choice in choices("storage", &[]).unwrap() {
            let policy = info.policy(&choice).unwrap();
            match simulate(&setting, policy, &RunControl::new()) {
                Ok(run) => {
                    errors += run.faults.errors;
                    found += run.faults.found;
                    stale += run.faults.stale;
                }
                Err(error) => broken.push(format!("{choice}: {error}")),
            }
        }
        broken
    });
    let enough = errors > 1_000 && found > 1_000 && stale > 1_000;
    assert!(enough || !plays_all(), "{errors} errors, {found} found, {stale} stale");
}
