//! Units that are gated by themselves: when, what it costs, and what the ledger says.

use super::gating::halted_between_additions;
use super::*;
use crate::accounting::{state_power, EnergyParts};
use crate::GatedUnit;
use halfwink_power::CoreState;
use halfwink_trace::{Kernel, Synthetic};
use halfwink_units::{Energy, Power};

/// A block that is run many times.
fn repeated(kind: &str, technique: &str, steps: &[Step], times: usize) -> RunResult {
    let mut writer = Writer::new();
    let block = writer.block(steps);
    let (mut script, lines) = writer.script();
    for _ in 0..times {
        script.run(block, vec![]);
    }
    run(&simple(kind), technique, vec![task(script, warm(&lines, &[]))])
}

fn unit(result: &RunResult, name: &str) -> GatedUnit {
    let units = &result.cores[0].gated_units;
    *units.iter().find(|unit| unit.name == name).expect("it is gated by itself")
}

/// A block of dependent additions, `length` ns long.
fn additions(length: usize) -> Vec<Step> {
    vec![alu(1, &[1]); length]
}

#[test]
fn integer_code_gates_the_units_that_it_does_not_use() {
    for kind in KINDS {
        let result = repeated(kind, "fupg", &additions(20), 100);
        let on = repeated(kind, "always-on", &additions(20), 100);
        assert_eq!((result.duration, result.cores[0].wakes), (on.duration, 0), "{kind}");
        assert_eq!(unit(&result, "integer").gated, Time::ZERO, "{kind}");
        for name in ["multiply", "floating-point"] {
            assert_eq!(unit(&result, name).gated, result.duration - Time::ns(5), "{kind} {name}");
        }
    }
}

#[test]
fn unit_in_use_every_4_ns_is_not_gated() {
    for kind in KINDS {
        let steps = [additions(4), vec![op(Kind::FpAdd, 20, &[1])]].concat();
        let result = repeated(kind, "fupg", &steps, 200);
        let on = repeated(kind, "always-on", &steps, 200);
        assert_eq!((result.duration, result.cores[0].wakes), (on.duration, 0), "{kind}");
        // It is idle from the last operation to the end at most.
        assert_eq!(unit(&result, "floating-point").gated, Time::ZERO, "{kind}");
        assert_eq!(unit(&result, "multiply").gated, result.duration - Time::ns(5), "{kind}");
    }
}

#[test]
fn unit_in_use_every_20_ns_wakes_late_until_the_guard_ends_it() {
    // Nothing waits for the result, so that integer operations go on.
    let steps = [additions(20), vec![op(Kind::FpAdd, 20, &[1])]].concat();
    let result = repeated("out-of-order", "fupg", &steps, 450);
    // 34 waits of 6 ns exceed 200 ns of 10 us; no unit is gated in the rest of 9 us.
    assert!(result.duration < Time::ns(10_000));
    let core = &result.cores[0];
    assert_eq!((core.late_wakes, core.late), (34, Time::ns(34 * 6)));
    let fp = unit(&result, "floating-point");
    assert_eq!((fp.wakes, fp.charging), (34, Time::ns(34 * 6)));
    assert_eq!((unit(&result, "integer").wakes, unit(&result, "multiply").wakes), (0, 0));
    // The next window begins anew.
    let longer = repeated("out-of-order", "fupg", &steps, 900);
    assert_eq!(unit(&longer, "floating-point").wakes, 68);
    // In order, operations behind one that waits wait too, and units that idle meanwhile are gated
    // and wake one behind the other: all of it is in the one budget of the core.
    let result = repeated("in-order", "fupg", &steps, 450);
    let core = &result.cores[0];
    assert!(unit(&result, "integer").wakes > 0);
    assert!(core.late > Time::ns(200) && core.late <= Time::ns(212), "{:?}", core.late);
}

#[test]
fn one_domain_is_gated_from_the_stall_on_and_wakes_for_the_answer() {
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(COLD)]);
    let result = run(&simple("in-order"), "fupg-one", vec![task(script, warm(&lines, &[]))]);
    // Idle from the start on, since a load uses none; the answer comes in 44, then 6 ns to wake.
    let units = unit(&result, "units");
    assert_eq!((units.gated, units.charging, units.wakes), (Time::ns(39), Time::ns(6), 1));
    assert_eq!(ns(&result), 51);
    // Half of the core's leakage, 97.75 % of it, and half of its clock, which runs at 0.5 W in 1 ns
    // before the stall and 7 behind it, and at 0.1 W in the 43 between.
    let nj = |x: f64| Energy::from_pj(x * 1e3);
    let parts = result.cores[0].energy;
    let events = parts.events;
    let clock = nj(0.5 * (8.0 * 0.5 + 43.0 * 0.1) + 0.5 * (2.0 * 0.5 + 4.0 * 0.1));
    let leakage = nj(51.0 - 39.0 * 0.5 * 0.9775);
    assert_eq!(parts, EnergyParts { leakage, clock, wake_up: nj(1.0), events });
}

#[test]
fn rows_of_units_are_their_leakage_on_and_off_and_their_wake_ups() {
    for kind in KINDS {
        for technique in ["fupg", "fupg-one"] {
            let source = Synthetic {
                kernel: Kernel::Mixed,
                footprint: 1 << 20,
                instructions: 30_000,
                seed: 5,
                duty: Some(halfwink_trace::Duty { burst: 2_000, idle_ns: 3_000 }),
            };
            let tasks = vec![task(source.source(), Arc::default())];
            let result = run(&simple(kind), technique, tasks);
            let machine = adapted(&simple(kind), technique);
            let mut woken = 0;
            for domain in machine.unit_domains() {
                let unit = unit(&result, domain.name);
                let leakage = Power::from_w(domain.share);
                let gated = machine.gating.gated_power(leakage.as_w());
                let charge = Energy::from_pj(1000.0 * domain.of_units);
                let row = |wanted: &str| {
                    let rows = result.books.named_rows();
                    let rows = rows.filter(|(name, state, cause, _)| {
                        (*name, state.0, cause.reason) == ("core0", wanted, domain.name)
                            && cause.mode == halfwink_engine::Mode::Idle
                    });
                    rows.map(|(.., row)| row.energy).sum::<Energy>()
                };
                assert_eq!(row("gated"), gated * unit.gated, "{kind} {}", domain.name);
                let charging = leakage * unit.charging + charge * unit.wakes;
                assert_eq!(row("charging"), charging, "{kind} {}", domain.name);
                // Whatever it is not off, it is on; the clock of halted cores stands.
                let all = result.duration - unit.gated - unit.charging;
                let on: Energy = ["active", "stalled", "idle"].into_iter().map(row).sum();
                let most = Power::from_w(1.5 * domain.share) * all;
                assert!(leakage * all <= on && on < most, "{kind} {}", domain.name);
                woken += unit.wakes;
            }
            assert!(woken > 0 && result.cores[0].wakes == woken, "{kind} {technique}");
        }
    }
}

#[test]
fn units_and_the_rest_of_a_core_take_what_the_core_takes() {
    for kind in KINDS {
        let whole = simple(kind);
        let parts = adapted(&whole, "fupg");
        for state in [CoreState::Active, CoreState::Stalled, CoreState::Idle] {
            let rest = state_power(&parts, state, false);
            let share = rest.as_w() / state_power(&whole, state, false).as_w();
            assert!((share - 0.5).abs() < 1e-5, "{kind} {}", state.name());
        }
        // Cores without work stay gated whole.
        let unused = state_power(&whole, CoreState::Unused, false);
        assert_eq!(state_power(&parts, CoreState::Unused, false), unused);
        let shares: f64 = parts.unit_domains().iter().map(|unit| unit.of_units).sum();
        assert!((shares - 1.0).abs() < 1e-12);
    }
}

#[test]
fn halted_core_keeps_its_units_gated() {
    for kind in KINDS {
        let result = halted_between_additions(kind, "fupg");
        let integer = unit(&result, "integer");
        assert_eq!((integer.wakes, integer.charging), (1, Time::ns(6)), "{kind}");
        assert!(integer.gated >= Time::ns(995), "{kind}");
        assert_eq!(unit(&result, "floating-point").wakes, 0, "{kind}");
    }
}
