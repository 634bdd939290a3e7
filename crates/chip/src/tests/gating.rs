//! Gated stalls: times, energies, and what each technique may and may not do.

use super::*;
use halfwink_power::CoreState;
use halfwink_trace::{Event, Kernel, Synthetic};
use halfwink_units::{Energy, Power};

use crate::accounting::EnergyParts;

/// One load from memory and its user.
fn one_miss(kind: &str, technique: &str) -> RunResult {
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(COLD)]);
    run(&simple(kind), technique, vec![task(script, warm(&lines, &[]))])
}

pub(super) fn spans(result: &RunResult) -> Vec<(&'static str, u64, u64)> {
    let timeline = result.cores[0].timeline.as_ref().unwrap();
    let in_ns = |t: Time| t.0 / 1000;
    timeline.spans.iter().map(|&(s, a, b)| (s.name(), in_ns(a), in_ns(b))).collect()
}

#[test]
fn tap_gates_from_the_last_token_to_just_in_time() {
    // In order: the load issues in 0, its user stalls from 1 on; the third token comes in 15, the
    // response in 44. Saving state takes 1, waking 4 and restoring 3.
    assert_eq!(
        spans(&one_miss("in-order", "tap")),
        [
            ("active", 0, 1),
            ("stalled", 1, 15),
            ("gating", 15, 16),
            ("gated", 16, 37),
            ("charging", 37, 41),
            ("restoring", 41, 44),
            ("active", 44, 45),
        ]
    );
}

#[test]
fn estimates_are_alike_where_nothing_else_waits() {
    let [scheduled, counted] = ["tap", "tap-counted"].map(|name| one_miss("in-order", name));
    assert_eq!(spans(&scheduled), spans(&counted));
}

#[test]
fn mapg_gates_after_its_threshold_and_wakes_by_guess() {
    // Stalled from 1 on. Threshold 15: at 16 it expects the end at 1 + 15 + 20 = 36, which pays
    // (20 > 1 + 2 + 7); wakes at 29, is restored at 36 and waits until 44.
    assert_eq!(
        spans(&one_miss("in-order", "mapg-counter")),
        [
            ("active", 0, 1),
            ("stalled", 1, 16),
            ("gating", 16, 17),
            ("gated", 17, 29),
            ("charging", 29, 33),
            ("restoring", 33, 36),
            ("stalled", 36, 44),
            ("active", 44, 45),
        ]
    );
}

#[test]
fn the_oracle_gates_the_whole_stall() {
    let result = one_miss("in-order", "oracle");
    assert_eq!(
        spans(&result),
        [
            ("active", 0, 1),
            ("gating", 1, 2),
            ("gated", 2, 37),
            ("charging", 37, 41),
            ("restoring", 41, 44),
            ("active", 44, 45),
        ]
    );
    assert_eq!(result.cores[0].wakes, 1);
}

#[test]
fn the_energy_of_a_gated_stall_adds_up_by_hand() {
    // Leakage 1 W: 1 nJ a ns. Gated, 2.25 % of it. A wake-up is 1.955 nJ.
    let nj = |x: f64| Energy::from_pj(x * 1e3);
    let core = |r: &RunResult| r.books.energy_where(|name| name == "core0");
    let always_on = core(&one_miss("in-order", "always-on"));
    let tap = core(&one_miss("in-order", "tap"));
    // Stalled 43 ns at 1.1 W, against 14 ns at 1.1, 1 + 4 + 3 at 1.0, 21 at 0.0225, and the
    // wake-up.
    let saved = nj(43.0 * 1.1) - nj(14.0 * 1.1 + 8.0 + 21.0 * 0.0225 + 1.955);
    assert_eq!(always_on - tap, saved);
    // The baseline: 2 cycles at 1.5 W, 43 stalled; two uops, one alu operation, one line fetched,
    // one data access, and the second level read once.
    let expected = nj(2.0 * 1.5 + 43.0 * 1.1 + 2.0 * 0.1 + 0.02 + 0.03 + 0.04 + 0.1);
    assert_eq!(always_on, expected);
}

#[test]
fn what_a_core_spends_is_told_apart_by_leakage_clock_and_wake_ups() {
    let nj = |x: f64| Energy::from_pj(x * 1e3);
    let parts = |r: &RunResult| r.cores[0].energy;
    let (on, tap) =
        (parts(&one_miss("in-order", "always-on")), parts(&one_miss("in-order", "tap")));
    // The times of the test above: 45 ns at 1 W; 2 cycles at 0.5 W of clock and 43 at 0.1.
    assert_eq!((on.leakage, on.clock, on.wake_up), (nj(45.0), nj(2.0 * 0.5 + 4.3), Energy(0)));
    assert_eq!((tap.leakage, tap.clock), (nj(24.0 + 21.0 * 0.0225), nj(2.0 * 0.5 + 1.4)));
    assert_eq!((tap.wake_up, tap.events), (nj(1.955), on.events));
}

#[test]
fn a_gated_clock_saves_the_clock_of_stalls_and_no_time_nor_leakage() {
    for kind in KINDS {
        let mut writer = Writer::new();
        let block = writer.block(&[load(1, 2), alu(3, &[1])]);
        let (mut script, lines) = writer.script();
        script.run(block, vec![at(COLD)]);
        let machine = simple(kind).with_gated_clock();
        let gated = run(&machine, "always-on", vec![task(script, warm(&lines, &[]))]);
        let on = one_miss(kind, "always-on");
        assert_eq!(spans(&gated), spans(&on));
        let stalled = on.cores[0].residency[CoreState::Stalled as usize];
        let (gated, on) = (gated.cores[0].energy, on.cores[0].energy);
        assert_eq!(on.clock - gated.clock, Power::from_w(0.1) * stalled);
        assert_eq!(EnergyParts { clock: on.clock, ..gated }, on);
    }
}

#[test]
fn an_l3_hit_is_never_gated() {
    for technique in &TECHNIQUES[..GATES_CORES] {
        let mut writer = Writer::new();
        let block = writer.block(&[load(1, 2), alu(3, &[1])]);
        let (mut script, lines) = writer.script();
        script.run(block, vec![at(DATA)]);
        // In the third level only: 4 later lines of its set in the second.
        let data: Vec<u64> = (0..=4).map(|n| DATA + n * 64 * 64).collect();
        // 15 ns of stall; gating would need more than 10.
        let mut machine = simple("in-order");
        machine.gating.wake_up_ns = 10.0;
        let result = run(&machine, technique, vec![task(script, warm(&lines, &data))]);
        assert_eq!((ns(&result), result.cores[0].wakes), (16, 0), "{technique}");
    }
}

#[test]
fn a_core_wakes_in_its_slot() {
    let mut machine = simple("in-order");
    machine.wake_up.controller = crate::WakeUpKind::Distributed;
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(COLD)]);
    let result = run(&machine, "tap", vec![task(script, warm(&lines, &[]))]);
    // Needed at 37; its slots are 0, 5, 10 ...: 35. Two nanoseconds of gating are lost.
    assert_eq!(
        spans(&result)[2..],
        [
            ("gating", 15, 16),
            ("gated", 16, 35),
            ("charging", 35, 39),
            ("restoring", 39, 42),
            ("stalled", 42, 44),
            ("active", 44, 45),
        ]
    );
}

#[test]
fn a_central_controller_grants_a_faster_wake_up() {
    let mut machine = simple("in-order");
    machine.wake_up.controller = crate::WakeUpKind::Central;
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(COLD)]);
    let result = run(&machine, "tap", vec![task(script, warm(&lines, &[]))]);
    // Gated at 16, the controller hears of it at 19 and the core of its answer at 22: 2 ns instead
    // of 8, since nobody else is there. So it sleeps until 39.
    assert_eq!(
        spans(&result)[2..],
        [
            ("gating", 15, 16),
            ("gated", 16, 39),
            ("charging", 39, 41),
            ("restoring", 41, 44),
            ("active", 44, 45),
        ]
    );
}

/// Every instant of a run under central control, checked against Eq 2.1 from the timelines alone:
/// who charges, how fast, around whom.
#[test]
fn no_running_core_is_disturbed_beyond_its_limit() {
    let mut machine = simple("in-order").with_cores(4);
    machine.wake_up.controller = crate::WakeUpKind::Central;
    machine.wake_up.equations[0].t0_ns = 4.0;
    machine.wake_up.equations[0].gamma = 0.25;
    let mut fast = 0;
    for technique in ["tap", "mapg-counter", "tap-or-mapg"] {
        let tasks = (0..4)
            .map(|seed| {
                task(Synthetic { seed, ..busy(Kernel::Chase, 1 << 22) }.source(), Arc::default())
            })
            .collect();
        let result = run(&machine, technique, tasks);
        let charging: Vec<Vec<(Time, Time)>> = result
            .cores
            .iter()
            .map(|core| {
                let spans = &core.timeline.as_ref().unwrap().spans;
                let charges = spans.iter().filter(|span| span.0 == CoreState::Charging);
                charges.map(|&(_, from, to)| (from, to)).collect()
            })
            .collect();
        // Two by two: 0 and 3 are diagonal, as are 1 and 2.
        let weight = |a: usize, c: usize| if a + c == 3 { 0.5 } else { 1.0 };
        let noise = |span: Time| (4.0 / span.as_ns()).powi(2);
        for &(now, _) in charging.iter().flatten() {
            for a in 0..4 {
                let around: f64 = (0..4)
                    .filter(|&c| c != a)
                    .flat_map(|c| charging[c].iter().map(move |&(from, to)| (c, from, to)))
                    .filter(|&(_, from, to)| from <= now && now < to)
                    .map(|(c, from, to)| weight(a, c) * noise(to - from))
                    .sum();
                assert!(around <= 1.0, "{technique}: core {a} at {now}: {around}");
            }
        }
        let slowest = machine.gating_costs(0).wake_up;
        fast += charging.iter().flatten().filter(|(from, to)| *to - *from < slowest).count();
    }
    assert!(fast > 0, "some wake-ups are faster than without the controller");
}

#[test]
fn slots_are_kept_by_every_core_and_technique() {
    let mut machine = simple("out-of-order");
    machine.wake_up.controller = crate::WakeUpKind::Distributed;
    for technique in ["tap", "tap-last", "tap-or-mapg", "mapg-counter", "idle-gate"] {
        let tasks = (0..4)
            .map(|n| {
                let chase = Synthetic { seed: n, ..busy(Kernel::Chase, 1 << 22) };
                task(chase.source(), Arc::default())
            })
            .collect();
        // Policies of this test have the slots of core 0, the gate those of its own core.
        let result = run(&machine, technique, tasks);
        for (n, core) in result.cores.iter().enumerate() {
            let slots = machine.slots_of(n);
            for &(state, from, _) in &core.timeline.as_ref().unwrap().spans {
                if state == CoreState::Charging {
                    assert_eq!(slots.next(from), from, "{technique}, core {n}");
                }
            }
        }
    }
}

pub(super) fn chase() -> halfwink_trace::SyntheticSource {
    busy(Kernel::Chase, 1 << 20).source()
}

fn busy(kernel: Kernel, footprint: u64) -> Synthetic {
    Synthetic { kernel, footprint, instructions: 30_000, seed: 5, duty: None }
}

#[test]
fn limits_hold_on_every_kernel_and_core() {
    for kind in KINDS {
        for (kernel, footprint) in [
            (Kernel::Alu, 64),
            (Kernel::Mixed, 1 << 20),
            (Kernel::Chase, 1 << 22),
            (Kernel::Stream, 3 << 20),
        ] {
            let machine = simple(kind);
            let go = |technique| {
                let source = busy(kernel, footprint).source();
                run(&machine, technique, vec![task(source, Arc::default())])
            };
            let results: Vec<RunResult> = TECHNIQUES.iter().map(|t| go(t)).collect();
            let energy = |n: usize| results[n].books.energy_where(|name| name == "core0");
            let [always, idle, mapg, tap, oracle] = [0, 1, 2, 3, 4].map(energy);
            let what = format!("{kind} {kernel:?}");
            // TAP and the oracle cost no time; the oracle saves at least as much as any.
            assert_eq!(results[3].duration, results[0].duration, "{what}");
            assert_eq!(results[4].duration, results[0].duration, "{what}");
            assert_eq!(results[3].cores[0].late_wakes, 0, "{what}");
            assert!(oracle <= tap && oracle <= mapg && tap <= always, "{what}");
            assert_eq!(idle, always, "{what}: nothing is halted");
            // Sleeping past the first response may cost time.
            let last = go("tap-last");
            assert!(last.duration >= results[0].duration, "{what}");
            let either = go("tap-or-mapg").books.energy_where(|name| name == "core0");
            assert!(oracle <= either, "{what}");
            // No less than the residual leakage over the whole run, no more than all at once.
            let floor = machine.gating.gated_power(1.0) * results[4].duration;
            assert!(oracle > floor, "{what}");
        }
    }
}

/// Plays an addition, a halt of a microsecond, and another addition.
pub(super) fn halted_between_additions(kind: &str, technique: &str) -> RunResult {
    let mut writer = Writer::new();
    let block = writer.block(&[alu(1, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![]);
    script.event(Event::Idle { from_ns: 1_000, to_ns: 2_000 });
    script.event(Event::Interrupt { vector: 236 });
    script.run(block, vec![]);
    run(&simple(kind), technique, vec![task(script, warm(&lines, &[]))])
}

#[test]
fn a_halted_core_is_gated_and_wakes_late() {
    for kind in KINDS {
        let go = |technique| halted_between_additions(kind, technique);
        let on = go("always-on");
        assert_eq!(on.cores[0].residency[CoreState::Idle as usize], Time::ns(1_000));
        for technique in ["idle-gate", "mapg-counter", "tap"] {
            let gated = go(technique);
            // 4 ns to charge and 3 to restore, before the interrupt is taken.
            assert_eq!(ns(&gated), ns(&on) + 7, "{kind} {technique}");
            assert_eq!(gated.cores[0].wakes, 1);
        }
        assert_eq!(ns(&go("oracle")), ns(&on));
    }
}

/// A policy that gates and never wakes, or asks for the impossible.
#[derive(Debug)]
struct Broken {
    wakes_while_running: bool,
    pending: Option<halfwink_policy::gating::Action>,
}

impl halfwink_policy::Policy for Broken {
    type Event = halfwink_policy::gating::Event;
    type Action = halfwink_policy::gating::Action;

    fn on_event(&mut self, _: Time, event: &Self::Event) {
        use halfwink_policy::gating::{Action, Event};
        match event {
            Event::StallBegin if self.wakes_while_running => {
                let (gate, wake) = (Time::ZERO, Time::ns(1));
                self.pending = Some(Action::Hindsight { gate, wake });
            }
            Event::StallBegin => self.pending = Some(Action::Gate),
            _ => {}
        }
    }

    fn poll_action(&mut self) -> Option<Self::Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> halfwink_policy::Snapshot {
        vec![]
    }
}

impl halfwink_policy::gating::Gating for Broken {}

#[test]
fn a_broken_policy_is_an_error_and_not_a_hang() {
    let mut messages = Vec::new();
    for wakes_while_running in [false, true] {
        let mut writer = Writer::new();
        let block = writer.block(&[load(1, 2), alu(3, &[1])]);
        let (mut script, lines) = writer.script();
        script.run(block, vec![at(COLD)]);
        let machine = simple("in-order");
        let make = |_| -> GatingPolicy { Box::new(Broken { wakes_while_running, pending: None }) };
        let options = Options { retention: true, ..Options::new(&make) };
        let tasks = vec![task(script, warm(&lines, &[]))];
        let control = RunControl::new();
        let error = crate::run(&machine, tasks, &options, &mut CodeCache::new(), &control);
        messages.push(error.unwrap_err().to_string());
    }
    assert_eq!(messages[0], "core 0: the gating policy left it gated at 44 ns with work to do");
    assert!(messages[1].contains("asked for Hindsight"), "{}", messages[1]);
}
