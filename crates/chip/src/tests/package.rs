//! C-states that a machine names, and a package that sleeps while all cores are halted.

use halfwink_policy::gating::{Action, DeepRest, Event as GatingEvent};
use halfwink_trace::Event;
use halfwink_units::{Energy, Power};

use super::*;

const STATES: &str = r#"
[[idle_states]]
name = "poll"
exit_us = 0.0
residency_us = 0.0
[[idle_states]]
name = "c1"
exit_us = 1.0
residency_us = 1.0
[[idle_states]]
name = "c1e"
exit_us = 2.0
residency_us = 4.0
core_w = 0.6
[[idle_states]]
name = "c6"
exit_us = 10.0
residency_us = 30.0
wake_us = [4.0, 8.0]
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

/// A machine whose cores may enter this state, and no other that is deeper than C1.
fn resting(name: &str) -> Machine {
    parse(STATES).unwrap().resting_in(|state| state.name == name)
}

/// Puts each halted core into the state at this place.
fn rest(machine: &Machine, place: u8, tasks: Vec<Task>) -> RunResult {
    let policy = |_: usize| -> GatingPolicy { Box::new(DeepRest::new(place)) };
    let options = Options::new(&policy);
    let mut codes = CodeCache::new();
    crate::run(machine, tasks, &options, &mut codes, &RunControl::default()).unwrap()
}

#[test]
fn a_state_wakes_as_silicon_does_beyond_c1_and_takes_what_its_table_says() {
    // C1's own microsecond is in the halt; C6 is told 10 us, and takes 4 to 8.
    for (name, place, least, most) in [("c1e", 2, 1_000, 1_000), ("c6", 2, 3_000, 7_000)] {
        let machine = resting(name);
        let result = rest(&machine, place, vec![halted_for(50_000)]);
        let late = ns(&result) - 50_002;
        assert!((least..=most).contains(&late), "{name}: {late} ns late");
        let row = |state: &str| {
            let named = result.books.named_rows().filter(|(_, s, ..)| s.0 == state);
            named.map(|row| row.3).fold((Time::ZERO, Energy::ZERO), |(time, energy), row| {
                (time + row.time, energy + row.energy)
            })
        };
        let (time, energy) = row(name);
        assert!(time > Time::ns(49_000), "{name}: {time}");
        let watts = machine.idle_state(name).unwrap().core_w();
        assert_eq!(energy, Power::from_w(watts) * time, "{name}");
        // Beside the time: what a stay of the residency saves.
        let told = machine.idle_state(name).unwrap();
        let wake = Energy::from_pj((1.0 - watts) * (told.residency_us - told.exit_us) * 1e6);
        let (time, energy) = row("charging");
        assert_eq!(energy, Power::from_w(1.0) * time + wake, "{name}");
        assert_eq!(result.cores[0].losses.losses, u64::from(name == "c6"), "{name}");
        assert_eq!((result.cores[0].wakes, result.cores[0].halts), (1, 1));
    }
}

#[test]
fn what_a_governor_is_told_leaves_time_and_energy_of_a_wake_up_as_silicon_has_them() {
    let played = |told_us: [f64; 2], break_even_us| {
        let mut machine = resting("c6");
        let state = machine.idle_states.iter_mut().find(|state| state.name == "c6").unwrap();
        [state.exit_us, state.residency_us] = told_us;
        state.break_even_us = break_even_us;
        rest(&machine, 2, vec![halted_for(50_000)])
    };
    let as_it_is = played([10.0, 30.0], Some(20.0));
    let told_more = played([25.0, 900.0], Some(20.0));
    assert_eq!(as_it_is.duration, told_more.duration);
    assert_eq!(as_it_is.books.energy_where(|_| true), told_more.books.energy_where(|_| true));
    // Where the machine says nothing of it, it lies between exit and residency.
    assert_eq!(
        played([10.0, 30.0], None).books.energy_where(|_| true),
        as_it_is.books.energy_where(|_| true)
    );
    let dearer = played([10.0, 30.0], Some(21.0)).books.energy_where(|_| true);
    // One microsecond more of the 0.9 W that the state saves.
    assert_eq!(dearer, as_it_is.books.energy_where(|_| true) + Energy::from_pj(0.9e6));
}

#[test]
fn wake_times_are_drawn_by_the_seed() {
    let late = |seed: u64| {
        let mut machine = resting("c6");
        machine.faults.seed = seed;
        rest(&machine, 2, vec![halted_for(50_000)]).duration
    };
    assert_eq!(late(1), late(1));
    assert!((2..9).any(|seed| late(seed) != late(1)));
}

#[test]
fn polling_and_c1_end_with_the_interrupt() {
    let machine = resting("c6");
    for (place, state) in [(0, "stalled"), (1, "idle")] {
        let policy = |_: usize| -> GatingPolicy { Box::new(Shallow(place, None)) };
        let options = Options::new(&policy);
        let (mut codes, control) = (CodeCache::new(), RunControl::default());
        let tasks = vec![halted_for(50_000)];
        let result = crate::run(&machine, tasks, &options, &mut codes, &control).unwrap();
        assert_eq!(ns(&result), 50_002, "{state}");
        let rows =
            result.books.named_rows().filter(|(part, s, ..)| *part == "core0" && s.0 == state);
        let time = rows.fold(Time::ZERO, |sum, row| sum + row.3.time);
        assert!(time >= Time::ns(50_000), "{state}: {time}");
    }
}

/// Enters a state that the interrupt ends by itself.
struct Shallow(u8, Option<Action>);

impl halfwink_policy::Policy for Shallow {
    type Event = GatingEvent;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &GatingEvent) {
        if *event == GatingEvent::IdleBegin {
            self.1 = Some(Action::Rest { state: self.0 });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.1.take()
    }

    fn snapshot(&self) -> halfwink_policy::Snapshot {
        Vec::new()
    }
}

impl halfwink_policy::gating::Gating for Shallow {}

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
        ("name = \"c6\"", "name = \"deep\"", "\"deep\": expected one of poll, c1, c1e"),
        ("exit_us = 10.0", "exit_us = 0.0", "an exit of 0 us"),
        ("residency_us = 30.0", "residency_us = -3.0", "expected times of 0 to 1e6 us"),
        ("[4.0, 8.0]", "[8.0, 4.0]", "least before most"),
        ("[4.0, 8.0]", "6.0\nbreak_even_us = -1.0", "expected times of 0 to 1e6 us"),
        ("core_w = 0.1", "core_w = 1.0", "which a core in C1 takes: 1 W"),
        ("residency_us = 1.0", "residency_us = 1.0\ncore_w = 0.5", "leave core_w out"),
        ("core_w = 0.1", "", "missing field `core_w`"),
        ("\"l2\"]", "\"l3\"]", "loses no level that cores share"),
        ("uncore_w = 10.0", "uncore_w = 10.0\ncores = 0", "1 to 4096 cores"),
        ("uncore_w = 10.0", "uncore_w = 10.0\nidle_w = [9, 3]", "idle_w of least and most"),
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
fn late_core_skips_halt_when_work_waits() {
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
    // It wakes 3 to 7 us after the first halt: what ends the others has come before.
    let machine = resting("c6");
    let result = rest(&machine, 2, vec![late()]);
    assert_eq!(result.cores[0].wakes, 1);
    assert!((5..10).contains(&(result.duration.0 / 1_000_000)), "{}", result.duration);
    // Cores that sleep for nanoseconds do as they are told.
    let machine = Machine { idle_states: Vec::new(), ..machine };
    let result = run(&machine, "idle-gate", vec![late()]);
    assert_eq!(result.cores[0].wakes, 3);
}
