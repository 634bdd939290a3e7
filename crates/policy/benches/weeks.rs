//! What it takes to plan a week of circuits for the demand of 64 hosts.
//!
//! Prints one line of JSON for each plan, demand and length of week: the median, in milliseconds,
//! and the slots of the week; all are planned in turns in this run. `make bench` shows them. With
//! an argument, plans that one once, for Callgrind: `traffic-matrix-even`, and so on.

#![allow(clippy::print_stdout, missing_docs)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use std::hint::black_box;
use std::time::Instant;

use halfwink_policy::circuits::{Event, Plan, Week, WeekParameters};
use halfwink_policy::Policy;
use halfwink_units::Time;

const HOSTS: u16 = 64;
const TURNS: usize = 41;

const PLANS: [(&str, Plan); 2] = [
    ("traffic-matrix", Plan::Shares),
    // Liu 2015, Sec 5: a packet switch of a tenth of a circuit's rate beside.
    ("solstice", Plan::Solstice { packet_bytes_per_ms: 125_000 }),
];
const DEMANDS: [&str; 3] = ["even", "skewed", "sparse"];
/// Milliseconds: what `halfwink circuits schedule` plans by default, and room for every slice.
const WEEKS_MS: [u64; 2] = [3, 300];

/// Bytes from each host to each other.
///
/// | demand | |
/// |---|---|
/// | `even` | all pairs, 0 to 50 KB |
/// | `skewed` | the same, but four pairs of each host have 20 times that (Liu 2015, Sec 5.1) |
/// | `sparse` | these four pairs alone |
fn demand(name: &str) -> Vec<Event> {
    // Knuth's generator: the same demand everywhere.
    let mut state = 1_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    };
    let mut events = vec![];
    for from in 0..HOSTS {
        for shift in 1..HOSTS {
            let (to, bytes) = ((from + shift) % HOSTS, below(50_000));
            let is_heavy = shift % 16 == 5;
            let bytes = match name {
                "even" => bytes,
                _ if is_heavy => 20 * bytes,
                "skewed" => bytes,
                _ => 0,
            };
            events.push(Event::Demand { from, to, bytes });
        }
    }
    events
}

struct Case {
    plan: &'static str,
    demand: &'static str,
    week_ms: u64,
    week: Week,
    times_ms: Vec<f64>,
}

impl Case {
    fn new((plan, kind): (&'static str, Plan), demand: &'static str, week_ms: u64) -> Case {
        let mut week = Week::new(WeekParameters {
            hosts: HOSTS,
            plan: kind,
            week: Time::from_ns(1e6 * week_ms as f64),
            night: Time::from_ns(11_500.0),
            shortest: Time::from_ns(61_000.0),
            bytes_per_ms: 1_250_000,
        });
        for event in self::demand(demand) {
            week.on_event(Time::ZERO, &event);
        }
        Case { plan, demand, week_ms, week, times_ms: vec![] }
    }

    fn turn(&mut self) {
        let begin = Instant::now();
        black_box(&mut self.week).plan();
        self.times_ms.push(begin.elapsed().as_secs_f64() * 1e3);
    }

    fn print(&mut self) {
        self.times_ms.sort_unstable_by(f64::total_cmp);
        let Case { plan, demand, week_ms, .. } = self;
        let (median, slots) = (self.times_ms[TURNS / 2], self.week.days().count());
        let found = format!(r#""week_ms":{week_ms},"ms":{median},"slots":{slots}"#);
        println!(r#"{{"plan":"{plan}","demand":"{demand}",{found}}}"#);
    }
}

fn main() {
    let mut cases = vec![];
    for plan in PLANS {
        for demand in DEMANDS {
            cases.extend(WEEKS_MS.map(|week_ms| Case::new(plan, demand, week_ms)));
        }
    }
    let named = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    if let Some(name) = named {
        let is_named = |case: &&mut Case| format!("{}-{}", case.plan, case.demand) == name;
        return cases.iter_mut().filter(is_named).take(1).for_each(Case::turn);
    }
    for _ in 0..TURNS {
        cases.iter_mut().for_each(Case::turn);
    }
    cases.iter_mut().for_each(Case::print);
}
