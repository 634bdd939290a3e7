//! C-states that a machine names, and a package that sleeps while all cores are halted.

use halfwink_power::{CoreState, Lost};
use halfwink_trace::Event;
use halfwink_units::{Energy, Power};

use super::*;

const STATES: &str = r#"
[[idle_states]]
name = "c1e"
exit_us = 2.0
residency_us = 4.0
core_w = 0.6
[[idle_states]]
name = "c6"
exit_us = 10.0
residency_us = 30.0
core_w = 0.1
loses = ["l1i", "l1d", "l2"]
[package]
uncore_w = 10.0
sleep = { enter_ns = 50, uncore_share = 0.3, l3_share = 0.5, memory_share = 0.25 }
"#;

fn parse(states: &str) -> Result<Machine, String> {
    Machine::parse(&Input::new("simple", format!("{SIMPLE}{states}"))).map_err(|e| e.to_string())
}

/// An instruction, a halt of so many nanoseconds, an instruction.
fn halted_for(halt: u64) -> Task {
    let mut writer = Writer::new();
    let block = writer.block(&[alu(1, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![]);
    script.event(Event::Idle { from_ns: 1_000, to_ns: 1_000 + halt });
    script.run(block, vec![]);
    task(script, warm(&lines, &[]))
}

#[test]
fn a_state_costs_what_its_table_says() {
    let machine = parse(STATES).unwrap();
    for (name, exit, residency) in [("c1e", 2_000, 4_000), ("c6", 10_000, 30_000)] {
        let adapted = machine.clone().with_idle_state(name);
        let costs = adapted.gating_costs(0);
        assert_eq!(costs.lead(), Time::ns(exit), "{name}");
        assert_eq!(costs.entry + costs.break_even + costs.lead(), Time::ns(residency), "{name}");
        let watts = machine.idle_state(name).unwrap().core_w;
        let gated = adapted.power.core.in_state(CoreState::Gated, &adapted.gating, false);
        assert_eq!(gated, Power::from_w(watts), "{name}");
    }
    assert!(machine.clone().with_idle_state("c6").gating.loses(Lost::L2));
    assert!(!machine.clone().with_idle_state("c1e").gating.loses(Lost::L2));
    let (same, gating) = (machine.clone().with_idle_state("c7"), machine.gating);
    assert_eq!(same.gating, gating, "no such state, nothing changed");
}

#[test]
fn a_package_sleeps_while_all_cores_are_halted() {
    let awake = parse(STATES).unwrap();
    let asleep = awake.clone().with_package_sleep();
    let go =
        |machine: &Machine| run(machine, "always-on", vec![halted_for(1_000), halted_for(600)]);
    let (on, slept) = (go(&awake), go(&asleep));
    assert_eq!((ns(&on), ns(&slept)), (1_002, 1_002), "it costs no time");
    // Halted are 1 to 1001, and 1 to 601 and from 602 on, when the second is done: less 50 each.
    let time = 550 + 349;
    let nj = |x: f64| Energy::from_pj(x * 1e3);
    let of = |r: &RunResult, part: &str| r.books.energy_where(|name| name == part);
    assert_eq!(of(&on, "uncore"), nj(10.0 * 1_002.0));
    let (t, rest) = (time as f64, 1_002.0 - time as f64);
    assert_eq!(of(&slept, "uncore"), nj(10.0 * rest + 3.0 * t));
    assert_eq!(of(&on, "l3") - of(&slept, "l3"), nj(0.5 * 0.5 * t));
    let closed = awake.power.memory.closed_w;
    let saved =
        Power::from_w(closed) * Time::ns(time) - Power::from_w(closed * 0.25) * Time::ns(time);
    assert_eq!(of(&on, "memory") - of(&slept, "memory"), saved);
    for part in ["core0", "core1"] {
        assert_eq!(of(&on, part), of(&slept, part));
    }
    let rows: Vec<_> = slept.books.named_rows().collect();
    for part in ["uncore", "l3", "memory"] {
        let found = rows.iter().filter(|(c, s, _, _)| *c == part && s.0 == "asleep");
        assert_eq!(found.map(|row| row.3.time).collect::<Vec<_>>(), [Time::ns(time)], "{part}");
    }
}

#[test]
fn a_core_that_works_keeps_the_package_awake() {
    let asleep = parse(STATES).unwrap().with_package_sleep();
    let mut writer = Writer::new();
    let block = writer.block(&[alu(1, &[1])]);
    let (mut script, lines) = writer.script();
    for _ in 0..2_000 {
        script.run(block, vec![]);
    }
    let result =
        run(&asleep, "always-on", vec![halted_for(1_000), task(script, warm(&lines, &[]))]);
    assert!(result.books.named_rows().all(|(_, state, _, _)| state.0 != "asleep"));
    // A machine that says nothing of its package has no row for it.
    let plain = run(&simple("in-order"), "always-on", vec![halted_for(1_000)]);
    assert!(plain.books.named_rows().all(|(part, _, _, _)| part != "uncore"));
}

#[test]
fn states_that_cannot_be_are_named_with_their_line() {
    let cases = [
        ("name = \"c6\"", "name = \"c1e\"", "\"c1e\": expected a name of its own"),
        ("exit_us = 10.0", "exit_us = 0.0", "an exit of 0 us"),
        ("residency_us = 30.0", "residency_us = 3.0", "no shorter than the exit"),
        ("core_w = 0.1", "core_w = 1.0", "which a halted core takes: 1 W"),
        ("loses = [", "looses = [", "did you mean `loses`?"),
        ("uncore_w = 10.0", "uncore_w = -1.0", "package.uncore_w: expected 0 to 1e9 W"),
        ("l3_share = 0.5", "l3_share = 1.5", "expected shares of 0 to 1"),
    ];
    for (from, to, expected) in cases {
        assert!(STATES.contains(from), "{from}");
        let error = parse(&STATES.replacen(from, to, 1)).unwrap_err();
        assert!(error.starts_with("simple:") && error.contains(expected), "{to}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn who_is_late_does_not_halt_for_what_is_there() {
    let late = || {
        let mut writer = Writer::new();
        let block = writer.block(&[alu(1, &[1])]);
        let (mut script, lines) = writer.script();
        for (from_ns, to_ns) in [(1_000, 2_000), (2_500, 3_000), (3_500, 4_000)] {
            script.run(block, vec![]);
            script.event(Event::Idle { from_ns, to_ns });
        }
        script.run(block, vec![]);
        Task { load: LoadKind::Open, ..task(script, warm(&lines, &[])) }
    };
    // It wakes 10 us after the first halt: what ends the others has come long before.
    let machine = parse(STATES).unwrap().with_idle_state("c6");
    let result = run(&machine, "idle-gate", vec![late()]);
    assert_eq!((result.cores[0].wakes, result.duration.0 / 1_000_000), (1, 11));
    // Cores that sleep for nanoseconds do as they are told.
    let machine = Machine { idle_states: Vec::new(), ..machine };
    let result = run(&machine, "idle-gate", vec![late()]);
    assert_eq!((result.cores[0].wakes, result.duration.0 / 1_000_000), (3, 31));
}
