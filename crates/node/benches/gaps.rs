//! How many recorded idle times a second one core plays under each policy, beside reading the same
//! columns once; and how fast text of them is read, beside a reader that only looks for lines.
//!
//! Prints one line of JSON for each policy and each format; `make bench` shows them. Rates are of
//! this machine, the best of some runs; their ratio is what to compare.

#![allow(clippy::print_stdout, missing_docs)]

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::mem::replace;

use halfwink_node::gaps::{self, Recording};
use halfwink_techniques::node::{Idler, Machine, Plan};
use halfwink_techniques::{Choice, Make};
use halfwink_units::Time;

const GAPS: u64 = 2_000_000;
const CPUS: u64 = 8;
const RUNS: usize = 5;
/// Limits are measured so often in a row: once takes less than a tick of the scheduler's clock.
const REPEATS: usize = 20;
const TECHNIQUES: [&str; 9] =
    ["menu", "teo", "haltpoll", "c1", "c1e", "c6a", "idle-adaptive", "always-on", "pc1a"];

/// Numbers that look random: a generator of congruences, high bits first.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % limit
    }

    /// Nanoseconds over many orders of magnitude, around so many.
    fn around(&mut self, ns: u64) -> u64 {
        (ns << self.below(5)) / 4 + self.below(ns)
    }
}

/// Events of idle CPUs in the order of time: nanoseconds, CPU, and the state or none.
fn events() -> Vec<(u64, u64, Option<u64>)> {
    let mut numbers = Numbers(1);
    let mut all = Vec::new();
    for cpu in 0..CPUS {
        let mut now = 65_932_000_000_000 + cpu;
        for gap in 0..GAPS / CPUS {
            now += numbers.around(20_000);
            all.push((now, cpu, Some(numbers.below(4))));
            // Kinds of gaps come in runs, as loads change.
            now += numbers.around([40_000, 300_000, 4_000][(gap / 1_000 % 3) as usize]);
            all.push((now, cpu, None));
        }
    }
    all.sort_unstable();
    all
}

fn perf(events: &[(u64, u64, Option<u64>)]) -> String {
    let mut text = String::new();
    for &(ns, cpu, state) in events {
        let (s, ns, state) = (ns / 1_000_000_000, ns % 1_000_000_000, state.unwrap_or(0xffff_ffff));
        writeln!(
            text,
            "         swapper     0 [{cpu:03}] {s}.{ns:09}:      power:cpu_idle: state={state} \
             cpu_id={cpu}"
        )
        .expect("text grows");
    }
    text
}

fn table(recording: &Recording) -> String {
    let mut text = "cpu,begin_ns,end_ns,state\n".to_owned();
    for cpu in &recording.cpus {
        for gap in &cpu.gaps {
            let [begin, end] = [gap.begin, gap.end].map(|time| time.0 / 1_000);
            writeln!(text, "{},{begin},{end},{}", cpu.number, gap.state.unwrap_or(0))
                .expect("text grows");
        }
    }
    text
}

/// Seconds on a CPU of the fastest of some runs.
fn fastest(work: impl Fn()) -> f64 {
    let seconds = |_| {
        let begun = on_cpu();
        work();
        on_cpu() - begun
    };
    (0..RUNS).map(seconds).fold(f64::INFINITY, f64::min)
}

/// Seconds that this thread was on a CPU, which its neighbours do not lengthen much.
fn on_cpu() -> f64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux' scheduler tells");
    let ns = told.split(' ').next().expect("three numbers");
    ns.parse::<f64>().expect("nanoseconds") * 1e-9
}

/// A plain reader of lines.
fn longest_line(text: &[u8]) -> usize {
    let mut begin = 0;
    let lengths = memchr::memchr_iter(b'\n', text).map(|end| end - replace(&mut begin, end + 1));
    lengths.max().unwrap_or(0)
}

fn idler(choice: &Choice, machine: &Machine) -> Idler {
    let of = |choice: &Choice| {
        choice.parts().find_map(|part| match part.technique().make {
            Make::Node(node) => Some(node.idle?(choice, machine)),
            _ => None,
        })
    };
    let menu = || of(&Choice::parse("node", "menu").expect("a technique"));
    of(choice).or_else(menu).expect("menu is an idle policy")
}

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::default();
    for part in choice.parts() {
        if let Make::Node(node) = part.technique().make {
            (node.change)(choice, &mut plan);
        }
    }
    plan
}

fn show(kind: &str, name: &str, ours: f64, limit: f64) {
    println!("{{\"{kind}\": \"{name}\", \"ours\": {ours:.2}, \"limit\": {limit:.2}}}");
}

fn main() {
    let text = include_str!("../../../machines/node/golden-cove-56.toml");
    let machine = Machine::new(toml::from_str(text).expect("a description")).expect("a machine");
    let lines = perf(&events());
    let recording = gaps::read(lines.as_bytes()).expect("a recording");
    let rows = table(&recording);
    for (name, text) in [("perf script", &lines), ("CSV", &rows)] {
        let rate = |seconds| text.len() as f64 / seconds / 1e6;
        let ours = fastest(|| {
            black_box(gaps::read(text.as_bytes()).expect("a recording"));
        });
        let lines = fastest(|| {
            (0..REPEATS).for_each(|_| {
                black_box(longest_line(black_box(text.as_bytes())));
            });
        });
        show("format", name, rate(ours), REPEATS as f64 * rate(lines));
    }
    let rate = |seconds| GAPS as f64 / seconds / 1e6;
    let once = fastest(|| {
        (0..REPEATS).for_each(|_| _ = black_box(black_box(&recording).idle()));
    });
    let once = REPEATS as f64 * rate(once);
    let play = |name: &str, work: &dyn Fn()| show("policy", name, rate(fastest(work)), once);
    for name in TECHNIQUES {
        let choice = Choice::parse("node", name).expect("a technique");
        let (plan, make) = (plan(&choice), |_| idler(&choice, &machine));
        play(name, &|| {
            black_box(gaps::play(&machine, &recording, &[0, 1, 2, 3], &plan, &make))
                .expect("plays");
        });
    }
    play("best", &|| {
        black_box(gaps::best(&machine, &recording));
    });
    play("recorded", &|| {
        black_box(gaps::recorded(&machine, &recording, &[0, 1, 2, 3]));
    });
    play("together", &|| {
        black_box(gaps::together(&recording.cpus, Time::ZERO));
    });
}
