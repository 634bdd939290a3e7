//! What the thesis measures with its prototype, as tables (Gottschlag 2016, Ch. 3 and 6).

use halfwink_engine::Histogram;
use halfwink_preheat::{Estimated, Flush, Mode, Prototype, Served};
use halfwink_units::Time;

use super::{PreheatInfo, SEED};
use crate::error::StudyError;
use crate::parallel::parallel;
use crate::table::{integer, real, text, Table};
use crate::world::Tables;

/// Requests of each workload and mode.
pub(super) const REQUESTS: u64 = 400;
/// Requests before any is counted.
pub(super) const WARM_UP: u64 = 40;

/// A workload's requests in one mode.
pub(super) struct Measured {
    pub responses: Vec<Time>,
    pub misses: f64,
    pub cpi: f64,
}

impl Measured {
    pub fn mean_us(&self) -> f64 {
        let sum: f64 = self.responses.iter().map(|t| t.as_ns() * 1e-3).sum();
        sum / self.responses.len().max(1) as f64
    }

    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        self.responses.iter().for_each(|&t| histogram.record(t));
        histogram
    }
}

/// Tables that are made together, by their names.
type Part = (&'static [&'static str], fn(&PreheatInfo) -> Result<Tables, StudyError>);

/// A prototype with the estimates of its services.
pub(super) struct Bench<'a> {
    pub prototype: Prototype<'a>,
    pub estimates: Vec<Estimated>,
}

impl PreheatInfo {
    /// Names of services, then of mixes.
    pub(super) fn loads(&self) -> Vec<String> {
        self.spec.services.keys().chain(self.spec.mixes.keys()).cloned().collect()
    }

    /// The prototype, trained for each service.
    pub(super) fn bench(&self) -> Bench<'_> {
        let mut prototype = Prototype::new(&self.spec, SEED);
        let repetitions = self.spec.estimate.repetitions;
        let services = 0..self.spec.services.len();
        let estimates: Vec<Estimated> =
            services.map(|service| prototype.estimate(service, repetitions)).collect();
        for (service, estimated) in estimates.iter().enumerate() {
            prototype.prepare(service, estimated);
        }
        Bench { prototype, estimates }
    }

    /// Everything that the targets ask, as tables by name: those that are `wanted`, and what is
    /// made together with them.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `services` | a workload x mode (warm, cold, preheated): Tables 6.1 and 6.2 |
    /// | `cdf` | the same x share of its requests: Figs 2.2 and 6.1 |
    /// | `loads` | a workload: what is loaded, and how long that takes |
    /// | `flushes` | what is flushed: Fig 3.2 |
    /// | `steps` | a way to load x step: Fig 6.2, steps also alone and left out |
    /// | `bandwidth` | how many cores load |
    /// | `tail` | how rare cold requests are x statistic: Table 6.3 |
    /// | `sets` | a fact of working sets: Sec 3.3 and 4.1 |
    /// | `restart` | every hundredth request: Fig 3.3 |
    /// | `lengths` | length of a run: Fig 4.4 |
    /// | `shared` | whose set is loaded: Sec 6.3.3 |
    /// | `deadline` | workload x what is swept x late policy: Sec 6.6 |
    /// | `polled` | a network card that is asked: Fig 5.1 |
    /// | `energy` | a rate of requests x technique |
    /// | `facts` | a value of the description |
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn tables(&self, wanted: impl Fn(&str) -> bool) -> Result<Tables, StudyError> {
        let mut parts: Vec<Part> = vec![
            (&["services", "loads", "cdf"], |info| Ok(info.services())),
            (&["flushes"], |info| Ok(vec![("flushes", info.flushes())])),
            (&["steps"], |info| Ok(vec![("steps", info.steps())])),
            (&["bandwidth"], |info| Ok(vec![("bandwidth", info.bandwidth())])),
            (&["facts"], |info| Ok(vec![("facts", info.facts())])),
            (&["sets", "restart", "lengths"], |info| Ok(info.set_tables())),
            (&["tail"], |info| Ok(vec![("tail", info.tail())])),
            (&["polled"], |info| Ok(vec![("polled", info.polled())])),
            (&["shared"], |info| Ok(vec![("shared", info.shared())])),
            (&["deadline"], |info| Ok(vec![("deadline", info.deadline())])),
            (&["energy"], |info| Ok(vec![("energy", info.energy()?)])),
        ];
        parts.retain(|(names, _)| names.iter().any(|name| wanted(name)));
        // Each part makes its own bench, so that none depends on which ran before.
        let found = parallel(&parts, |(_, part)| part(self));
        Ok(found.into_iter().collect::<Result<Vec<Tables>, StudyError>>()?.concat())
    }

    /// Measures so many requests of a load in a mode.
    pub(super) fn measure(
        bench: &Bench,
        load: &[(usize, f64)],
        mode: Mode,
        requests: u64,
    ) -> Measured {
        // A clone has the same random streams: modes meet the same requests, and differ in nothing
        // else.
        let mut prototype = bench.prototype.clone();
        for _ in 0..WARM_UP {
            let service = prototype.choose(load);
            prototype.request(service, Mode::Warm, Flush::NONE);
        }
        let mut all: Vec<(Served, f64)> = Vec::new();
        for _ in 0..requests {
            let service = prototype.choose(load);
            let served = prototype.request(service, mode, Flush::CACHES);
            let of = prototype.instructions(service);
            all.push((served, of));
        }
        let n = requests.max(1) as f64;
        let instructions: f64 = all.iter().map(|(_, of)| of).sum();
        // Weighted by instructions: a mean of ratios would give short requests the say of long
        // ones.
        let cycles: f64 = all.iter().map(|(served, of)| served.cpi * of).sum();
        Measured {
            responses: all.iter().map(|(served, _)| served.response).collect(),
            misses: all.iter().map(|(served, _)| served.refills as f64).sum::<f64>() / n,
            cpi: cycles / instructions,
        }
    }

    fn services(&self) -> Tables {
        let bench = self.bench();
        let heads = [
            text("workload"),
            text("mode"),
            real("response_us"),
            real("p50_us"),
            real("p95_us"),
            real("p99_us"),
            real("misses"),
            real("cpi"),
        ];
        let (mut services, mut loads) = (Table::new(&heads), Table::new(&LOADS));
        let heads = [text("workload"), text("mode"), real("share"), real("response_us")];
        let mut cdf = Table::new(&heads);
        for workload in self.loads() {
            let load = self.load(&workload).unwrap_or_default();
            for mode in Mode::ALL {
                let measured = PreheatInfo::measure(&bench, &load, mode, REQUESTS);
                let histogram = measured.histogram();
                let at = |q: f64| histogram.quantile(q).map(|t| t.as_ns() * 1e-3);
                services.push(vec![
                    workload.as_str().into(),
                    mode.name().into(),
                    measured.mean_us().into(),
                    at(0.5).into(),
                    at(0.95).into(),
                    at(0.99).into(),
                    measured.misses.into(),
                    measured.cpi.into(),
                ]);
                for n in 1..20 {
                    let share = f64::from(n) / 20.0;
                    cdf.push(vec![
                        workload.as_str().into(),
                        mode.name().into(),
                        share.into(),
                        at(share).into(),
                    ]);
                }
            }
            loads.push(loaded(&workload, &load, &bench));
        }
        vec![("services", services), ("loads", loads), ("cdf", cdf)]
    }

    /// Response time of the first web server with one kind of state flushed (Fig 3.2).
    fn flushes(&self) -> Table {
        let heads = [text("flushed"), real("response_us"), real("overhead_pct")];
        let mut table = Table::new(&heads);
        let bench = Bench { prototype: Prototype::new(&self.spec, SEED), estimates: Vec::new() };
        let service = self.web();
        let mut none_us = 0.0;
        for (name, flush) in [
            ("none", Flush::NONE),
            ("tlb", Flush { tlb: true, ..Flush::NONE }),
            ("l1i", Flush { l1i: true, ..Flush::NONE }),
            ("l1d", Flush { l1d: true, ..Flush::NONE }),
            ("l1-l2", Flush::CACHES),
            ("branch", Flush { branch: true, ..Flush::NONE }),
            ("all", Flush::ALL),
        ] {
            let mut prototype = bench.prototype.clone();
            for _ in 0..WARM_UP {
                prototype.request(service, Mode::Warm, Flush::NONE);
            }
            let one = |_| prototype.request(service, Mode::Cold, flush).response.as_ns() * 1e-3;
            let mean_us = (0..REQUESTS).map(one).sum::<f64>() / REQUESTS as f64;
            if name == "none" {
                none_us = mean_us;
            }
            let overhead = 100.0 * (mean_us / none_us - 1.0);
            table.push(vec![name.into(), mean_us.into(), overhead.into()]);
        }
        table
    }

    /// The service that listens at port 80, or the first.
    pub(super) fn web(&self) -> usize {
        self.spec.services.values().position(|s| s.port == 80).unwrap_or(0)
    }
}

const LOADS: [crate::table::Head; 8] = [
    text("workload"),
    integer("requests"),
    real("lines"),
    real("data_kib"),
    real("raw_kib"),
    real("run_lines"),
    real("cost_us"),
    real("kib_per_us"),
];

/// Returns what is loaded before requests of a load, in the mean.
fn loaded(workload: &str, load: &[(usize, f64)], bench: &Bench) -> Vec<crate::table::Value> {
    let total: f64 = load.iter().map(|(_, share)| share).sum();
    let mean = |of: &dyn Fn(usize) -> f64| {
        load.iter().map(|&(service, share)| share * of(service)).sum::<f64>() / total
    };
    let lines = mean(&|s| bench.estimates[s].set.len() as f64);
    let runs = mean(&|s| bench.estimates[s].set.runs().count() as f64);
    let raw = mean(&|s| bench.estimates[s].raw.len() as f64);
    let cost_us = mean(&|s| bench.prototype.prepared(s).map_or(0.0, |l| l.end.as_ns() * 1e-3));
    vec![
        workload.into(),
        REQUESTS.into(),
        lines.into(),
        (lines / 16.0).into(),
        (raw / 16.0).into(),
        (lines / runs.max(1.0)).into(),
        cost_us.into(),
        (lines / 16.0 / cost_us).into(),
    ]
}
