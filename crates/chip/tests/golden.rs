//! Runs whose results are on record: whoever restructures the chip must get them again, to the
//! picosecond and the attojoule. A change of the model changes them on purpose, and says so.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use halfwink_chip::{
    run, CodeCache, CoreResult, Machine, MapgSpec, Options, OsSpec, RunResult, Task, UnitDomains,
    WakeUpKind,
};
use halfwink_engine::{Input, RunControl};
use halfwink_policy::gating::{
    AdaptiveIdle, AlwaysOn, Expectation, Fupg, FupgParameters, GatingPolicy, IdleGate, MapgCounter,
    MapgParameters, Oracle, Tap,
};
use halfwink_policy::offload::{Fixed, OffloadPolicy, Organisation, Parameters, PerCall, Place};
use halfwink_policy::offload::{Predicted, PredictedParameters, Threshold};
use halfwink_power::CoreState;
use halfwink_trace::{Kernel, LoadKind, Synthetic, TraceFile};
use halfwink_units::Time;

/// The published values (Strong 2013, Sec 2.4).
const FUPG: FupgParameters =
    FupgParameters { idle: Time::ns(5), window: Time::ns(10_000), budget: Time::ns(200) };

fn mapg(machine: &Machine) -> MapgParameters {
    let MapgSpec { t_llc, t_mem } = machine.mapg;
    MapgParameters { t_llc, t_mem, expectation: Expectation::Memory }
}

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn machine(name: &str) -> Machine {
    let path = data(&format!("machines/{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    Machine::parse(&Input::new(name, text)).unwrap()
}

/// Recorded programs by name, generated ones by their kernel; copies start 20 us apart.
fn tasks(names: &[&str], limit: u64) -> Vec<Task> {
    let task = |(n, name): (usize, &&str)| {
        let start = Time::ns(20_000) * n as u64;
        if let Some(&(_, kernel, footprint)) = Kernel::ALL.iter().find(|(known, ..)| known == name)
        {
            let seed = 1 + n as u64;
            let spec = Synthetic { kernel, footprint, instructions: limit, seed, duty: None };
            let (source, warm) = (Box::new(spec.source()), Arc::default());
            return Task {
                source,
                warm,
                load: LoadKind::Closed,
                limit,
                start,
                shared: None,
                thread: None,
            };
        }
        let file = Arc::new(TraceFile::open(&data(&format!("workloads/{name}.hwt"))).unwrap());
        let load = file.header().load.as_ref().map_or(LoadKind::Closed, |load| load.kind);
        let warm = Arc::new(file.warm().unwrap());
        Task {
            source: Box::new(file.stream()),
            warm,
            load,
            limit,
            start,
            shared: None,
            thread: None,
        }
    };
    names.iter().enumerate().map(task).collect()
}

fn gating(machine: &Machine, technique: &str, core: usize) -> GatingPolicy {
    let costs = machine.gating_costs(core);
    match technique {
        "always-on" => Box::new(AlwaysOn),
        "idle-gate" => Box::new(IdleGate::new()),
        "idle-adaptive" => Box::new(AdaptiveIdle::new(costs)),
        "mapg-counter" => Box::new(MapgCounter::new(costs, mapg(machine))),
        "tap" => Box::new(Tap::new(costs, machine.token_entries())),
        "oracle" => Box::new(Oracle::new(costs)),
        "fupg" => Box::new(Fupg::new(FUPG)),
        other => panic!("no technique {other}"),
    }
}

fn offload(technique: &str) -> OffloadPolicy {
    match technique {
        "never" => Box::new(Fixed::never()),
        "always" => Box::new(Fixed::always()),
        "beside" => Box::new(PerCall::new(Vec::new(), 16, Place::Beside)),
        "predicted" => {
            let parameters = Parameters::published(Organisation::PUBLISHED_ASSOCIATIVE);
            let threshold = Threshold::Fixed(100);
            Box::new(Predicted::new(PredictedParameters::hardware(parameters, threshold)))
        }
        other => panic!("no technique {other}"),
    }
}

/// FNV-1a, over numbers.
struct Digest(u64);

impl Digest {
    fn add(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for byte in numbers.into_iter().flat_map(u64::to_le_bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn add_core(&mut self, core: &CoreResult) {
        let (caches, units) = (&core.caches, &core.units);
        let pairs = [
            core.work.instructions,
            core.work.uops,
            caches.l1i_accesses,
            caches.l1i_misses,
            caches.l1d_accesses,
            caches.l1d_misses,
            caches.l2_accesses,
            caches.l2_misses,
            core.branches.predicted,
            core.branches.mispredicted,
            units.alu,
            units.multiply,
            units.fp,
            units.memory,
            [core.wakes, core.late_wakes],
            [core.late.0, u64::from(caches.most_outstanding)],
            [core.started.0, core.finished.0],
            [core.requests, core.latency.count()],
        ];
        self.add(pairs.into_iter().flatten());
        // The records are older than this state: a run without it is as it was.
        let (others, flushing) = core.residency.split_at(CoreState::Flushing as usize);
        self.add(others.iter().map(|time| time.0));
        self.add(flushing.iter().map(|time| time.0).filter(|&time| time > 0));
        for histogram in [&core.latency, &core.stalls, &core.memory_stalls] {
            self.add([histogram.count(), histogram.total().0, histogram.max().map_or(0, |t| t.0)]);
        }
        for (&code, call) in &core.calls {
            self.add([code].into_iter().chain(call.invocations).chain(call.instructions));
            self.add(call.running.into_iter().chain(call.taken).map(|time| time.0));
        }
    }
}

/// What to see at a glance, and a digest of all counters and ledger rows.
fn line(name: &str, result: &RunResult) -> String {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    let cores = || result.cores.iter().chain(&result.os_cores);
    cores().for_each(|core| digest.add_core(core));
    let (l3, memory) = (&result.l3, &result.memory);
    let pairs = [l3.accesses, l3.misses, l3.transfers, l3.upgrades, [l3.write_backs, 0]];
    digest.add(pairs.into_iter().flatten());
    digest.add([memory.activates, memory.reads, memory.writes].into_iter().flatten());
    let mut energy = 0u128;
    for (component, state, cause, row) in result.books.named_rows() {
        let words = [component, state.0, cause.mode.name(), cause.reason];
        digest.add(words.into_iter().flat_map(str::bytes).map(u64::from));
        digest.add([row.time.0, row.energy.0 as u64]);
        energy += u128::from(row.energy.0 as u64);
    }
    let instructions: u64 = cores().flat_map(|core| core.work.instructions).sum();
    let wakes: u64 = cores().map(|core| core.wakes).sum();
    format!(
        "{name}: {} ps, {energy} aJ, {instructions} instructions, {wakes} wakes, {:016x}\n",
        result.duration.0, digest.0
    )
}

/// A run without offload: machine, technique, programs.
fn gated(machine: &Machine, technique: &str, names: &[&str]) -> RunResult {
    let policy = |core: usize| gating(machine, technique, core);
    let options = Options { retention: technique != "always-on", ..Options::new(&policy) };
    let tasks = tasks(names, 150_000);
    run(machine, tasks, &options, &mut CodeCache::new(), &RunControl::new()).unwrap()
}

fn offloaded(machine: &Machine, technique: &str, names: &[&str]) -> RunResult {
    let policy = |core: usize| gating(machine, "idle-adaptive", core);
    let make = |_| offload(technique);
    let options = Options { offload: Some(&make), retention: true, ..Options::new(&policy) };
    let tasks = tasks(names, 150_000);
    run(machine, tasks, &options, &mut CodeCache::new(), &RunControl::new()).unwrap()
}

const MIX: [&str; 4] = ["nginx", "gcc", "chase", "redis"];

#[test]
fn gating_gives_what_is_on_record() {
    let mut out = String::new();
    for kind in ["ev6", "in-order"] {
        let machine = machine(kind);
        for (name, techniques) in [
            ("nginx", &["always-on", "idle-gate", "idle-adaptive", "mapg-counter", "tap"][..]),
            ("gcc", &["always-on", "tap", "oracle"]),
            ("chase", &["always-on", "mapg-counter", "tap"]),
            ("mixed", &["oracle"]),
            ("stream", &["tap"]),
            ("alu", &["always-on"]),
        ] {
            for technique in techniques {
                let result = gated(&machine, technique, &[name]);
                write!(out, "{}", line(&format!("{kind} {name} {technique}"), &result)).unwrap();
            }
        }
        let fupg = machine.clone().with_gated_units();
        out += &line(&format!("{kind} gcc fupg"), &gated(&fupg, "fupg", &["gcc"]));
        let mut one = fupg;
        one.fupg.domains = UnitDomains::One;
        out += &line(&format!("{kind} gcc fupg, one domain"), &gated(&one, "fupg", &["gcc"]));
        let slow = machine.clone().at_frequency(0.6);
        out += &line(&format!("{kind} nginx at 0.6"), &gated(&slow, "always-on", &["nginx"]));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn cores_side_by_side_give_what_is_on_record() {
    let mut out = String::new();
    for kind in ["ev6", "in-order"] {
        for controller in [WakeUpKind::Fixed, WakeUpKind::Distributed, WakeUpKind::Central] {
            let mut machine = machine(kind);
            machine.wake_up.controller = controller;
            for technique in ["mapg-counter", "tap"] {
                let result = gated(&machine, technique, &MIX);
                out += &line(&format!("{kind} mix {controller:?} {technique}"), &result);
            }
        }
    }
    insta::assert_snapshot!(out);
}

#[test]
fn offload_gives_what_is_on_record() {
    let mut out = String::new();
    for kind in ["ev6", "in-order", "ultrasparc-os"] {
        let plain = machine(kind);
        let small = Some(Box::new(machine("in-order")));
        let small = OsSpec { kind: small, cores: 1, switch: 300, ..plain.os.clone() };
        let alike = OsSpec { kind: None, cores: 2, ..small.clone() };
        let turns = OsSpec { time_slice: Time::ns(10_000), ..small.clone() };
        for technique in ["never", "always", "beside", "predicted"] {
            let of = |os: &OsSpec, cores: usize| Machine { os: os.clone(), cores, ..plain.clone() };
            let play = |machine: Machine, names: &[&str]| offloaded(&machine, technique, names);
            let label = |what: &str| format!("{kind} {technique} {what}");
            out += &line(&label("nginx"), &play(of(&small, 1), &["nginx"]));
            let pair = ["nginx", "redis"];
            out += &line(&label("pair, two OS cores"), &play(of(&alike, 2), &pair));
            let four = ["nginx", "redis", "memcached", "apache"];
            out += &line(&label("four in turns on two"), &play(of(&turns, 2), &four));
        }
    }
    insta::assert_snapshot!(out);
}
