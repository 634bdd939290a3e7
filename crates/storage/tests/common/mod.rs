//! Machines and policies for tests.

use halfwink_engine::{set_value, Input, RunControl};
use halfwink_policy::completion::{
    CacheAware, CacheAwareParameters, Completing, CompletionPolicy, Direct, Group, Issuer,
    RoundRobin, Same, SingleThread, Topology,
};
use halfwink_storage::world::{play, Parts, Path, Run, Setting, WorldError};
use halfwink_storage::{Machine, Spec};
use halfwink_units::Time;

pub fn text(name: &str) -> String {
    let path = format!("{}/../../machines/storage/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

pub fn machine(name: &str, set: &[(&str, &str)]) -> Machine {
    let mut input = Input::new(name, text(name));
    for (path, value) in set {
        input = set_value(&input, path, value).unwrap();
    }
    Machine::new(input.parse::<Spec>().unwrap()).unwrap()
}

pub fn policy(name: &str, machine: &Machine) -> Option<CompletionPolicy> {
    let it = &machine.spec().topology;
    let (topology, cpus) = (Topology::uniform(it.sockets, it.cores_per_socket), it.cpus());
    let period = Time::ns(1_000_000);
    let aware = CacheAwareParameters { period, ..CacheAwareParameters::published(0) };
    Some(match name {
        "single-thread" => Box::new(Completing::new(SingleThread, cpus)),
        "same" => Box::new(Completing::new(Same, cpus)),
        "issuer" => Box::new(Completing::new(Issuer, cpus)),
        "round-robin" => {
            Box::new(Completing::new(RoundRobin::new(&topology, Group::Socket, None), cpus))
        }
        "cache-aware" => Box::new(Completing::new(CacheAware::new(&topology, aware), cpus)),
        "msi-x" => Box::new(Completing::new(Direct::MSI_X, cpus)),
        "multi-queue" => Box::new(Completing::new(Direct::MULTI_QUEUE, cpus)),
        "polled" => Box::new(Completing::new(Direct::POLLED, cpus)),
        _ => return None,
    })
}

/// A setting with something changed.
pub fn play_with<'a>(
    machine: &'a Machine,
    name: &str,
    change: impl FnOnce(&mut Setting<'a>),
) -> Result<Run, WorldError> {
    let mut setting = Setting {
        machine,
        path: Path::Driver,
        parts: Parts::All,
        issuers: 1,
        first: 0,
        depth: 32,
        bytes: 512,
        rate: None,
        poisson: false,
        load: None,
        warm_up: 5_000,
        ios: 20_000,
        seed: 1,
    };
    change(&mut setting);
    play(&setting, policy(name, machine).unwrap(), &RunControl::new())
}

/// One CPU with so many I/Os in flight.
#[allow(dead_code)]
pub fn lone(machine: &Machine, name: &str, path: Path, parts: Parts, depth: u32) -> Run {
    play_with(machine, name, |s| (s.path, s.parts, s.depth) = (path, parts, depth)).unwrap()
}
