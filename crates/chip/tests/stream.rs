//! STREAM on more and more cores: behind a controller that reorders, the memory channel must fill,
//! and stay full. Banks that serve first come first served are beside it.

use std::path::Path;
use std::sync::Arc;

use halfwink_chip::{run, CodeCache, Geometry, Machine, MemoryKind, Options, RunResult, Task};
use halfwink_engine::{Input, RunControl};
use halfwink_policy::gating::{AlwaysOn, GatingPolicy};
use halfwink_trace::{Kernel, LoadKind, Synthetic};
use halfwink_units::Time;

fn machine(name: &str, cores: usize) -> Machine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../machines/{name}.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    Machine::parse(&Input::new(name, text)).unwrap().with_cores(cores)
}

/// Each core with its part of arrays of 96 MB, as studies/gating-stream.toml has them.
fn stream(machine: &Machine, cores: usize) -> RunResult {
    let task = |n: usize| {
        let footprint = (96 << 20) / cores as u64;
        let seed = n as u64 + 1;
        let limit = 400_000;
        let spec =
            Synthetic { kernel: Kernel::Stream, footprint, instructions: limit, seed, duty: None };
        let (source, warm) = (Box::new(spec.source()), Arc::default());
        Task { source, warm, load: LoadKind::Closed, limit, start: Time::ZERO }
    };
    let policy = |_: usize| -> GatingPolicy { Box::new(AlwaysOn) };
    let options =
        Options { policy: &policy, offload: None, retention: false, wake_up: None, timeline: None };
    let tasks = (0..cores).map(task).collect();
    run(machine, tasks, &options, &mut CodeCache::new(), &RunControl::new()).unwrap()
}

/// Bytes per second of a channel that always carries data.
fn peak_bandwidth(machine: &Machine) -> f64 {
    match &machine.memory.kind {
        MemoryKind::Dram(spec) => spec.peak_bandwidth(),
        MemoryKind::FirstCome(spec) => 64.0 * spec.channels as f64 / spec.burst.as_s(),
        MemoryKind::Uniform { .. } => f64::INFINITY,
    }
}

/// Share of the channel's peak that reads and writes use.
fn share_of_peak(name: &str, cores: usize, l3: &str) -> f64 {
    let mut machine = machine(name, cores);
    machine.l3.geometry = Some(Geometry::parse(l3).unwrap());
    let result = stream(&machine, cores);
    let counts = result.memory;
    let lines: u64 = counts.reads.iter().chain(&counts.writes).sum();
    lines as f64 * 64.0 / result.duration.as_s() / peak_bandwidth(&machine)
}

/// With the cache of the machine, which the first lines fill, and with one that soon gives back a
/// dirty line for every third that comes.
#[test]
fn more_cores_fill_the_channel_and_keep_it_full() {
    for l3 in ["8MB:16", "512KB:16"] {
        let shares = [1, 2, 4, 8].map(|cores| share_of_peak("ev6-ddr3", cores, l3));
        assert!(shares[0] > 0.4, "{l3} {shares:?}");
        assert!(shares[1] > shares[0] * 1.3, "{l3} {shares:?}");
        assert!(shares[2] > 0.85 && shares[3] > 0.85, "{l3} {shares:?}");
    }
}

/// Why there is a controller: docs/chip.md shows these, in percent.
#[test]
fn what_first_come_first_served_leaves_empty_is_on_record() {
    for (name, l3, expected) in [
        ("ev6", "8MB:16", [50, 54, 45, 30]),
        ("ev6-ddr3", "8MB:16", [49, 87, 96, 96]),
        ("ev6", "512KB:16", [37, 35, 37, 38]),
        ("ev6-ddr3", "512KB:16", [60, 89, 94, 95]),
    ] {
        let shares = [1, 2, 4, 8].map(|cores| share_of_peak(name, cores, l3));
        let percent = shares.map(|share| (share * 100.0).round() as u32);
        assert_eq!(percent, expected, "{name} {l3} {shares:?}");
    }
}
