//! Parts of reports that all live programs have.

use halfwink_engine::Histogram;
use halfwink_units::Time;
use serde::Serialize;
use serde_json::Value;

use super::ledger::Balance;

/// Limits of the buckets of [`Latency::within`], in microseconds: 1, 2.5, 5 in each decade, from a
/// frame's microsecond to a minute.
pub const LIMITS_US: [f64; 24] = [
    1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2.5e3, 5e3, 1e4, 2.5e4, 5e4, 1e5,
    2.5e5, 5e5, 1e6, 2.5e6, 5e6, 1e7, 2.5e7, 6e7,
];

/// Times of many things (frames, requests), in microseconds; null if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// Mean value, in microseconds.
    pub mean_us: Option<f64>,
    /// Half of them were no longer.
    pub p50_us: Option<f64>,
    /// 99 of 100 were no longer.
    pub p99_us: Option<f64>,
    /// Largest value, in microseconds.
    pub max_us: Option<f64>,
    /// Sum of all values, in microseconds.
    #[serde(skip)]
    pub sum_us: f64,
    /// Number of values up to each of [`LIMITS_US`]. Times are counted in buckets less than 1 %
    /// wide, so that a limit is met as closely.
    #[serde(skip)]
    pub within: [u64; LIMITS_US.len()],
}

impl Latency {
    /// Sums up a histogram.
    #[must_use]
    pub fn of(all: &Histogram) -> Latency {
        let us = |time: Option<Time>| time.map(|t| t.0 as f64 * 1e-6);
        Latency {
            count: all.count(),
            mean_us: us(all.mean()),
            p50_us: us(all.quantile(0.5)),
            p99_us: us(all.quantile(0.99)),
            max_us: us(all.max()),
            sum_us: all.total().0 as f64 * 1e-6,
            within: within(all),
        }
    }
}

fn within(all: &Histogram) -> [u64; LIMITS_US.len()] {
    let mut counts = all.counts().peekable();
    let mut sum = 0;
    LIMITS_US.map(|limit| {
        while let Some((_, count)) = counts.next_if(|(time, _)| time.0 as f64 * 1e-6 <= limit) {
            sum += count;
        }
        sum
    })
}

/// A column of a table as results of simulated runs have them: name with its unit last, kind
/// (`text`, `integer` or `real`), values.
pub type Column = (&'static str, &'static str, Vec<Value>);

/// Name and results of a live run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Unit of work: `packets`, `requests`.
    pub unit_of_work: &'static str,
    /// Number of units.
    pub units: u64,
    /// The described machine that gives watts, if there is one.
    pub machine: Option<&'a str>,
    /// Name of the policy.
    pub technique: &'a str,
    /// Values of the machine that were set, as `path=value`.
    pub set: String,
    /// Latency of the units.
    pub latency: Latency,
}

/// The tables `run` (one row) and `ledger` of a live run, with the columns of a simulated one;
/// without a model those of energy are missing.
#[must_use]
pub fn tables(run: &Run<'_>, balance: &Balance) -> [(&'static str, Vec<Column>); 2] {
    let per_unit = |energy_j: f64| (run.units > 0).then(|| energy_j / run.units as f64);
    let one = |name, kind, value: Value| (name, kind, vec![value]);
    let text = |name, value: &str| one(name, "text", value.into());
    let real = |name, value: Option<f64>| one(name, "real", value.into());
    let mut row = vec![
        text("workload", "live"),
        text("machine", run.machine.unwrap_or("")),
        text("technique", run.technique),
        text("set", &run.set),
        text("unit_of_work", run.unit_of_work),
        one("units", "integer", run.units.into()),
        real("duration_s", Some(balance.duration_s)),
    ];
    if let Some(energy_j) = balance.energy_j {
        row.extend([
            real("energy_j", Some(energy_j)),
            real("energy_j_per_unit", per_unit(energy_j)),
        ]);
    }
    row.extend([
        real("latency_mean_us", run.latency.mean_us),
        real("latency_p99_us", run.latency.p99_us),
    ]);
    [("run", row), ("ledger", balance.table())]
}
