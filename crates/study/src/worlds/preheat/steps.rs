//! What loading a set takes, step by step (Gottschlag 2016, Sec 5.3, 6.4; Fig 6.2).

use halfwink_preheat::{Prototype, Way};

use super::{PreheatInfo, SEED};
use crate::table::{integer, real, text, Table};

impl PreheatInfo {
    /// The steps of Fig 6.2 for the web server: one after the other, each alone, and each left out.
    pub(super) fn steps(&self) -> Table {
        let heads = [
            text("how"),
            text("step"),
            integer("number"),
            real("time_us"),
            real("factor"),
            real("reduction_pct"),
            real("data_kib"),
        ];
        let mut table = Table::new(&heads);
        let mut prototype = Prototype::new(&self.spec, SEED);
        let estimated = prototype.estimate(self.web(), self.spec.estimate.repetitions);
        let time = |way: Way| prototype.load(&estimated, way).end.as_ns() * 1e-3;
        let kib = |way: Way| {
            let set = if way.filtered { &estimated.set } else { &estimated.raw };
            set.len() as f64 / 16.0
        };
        let (plain, whole) = (time(Way::PLAIN), time(Way::FINAL));
        let mut push = |how: &str, step: &str, number: u64, way: Way, before: f64| {
            let us = time(way);
            table.push(vec![
                how.into(),
                step.into(),
                number.into(),
                us.into(),
                (us / plain).into(),
                (100.0 * (1.0 - us / before)).into(),
                kib(way).into(),
            ]);
            us
        };
        let (mut way, mut before) = (Way::PLAIN, plain);
        push("cumulative", "none", 0, way, plain);
        for (number, step) in (1..).zip(Way::STEPS) {
            way = way.with(step, true);
            before = push("cumulative", step, number, way, before);
        }
        for (number, step) in (1..).zip(Way::STEPS) {
            push("alone", step, number, Way::PLAIN.with(step, true), plain);
            // What it saves of all: against the time without it.
            let without = time(Way::FINAL.with(step, false));
            push("left-out", step, number, Way::FINAL.with(step, false), without * without / whole);
        }
        for cores in 1..=self.spec.core.cores {
            let way = Way { cores, ..Way::FINAL };
            push("cores", &cores.to_string(), u64::from(cores), way, whole);
        }
        table
    }

    /// Measures the bandwidth of memory for cores that read long runs (`pmbw`, Sec 6.4).
    pub(super) fn bandwidth(&self) -> Table {
        let mut table = Table::new(&[integer("cores"), real("gib_per_s")]);
        let prototype = Prototype::new(&self.spec, SEED);
        for cores in 1..=self.spec.core.cores {
            let gib = prototype.bandwidth(cores) / f64::from(1 << 30);
            table.push(vec![u64::from(cores).into(), gib.into()]);
        }
        table
    }
}
