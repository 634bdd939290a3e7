use std::fmt::Write;

use halfwink_techniques::node::machine::Spec;
use halfwink_techniques::node::{Idler, NodePart};
use halfwink_techniques::{Choice, Make};

use super::*;

/// A server with C1 (1 W, wakes in 1 us), C6 (0.1 W, 100 us, worth 600 us) and a package state.
const TEXT: &str = r#"
schema = 1
description = "two cores"
core = "golden-cove"
rest_w = 0.0
[server]
sockets = 1
dies = 1
cores = 2
[power]
active_w = 4.0
poll_w = 3.0
waking_w = 4.0
[[idle_states]]
name = "c1"
exit_us = 1.0
residency_us = 2.0
wake_us = [1.0, 1.0]
core_w = 1.0
[[idle_states]]
name = "c6"
exit_us = 100.0
residency_us = 600.0
wake_us = [100.0, 100.0]
core_w = 0.1
[[shared]]
name = "uncore"
scope = "socket"
awake_w = 10.0
[[package_states]]
name = "pc1a"
needs = "c1"
enter_us = 5.0
exit_us = 1.0
shares = [0.4]
[kernel]
tick_us = 4000.0
tick_work_us = 2.0
next_timer_us = 100e3
background_per_s = 0.0
background_us = 1.0
"#;

pub(crate) fn machine() -> Machine {
    Machine::new(toml::from_str(TEXT).unwrap()).unwrap()
}

fn idler(technique: &str, machine: &Machine) -> Idler {
    let choice = Choice::parse("node", technique).unwrap();
    let Make::Node(NodePart { idle: Some(make), .. }) = choice.technique().make else {
        panic!("{technique} is no idle policy");
    };
    make(&choice, machine)
}

/// Gaps in microseconds: begin, length.
fn recording(gaps: &[(u64, u64)]) -> Recording {
    let gap = |&(begin, length)| Gap {
        begin: Time::ns(1000 * begin),
        end: Time::ns(1000 * (begin + length)),
        state: Some(1),
    };
    let gaps: Vec<Gap> = gaps.iter().map(gap).collect();
    let length = gaps.last().map_or(Time::ZERO, |gap| gap.end);
    Recording { cpus: vec![Cpu { number: 0, gaps }], length, ..Recording::default() }
}

fn played(technique: &str, gaps: &[(u64, u64)]) -> Outcome {
    let machine = machine();
    let make = |_| idler(technique, &machine);
    play(&machine, &recording(gaps), &[0, 1, 2], &Plan::default(), &make).unwrap()
}

fn uj(energy: Energy) -> f64 {
    (energy.as_j() * 1e9).round() / 1e3
}

const GAPS: &[(u64, u64)] = &[(100, 50), (300, 1000), (2000, 1)];

#[test]
fn c1_pays_for_wake_ups_and_loses_long_gaps() {
    let found = played("c1", GAPS);
    // 1 W for 1051 us, 4 W for three wake-ups of 1 us.
    assert_eq!(uj(found.energy), 1051.0 + 12.0);
    // C6 was worth it once: 90 uJ and 400 for waking in time, in place of 1004.
    assert_eq!((found.count, uj(found.lost[Verdict::Shallow as usize])), ([1, 1, 1], 514.0));
    // The gap of 1 us is too short for C1: polling takes 3 uJ, C1 5.
    assert_eq!(uj(found.lost[Verdict::Deep as usize]), 2.0);
    assert_eq!(found.latency.max(), Some(Time::ns(1000)));
    assert_eq!(found.agrees, 3);
}

#[test]
fn best_states_by_hand() {
    let found = best(&machine(), &recording(GAPS));
    assert_eq!(uj(found.energy), (49.0 + 4.0) + (90.0 + 400.0) + 3.0);
    assert_eq!(found.states, [Time::ns(1000), Time::ns(49_000), Time::ns(900_000)]);
}

#[test]
fn choices_of_the_kernel_are_judged_alike() {
    let recorded = recorded(&machine(), &recording(GAPS), &[0, 1, 2]);
    let played = played("c1", GAPS);
    assert_eq!((recorded.count, recorded.lost), (played.count, played.lost));
    assert_eq!(recorded.energy, played.energy);
    let unknown = super::recorded(&machine(), &recording(GAPS), &[0]);
    assert_eq!(unknown.count, [0; 3]);
}

#[test]
fn haltpoll_polls_and_then_halts() {
    // It has no limit at first; a halt of 50 us has it poll for 50 us the next time.
    let found = played("haltpoll", &[(100, 50), (200, 30), (300, 1000)]);
    let states = [30 + 50, 50 + 950, 0].map(|us| Time::ns(1000 * us));
    assert_eq!(found.states, states);
}

#[test]
fn late_wake_up_swallows_the_next_gap() {
    let machine = machine();
    let make = |_| Idler::Rest {
        policy: Box::new(halfwink_policy::scaling::Menu::new(
            halfwink_policy::scaling::IdleParameters {
                cores: 1,
                states: halfwink_policy::scaling::IdleStates::new(&[
                    halfwink_policy::scaling::IdleState {
                        depth: halfwink_policy::scaling::Depth::C6,
                        exit: Time::ns(100_000),
                        residency: Time::ns(600_000),
                        polls: false,
                    },
                ]),
                tick: Time::ns(4_000_000),
                timer: Time::ns(100_000_000),
                wake: Time::ZERO,
            },
        )),
        depths: [2; 3],
    };
    let gaps = recording(&[(100, 50), (160, 20), (400, 50)]);
    let found = play(&machine, &gaps, &[], &Plan::default(), &make).unwrap();
    // Awake at 250 us: the gap that ends at 180 was waited for by 70.
    assert_eq!((found.swallowed, found.count), (1, [0, 0, 2]));
    assert_eq!(found.latency.quantile(0.0), Some(Time::ns(70_000)));
}

#[test]
fn package_sleeps_while_all_cpus_are_deep_enough() {
    let machine = machine();
    let mut gaps = recording(&[(100, 50), (300, 100)]);
    let mut other = gaps.cpus[0].clone();
    other.number = 1;
    other.gaps[0].begin = Time::ns(120_000);
    gaps.cpus.push(other);
    let plan = Plan { package: Some("pc1a".to_owned()), ..Plan::default() };
    let make = |_| idler("c1", &machine);
    let found = play(&machine, &gaps, &[], &plan, &make).unwrap().package.unwrap();
    // 30 and 100 us together, 5 us of each to enter.
    assert_eq!((found.sleeps, found.asleep), (2, Time::ns(120_000)));
    let polls = |_| idler("always-on", &machine);
    let never = play(&machine, &gaps, &[], &plan, &polls).unwrap().package.unwrap();
    assert_eq!(never.sleeps, 0);
    assert_eq!(package_saves(&machine, "pc1a"), Some(Power::from_w(6.0)));
}

/// Decisions of a governor as the referee writes them.
fn decisions(technique: &str, machine: &Machine, gaps: &[(u64, u64)]) -> Vec<String> {
    let mut governor = Governor::new(idler(technique, machine));
    let mut ready = Time::ZERO;
    let mut found = Vec::new();
    for &(begin, end) in gaps {
        let (mut now, end) = (Time::ns(begin).max(ready), Time::ns(end));
        if now >= end {
            found.push("-".to_owned());
            continue;
        }
        let mut told = String::new();
        loop {
            let rest = governor.begin(now).unwrap();
            let space = if told.is_empty() { "" } else { " " };
            let tick = if rest.wakes { "t" } else { "" };
            write!(told, "{space}{}{tick}", rest.state).unwrap();
            let wake = machine.states[rest.state].wake[0];
            ready = rest.due.min(end) + wake;
            if rest.due >= end {
                governor.end(end).unwrap();
                governor.woken(ready).unwrap();
                break;
            }
            governor.ticked(ready);
            ready += machine.tick_work;
            now = ready;
            if now >= end {
                break;
            }
        }
        found.push(told);
    }
    found
}

/// Menu and TEO decide as Linux' own code does, compiled for user space.
#[test]
fn governors_decide_as_linux_does() {
    let text = include_str!("../../../../../machines/node/golden-cove-56.toml");
    let mut spec: Spec = toml::from_str(text).unwrap();
    for state in &mut spec.idle_states {
        state.wake_us = [state.exit_us / 2.0; 2];
    }
    let machine = Machine::new(spec).unwrap();
    let data = include_str!("../../../tests/data/linux-governors.csv");
    let rows: Vec<Vec<&str>> = data
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 1500);
    let gaps: Vec<(u64, u64)> =
        rows.iter().map(|row| (row[0].parse().unwrap(), row[1].parse().unwrap())).collect();
    for (technique, column) in [("menu", 2), ("teo", 3)] {
        let ours = decisions(technique, &machine, &gaps);
        let differ: Vec<usize> = (0..rows.len()).filter(|&n| ours[n] != rows[n][column]).collect();
        let first = differ.first().map(|&n| (n, rows[n][column], ours[n].as_str()));
        assert!(differ.is_empty(), "{technique}: {} of 1500 differ, first {first:?}", differ.len());
    }
}
