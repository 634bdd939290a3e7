//! The world by hand, by closed forms, and by what must always hold.

use crate::common;

use common::{lone, machine, play_with, policy};
use halfwink_storage::closed_form::block_layer_iops;
use halfwink_storage::world::{Parts, Path, Setting, Stage, WorldError};
use halfwink_storage::Machine;

/// One CPU, one I/O at a time: its time is the sum of its stages.
#[test]
fn a_lone_io_takes_the_sum_of_its_stages() {
    let machine = machine("westmere-ep", &[("block.jitter", "0"), ("device.pcie_us", "0")]);
    let run = lone(&machine, "single-thread", Path::Driver, Parts::All, 1);
    // Submission 2.5, device 1.0, interrupt 0.99, structures 5.1, completion.
    let spec = machine.spec();
    let driver = &spec.driver;
    let by_hand = spec.block.direct_submit_us
        + spec.device.latency_us
        + driver.interrupt_us
        + driver.structures_us
        + driver.completion_us;
    let found = 1e6 / run.iops();
    assert!((found - by_hand).abs() < 1e-3, "{found} us, by hand {by_hand} us");
    assert_eq!(run.latency.max(), run.latency.quantile(0.01));
}

/// Short-circuits of Sec 6.2.1: rates are the reciprocals of what is left.
#[test]
fn parts_that_are_left_out_leave_the_rate_of_the_rest() {
    let machine = machine("westmere-ep", &[]);
    let driver = &machine.spec().driver;
    for (parts, us) in [
        (Parts::InterruptOnly, driver.interrupt_us),
        (Parts::NoCompletion, driver.interrupt_us + driver.structures_us),
        (Parts::All, driver.interrupt_us + driver.structures_us + driver.completion_us),
    ] {
        // Issuers that leave the interrupt's CPU alone; those of the other socket, too, where
        // nothing is completed for them and five are too slow.
        let issuers = if parts == Parts::InterruptOnly { 11 } else { 5 };
        let run = play_with(&machine, "single-thread", |s: &mut Setting| {
            (s.issuers, s.first, s.parts) = (issuers, 1, parts);
        })
        .unwrap();
        let found = 1e6 / run.iops();
        assert!((found / us - 1.0).abs() < 0.002, "{parts:?}: {found} us, by hand {us} us");
    }
}

/// Locks that cost nothing to move and issuers that never meet: the closed form of the block layer.
#[test]
fn the_block_layer_follows_its_closed_form_where_lines_are_free() {
    let free = [
        ("coherence.same_socket_ns", "0"),
        ("coherence.one_hop_ns", "0"),
        ("coherence.two_hops_ns", "0"),
        ("block.jitter", "0"),
        ("block.queue.hold_ns", "300"),
        ("device.iops", "1e9"),
        ("device.gb_per_s", "1e6"),
        ("driver.interrupt_us", "0.01"),
        ("driver.ipi_send_us", "0.01"),
    ];
    let machine = machine("westmere-ep", &free);
    let (block, driver) = (&machine.spec().block, &machine.spec().driver);
    let apart = block.submit_us + block.complete_us + driver.ipi_receive_us;
    for issuers in [1, 2, 6] {
        let run = play_with(&machine, "issuer", |s: &mut Setting| {
            (s.issuers, s.path) = (issuers, Path::Queue);
        })
        .unwrap();
        let bound = block_layer_iops(f64::from(issuers), apart, 0.9, 0.02);
        let found = run.iops();
        // A bound: it knows no queue, and pays an interrupt for each I/O, also where several wait.
        let drained =
            block_layer_iops(f64::from(issuers), apart - driver.ipi_receive_us, 0.9, 0.02);
        assert!(found > 0.85 * bound && found < 1.001 * drained, "{issuers}: {found} of {bound}");
    }
}

#[test]
fn ios_are_conserved_and_accounts_balance() {
    let machine = machine("westmere-ex", &[]);
    for name in ["single-thread", "same", "issuer", "cache-aware", "msi-x", "multi-queue", "polled"]
    {
        for path in [Path::Driver, Path::QueueAndDriver, Path::Queue] {
            let run = play_with(&machine, name, |s: &mut Setting| {
                (s.issuers, s.depth, s.path) = (13, 7, path);
                (s.warm_up, s.ios) = (500, 3000);
            })
            .unwrap();
            let counted = run.completed_in_all + run.in_flight;
            assert_eq!(run.issued, counted, "{name} {path:?}");
            assert!(run.in_flight <= 13 * 7, "{name} {path:?}");
            assert_eq!(run.books.duration, run.duration);
        }
    }
}

#[test]
fn a_run_repeats_and_a_seed_changes_it() {
    let machine = machine("westmere-ex", &[]);
    let of = |seed| {
        let run = play_with(&machine, "cache-aware", |s: &mut Setting| {
            (s.issuers, s.seed) = (17, seed);
        });
        let run = run.unwrap();
        (run.duration, run.latency.total(), run.locks)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn readers_that_upgrade_deadlock_and_that_is_reported() {
    let faithful = machine("westmere-ep", &[("driver.ring.kind", "\"upgrade\"")]);
    let error = play_with(&faithful, "issuer", |s: &mut Setting| s.issuers = 6).unwrap_err();
    let WorldError::Deadlock { deadlock, .. } = &error else { panic!("{error}") };
    assert_ne!(deadlock.first, deadlock.second);
    assert!(error.to_string().contains("wait for each other to write"), "{error}");
    // One handler alone has nobody to wait for; an atomic index has nothing to hold.
    assert!(play_with(&faithful, "same", |s: &mut Setting| s.issuers = 6).is_ok());
    let atomic = machine("westmere-ep", &[("driver.ring.kind", "\"atomic\"")]);
    assert!(play_with(&atomic, "issuer", |s: &mut Setting| s.issuers = 6).is_ok());
}

#[test]
fn limited_rate_is_kept_within_one_percent() {
    let machine = machine("westmere-ep", &[]);
    for rate in [20e3, 80e3] {
        let run = play_with(&machine, "single-thread", |s: &mut Setting| {
            (s.issuers, s.rate) = (6, Some(rate));
        })
        .unwrap();
        assert!((run.iops() / rate - 1.0).abs() < 0.01, "{} of {rate}", run.iops());
        // What the driver uses is its service times the rate.
        let driver = &machine.spec().driver;
        let us = driver.interrupt_us + driver.structures_us + driver.completion_us;
        let used = run.driver_cpus();
        assert!((used / (rate * us * 1e-6) - 1.0).abs() < 0.03, "{used} CPUs at {rate}");
    }
}

#[test]
fn polling_cpus_never_sleep_and_others_do() {
    let machine = machine("westmere-ep", &[]);
    for (name, sleeps) in [("polled", false), ("msi-x", true)] {
        let run = play_with(&machine, name, |s: &mut Setting| {
            (s.issuers, s.rate) = (1, Some(10e3));
        })
        .unwrap();
        let asleep = run.cpus[0].of(|stage| stage == Stage::Idle).as_s();
        assert_eq!(asleep > 0.5 * run.duration.as_s(), sleeps, "{name}: {asleep} s asleep");
    }
}

#[test]
fn what_cannot_be_played_is_refused() {
    let machine = machine("westmere-ep", &[]);
    let wrong =
        |change: fn(&mut Setting)| play_with(&machine, "issuer", change).unwrap_err().to_string();
    assert!(wrong(|s| s.issuers = 0).contains("expected 1 to 12"));
    assert!(wrong(|s| s.issuers = 13).contains("expected 1 to 12"));
    assert!(wrong(|s| (s.issuers, s.first) = (6, 7)).contains("from CPU 7 on"));
    assert!(wrong(|s| s.depth = 0).contains("depth 0"));
    assert!(wrong(|s| s.bytes = 0).contains("1 byte or more"));
    assert!(wrong(|s| s.rate = Some(f64::NAN)).contains("1 I/O a second"));
    assert!(policy("no such", &machine).is_none());
}

#[test]
fn shared_written_lines_cost_remote_sockets_more() {
    let through = |set: &[(&str, &str)], issuers| {
        // Where CPUs are the limit, and nothing is random.
        let fixed = [("block.jitter", "0.0"), ("device.pcie_us", "0.0")];
        let mut spec = machine("westmere-ex", &[&fixed, set].concat()).spec().clone();
        let alone = Machine::new(spec.clone()).unwrap();
        spec.block.shared_lines = 4.0;
        let shared = Machine::new(spec).unwrap();
        [&alone, &shared].map(|machine| {
            let run = play_with(machine, "multi-queue", |s: &mut Setting| {
                (s.issuers, s.path, s.warm_up, s.ios) = (issuers, Path::Queue, 2_000, 20_000);
            });
            f64::from(issuers) * 1e6 / run.unwrap().iops()
        })
    };
    // One CPU has its lines.
    let [without, with] = through(&[], 1);
    assert_eq!(without.to_bits(), with.to_bits());
    // Two of a socket take turns: four lines, 40 ns each; of two sockets, 250 ns each.
    let [without, with] = through(&[], 2);
    assert!((with - without - 0.16).abs() < 0.02, "{without} {with}");
    let apart = [("topology.cores_per_socket", "1")];
    let [without, with] = through(&apart, 2);
    assert!((with - without - 1.0).abs() < 0.1, "{without} {with}");
}

#[test]
fn fewer_cpus_complete_where_waiting_for_locks_is_no_use() {
    let handlers = |set: &[(&str, &str)]| {
        let machine = machine("westmere-ex", set);
        let run = play_with(&machine, "cache-aware", |s: &mut Setting| {
            (s.issuers, s.warm_up, s.ios) = (30, 60_000, 20_000);
        });
        run.unwrap().handlers
    };
    let fully = handlers(&[]);
    let partly = handlers(&[("driver.spinning_is_use", "false")]);
    assert!(partly < fully, "{partly} of {fully}");
}

#[test]
fn times_beyond_any_machine_are_refused_by_name() {
    for (path, value) in [
        ("device.latency_us", "1e30"),
        ("device.pcie_us", "1e30"),
        ("device.iops", "1e-9"),
        ("device.gb_per_s", "1e-30"),
        ("block.reference_ghz", "1e30"),
        ("topology.ghz", "1e-30"),
        ("power.busy_w", "1e30"),
    ] {
        let base = halfwink_engine::Input::new("m", common::text("westmere-ep"));
        let input = halfwink_engine::set_value(&base, path, value).unwrap();
        let error = Machine::new(input.parse().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: found ")), "{error}");
    }
}
