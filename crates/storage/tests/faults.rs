//! Devices that answer late or never, interrupts that are lost, against closed forms. What holds
//! whatever goes wrong, each run looks at itself: every I/O ends once, as itself or as an error.

use crate::common;

use common::{machine, play_with};
use halfwink_storage::world::{Run, Setting};
use halfwink_storage::{Faults, Machine};

fn with(faults: Faults) -> Machine {
    let calm = [("block.jitter", "0"), ("device.pcie_us", "0")];
    let mut spec = machine("westmere-ep", &calm).spec().clone();
    spec.faults = faults;
    Machine::new(spec).unwrap()
}

/// One CPU with so many I/Os in flight.
fn play(faults: Faults, name: &str, depth: u32) -> Run {
    let run = play_with(&with(faults), name, |s: &mut Setting| {
        (s.depth, s.warm_up, s.ios) = (depth, 0, 40_000);
    })
    .unwrap();
    assert_eq!(run.issued, run.completed_in_all + run.faults.errors + run.in_flight);
    run
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
}

/// Microseconds for each I/O that ended.
fn each_us(run: &Run) -> f64 {
    run.duration.as_s() * 1e6 / (run.completed_in_all + run.faults.errors) as f64
}

#[test]
fn unanswered_io_fails_at_its_timeout() {
    let sound = each_us(&play(Faults::default(), "single-thread", 1));
    let faults = Faults { io_lost: 0.01, timeout_ms: 1.0, ..Faults::default() };
    let run = play(faults, "single-thread", 1);
    near(run.faults.errors as f64 / run.issued as f64, 0.01, 0.15);
    let share = run.faults.errors as f64 / run.issued as f64;
    let latency_us = with(faults).spec().device.latency_us;
    near(each_us(&run), sound + share * (1000.0 - latency_us), 0.001);
    // An error is no latency.
    assert_eq!(run.latency.count(), run.completed);
    assert!(run.latency.max().unwrap().as_s() < 1e-3);
}

#[test]
fn what_an_interrupt_was_lost_for_is_found_at_the_timeout_if_nothing_follows() {
    let faults = Faults { interrupt_lost: 0.01, timeout_ms: 1.0, ..Faults::default() };
    let run = play(faults, "single-thread", 1);
    assert_eq!((run.faults.errors, run.faults.found), (0, run.faults.interrupts_lost));
    near(run.faults.found as f64 / run.issued as f64, 0.01, 0.15);
    // With others in flight the next interrupt tells of it.
    let run = play(faults, "single-thread", 32);
    assert_eq!(run.faults.errors, 0);
    let (lost, found) = (run.faults.interrupts_lost, run.faults.found);
    assert!(lost > 100 && found < lost / 10, "{lost} lost, {found} found");
}

#[test]
fn polling_cpu_loses_no_interrupts() {
    let run = play(Faults { interrupt_lost: 1.0, ..Faults::default() }, "polled", 4);
    assert_eq!(run.faults, halfwink_storage::FaultCounts::default());
}

#[test]
fn late_answers_are_latency() {
    let sound = each_us(&play(Faults::default(), "msi-x", 1));
    let faults = Faults { io_late: 0.1, late_ms: 0.2, ..Faults::default() };
    let run = play(faults, "msi-x", 1);
    near(each_us(&run) - sound, 0.1 * 200.0, 0.06);
    assert_eq!((run.faults.errors, run.faults.stale), (0, 0));
}

#[test]
fn an_answer_after_the_timeout_is_dropped() {
    let faults = Faults { io_late: 1.0, late_ms: 1.0, timeout_ms: 1.0, ..Faults::default() };
    let run = play(faults, "multi-queue", 4);
    // Later than its mean are e^-1 of them.
    near(run.faults.errors as f64 / run.issued as f64, (-1.0_f64).exp(), 0.03);
    // All but those that are still on their way.
    assert!(run.faults.errors - run.faults.stale <= 16, "{:?}", run.faults);
}

#[test]
fn silent_device_gives_only_errors() {
    let run = play(Faults { io_lost: 1.0, timeout_ms: 0.1, ..Faults::default() }, "issuer", 8);
    assert_eq!((run.completed, run.completed_in_all, run.iops()), (0, 0, 0.0));
    assert_eq!(run.faults.errors, 40_000);
    assert_eq!(run.latency.mean(), None);
}

#[test]
fn a_run_that_waits_for_timeouts_for_an_hour_is_given_up() {
    let faults = Faults { io_lost: 1.0, ..Faults::default() };
    let error = play_with(&with(faults), "msi-x", |s: &mut Setting| s.depth = 1).unwrap_err();
    assert!(error.to_string().contains("faults.timeout_ms"), "{error}");
}

#[test]
fn faults_that_do_not_come_change_nothing() {
    let bits = |faults| {
        let run = play(faults, "cache-aware", 8);
        (run.duration, run.latency.total(), run.locks, run.interrupts)
    };
    let never = Faults { interrupt_lost: 1e-300, ..Faults::default() };
    assert_eq!(bits(never), bits(Faults::default()));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |faults: Faults| {
        let mut spec = machine("westmere-ep", &[]).spec().clone();
        spec.faults = faults;
        Machine::new(spec).unwrap_err().to_string()
    };
    let none = Faults::default();
    assert_eq!(
        refused(Faults { timeout_ms: 0.0, ..none }),
        "faults.timeout_ms: found 0, expected 0.001 to 10000000"
    );
    assert!(refused(Faults { io_lost: 1.5, ..none }).starts_with("faults.io_lost: found 1.5,"));
    assert!(refused(Faults { late_ms: f64::NAN, ..none }).contains("faults.late_ms"));
    assert!(refused(Faults { interrupt_lost: -0.1, ..none }).contains("faults.interrupt_lost"));
}
