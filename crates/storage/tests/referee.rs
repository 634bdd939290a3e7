//! Queueing theory beside the simulation, and what is bad in a description.

use crate::common;

use common::{machine, play_with, text};
use halfwink_engine::Input;
use halfwink_storage::application::{solve, Station};
use halfwink_storage::closed_form::{constant_service_stay, repairman_throughput};
use halfwink_storage::world::{Parts, Path, Setting};
use halfwink_storage::{Machine, Spec};
use proptest::prelude::*;

/// The interrupt's CPU is a server of constant service, and I/Os of 79 issuers at random are nearly
/// random: waits follow the formula of M/D/1.
#[test]
fn the_single_threaded_driver_is_a_queue_of_constant_service() {
    let apart = [("block.direct_submit_us", "0.1"), ("block.jitter", "0"), ("device.iops", "1e9")];
    let machine = machine("westmere-ex", &apart);
    let (spec, slower) = (machine.spec(), machine.slower());
    let driver = &spec.driver;
    // Issuers of other sockets cost the driver more: its own are enough.
    let us = driver.interrupt_us + driver.structures_us + slower * driver.completion_us;
    for load in [0.3, 0.6, 0.8] {
        let run = play_with(&machine, "single-thread", |s: &mut Setting| {
            (s.first, s.issuers, s.depth) = (1, 9, 512);
            (s.rate, s.poisson) = (Some(1e6 * load / us), true);
            (s.warm_up, s.ios) = (50_000, 400_000);
        })
        .unwrap();
        let mean_us = run.latency.mean().unwrap().as_ns() * 1e-3;
        let before = slower * spec.block.direct_submit_us + spec.device.latency_us;
        // An issuer that goes on takes the result back, which is no wait for the driver.
        let stay = (mean_us - before - spec.device.pcie_us - slower * driver.wake_us) / us;
        let known = constant_service_stay(load);
        assert!((stay / known - 1.0).abs() < 0.05, "load {load}: {stay} services, M/D/1 {known}");
    }
}

/// Constant services and thinking are never worse than exponential ones, and both meet the bounds
/// of few and of many customers.
#[test]
fn a_closed_loop_stays_between_the_repairman_and_its_bounds() {
    let machine = machine("westmere-ep", &[("block.jitter", "0"), ("driver.wake_us", "0")]);
    let spec = machine.spec();
    let driver = &spec.driver;
    let service = driver.interrupt_us + driver.structures_us + driver.completion_us;
    let think = spec.block.direct_submit_us + spec.device.latency_us + spec.device.pcie_us;
    for customers in 1..=5 {
        let run = play_with(&machine, "single-thread", |s: &mut Setting| {
            (s.first, s.issuers, s.depth) = (1, customers, 1);
        })
        .unwrap();
        let found = run.iops() * 1e-6;
        let least = repairman_throughput(u32::from(customers), think, service);
        let most = (f64::from(customers) / (think + service)).min(1.0 / service);
        assert!(found >= 0.999 * least && found <= 1.001 * most, "{least} {found} {most}");
        let station = [Station { demand_us: service, servers: 1.0 }];
        let solved = solve(u32::from(customers), think, &station).rounds_per_us;
        assert!((solved / least - 1.0).abs() < 1e-9);
    }
}

/// A lock of one line that everybody wants all the time: what a hand-over takes, by hand.
#[test]
fn a_contended_lock_hands_over_in_the_time_of_its_lines() {
    let set = [
        ("block.submit_us", "0"),
        ("block.complete_us", "0"),
        ("block.jitter", "0"),
        ("block.queue.kind", "\"ticket\""),
        ("block.queue.hold_ns", "100"),
        ("block.queue.lines", "2"),
        ("block.queue.writes", "3"),
        ("driver.interrupt_us", "0.001"),
        ("driver.ipi_send_us", "0"),
        ("driver.ipi_receive_us", "0"),
        ("device.iops", "1e9"),
        ("device.gb_per_s", "1e6"),
    ];
    for (name, issuers) in [("sandybridge-e", 6), ("nehalem-ex", 8)] {
        let machine = machine(name, &set);
        let run = play_with(&machine, "issuer", |s: &mut Setting| {
            (s.path, s.issuers) = (Path::Queue, issuers);
        })
        .unwrap();
        // 100 ns, three lines of 40 ns that move, three writes against who spins: 340 ns; three
        // times an I/O. A CPU that takes it twice in a row has no lines to fetch.
        let most = 1e9 / (3.0 * 340.0);
        let least_ns = 100.0;
        assert!(run.iops() < 1e9 / (3.0 * least_ns), "{name}: {}", run.iops());
        assert!(run.iops() > 0.97 * most, "{name}: {} of {most}", run.iops());
    }
}

#[test]
fn unknown_keys_and_impossible_values_are_named() {
    let parse = |text: &str| {
        let input = Input::new("test", text);
        let spec: Result<Spec, _> = input.parse();
        spec.map_err(|e| e.to_string())
            .and_then(|spec| Machine::new(spec).map_err(|e| e.to_string()))
    };
    let good = text("westmere-ep");
    assert!(parse(&good).is_ok());
    for (from, to, says) in [
        ("sockets = 2", "sockets = 2\nhyper_threads = 2", "hyper_threads"),
        ("sockets = 2", "sockets = 0", "topology.sockets: found 0"),
        ("sockets = 2", "sockets = 70000", "70000"),
        ("ghz = 3.46", "ghz = nan", "topology.ghz"),
        ("coalesce = 1", "coalesce = 0", "driver.coalesce"),
        ("kind = \"ticket\"", "kind = \"fair\"", "fair"),
        ("jitter = 0.2", "jitter = 1.5", "block.jitter: found 1.5, expected 1 or less"),
        ("threads = 12", "threads = 0", "applications.latency-sweep.threads"),
        ("schema = 1", "schema = 2", "schema: found 2, expected 1"),
    ] {
        let error = parse(&good.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(says), "{to}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is played: no I/O is lost, and none is twice. (The books are checked in each run.)
    #[test]
    fn any_load_conserves_ios(
        sockets in 1u16..=8, cores in 1u16..=6, share in 1u16..=100, depth in 1u32..40,
        policy in 0usize..8, path in 0usize..3, parts in 0usize..3, batch in 1u32..5,
        coalesce in 1u32..4, rated in any::<bool>(), seed in any::<u64>(),
    ) {
        let text = |n: u16| n.to_string();
        let machine = machine("westmere-ep", &[
            ("topology.sockets", &text(sockets)),
            ("topology.cores_per_socket", &text(cores)),
            ("driver.batch", &batch.to_string()),
            ("driver.coalesce", &coalesce.to_string()),
        ]);
        let names = [
            "single-thread", "same", "issuer", "round-robin", "cache-aware", "msi-x", "multi-queue",
            "polled",
        ];
        let cpus = sockets * cores;
        let issuers = (u32::from(cpus) * u32::from(share) / 100).max(1) as u16;
        let run = play_with(&machine, names[policy], |s: &mut Setting| {
            (s.issuers, s.depth, s.seed) = (issuers, depth, seed);
            s.path = [Path::Driver, Path::QueueAndDriver, Path::Queue][path];
            s.parts = [Parts::All, Parts::NoCompletion, Parts::InterruptOnly][parts];
            s.rate = rated.then_some(50e3);
            (s.warm_up, s.ios) = (200, 1500);
        }).unwrap();
        prop_assert_eq!(run.issued, run.completed_in_all + run.in_flight);
        prop_assert!(run.in_flight <= u64::from(issuers) * u64::from(depth));
        // A handler that takes several at once may complete them across the end of the warm-up.
        prop_assert!(run.completed + u64::from(batch) > 1500);
    }
}
