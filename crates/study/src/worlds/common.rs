//! Columns and tables that the worlds have in common.

use halfwink_engine::confidence::{Estimate, Piece};
use halfwink_engine::Closed;

use crate::table::{integer, real, text, Head, Table, Value};

/// Figures that every world gives of a run, so that results of different worlds can be related.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Common {
    /// The unit of work: `request`, `instruction` or `packet`.
    pub unit_of_work: &'static str,
    /// Number of units that were done.
    pub units: u64,
    /// Length of the run, in seconds.
    pub duration_s: f64,
    /// Energy of everything, in joules; modelled.
    pub energy_j: f64,
    /// Mean latency of a unit, in microseconds; none where a unit has no latency.
    pub latency_mean_us: Option<f64>,
    /// Latency that 99 % of the units do not exceed, in microseconds.
    pub latency_p99_us: Option<f64>,
    /// How work arrives, which decides how runs compare.
    pub load: Load,
    /// Power of the same machine under the same technique while it has no work, in watts; none
    /// where it never does, or the world does not know.
    pub idle_w: Option<f64>,
    /// Confidence intervals of these figures.
    pub intervals: Intervals,
}

/// How work arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Load {
    /// On its own schedule: all techniques have the same work in the same time.
    #[default]
    Open,
    /// When earlier work is done: a faster technique does the same work in less time.
    Closed,
}

impl Load {
    /// The cell of the column `load`.
    const fn name(self) -> &'static str {
        match self {
            Load::Open => "open",
            Load::Closed => "closed",
        }
    }
}

/// Ends of 95 % confidence intervals, in the units of what they are of; none where a run is too
/// short to have one, or nothing is random.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Intervals {
    /// Interval of the energy for each unit of work.
    pub energy_j_per_unit: Option<(f64, f64)>,
    /// Interval of the mean latency.
    pub latency_mean_us: Option<(f64, f64)>,
    /// Interval of the latency's 99th percentile.
    pub latency_p99_us: Option<(f64, f64)>,
}

/// An estimate's interval in another unit.
pub(crate) fn interval(estimate: Estimate, scale: f64) -> Option<(f64, f64)> {
    estimate.interval().map(|(low, high)| (scale * low, scale * high))
}

/// Interval of a quantile that holds its value, too: that is the upper end of its bucket, which is
/// wider than many an interval.
pub(crate) fn holding(interval: Option<(f64, f64)>, value: Option<f64>) -> Option<(f64, f64)> {
    let (low, high) = interval?;
    value.map(|value| (low.min(value), high.max(value)))
}

/// Both ends as cells.
pub(crate) fn ends(interval: Option<(f64, f64)>) -> [Value; 2] {
    [interval.map(|(low, _)| low).into(), interval.map(|(_, high)| high).into()]
}

/// Columns of [`Common`].
pub(crate) const COMMON: [Head; 15] = [
    text("unit_of_work"),
    integer("units"),
    real("duration_s"),
    real("energy_j"),
    real("energy_j_per_unit"),
    real("energy_low_j_per_unit"),
    real("energy_high_j_per_unit"),
    real("latency_mean_us"),
    real("latency_mean_low_us"),
    real("latency_mean_high_us"),
    real("latency_p99_us"),
    real("latency_p99_low_us"),
    real("latency_p99_high_us"),
    text("load"),
    real("idle_w"),
];

/// Columns of a run's pieces: under which load of a plan, what was done, in how long, with what
/// energy.
pub(crate) const SLICES: [Head; 4] =
    [integer("stratum"), integer("work"), real("time_s"), real("energy_j")];

/// Pieces of a run as a table, for comparisons piece by piece.
pub(crate) fn slices(pieces: &[Piece]) -> Table {
    let mut table = Table::new(&SLICES);
    for piece in pieces {
        table.push(vec![
            u64::from(piece.stratum).into(),
            piece.work.into(),
            piece.seconds.into(),
            piece.energy_j.into(),
        ]);
    }
    table
}

/// Columns of every world's ledger.
pub(crate) const LEDGER: [Head; 6] = [
    text("component"),
    text("state"),
    text("mode"),
    text("cause"),
    real("time_s"),
    real("energy_j"),
];

impl Common {
    /// The columns, with values.
    pub(crate) fn cells(&self) -> Vec<(&'static str, Value)> {
        let [energy_low, energy_high] = ends(self.intervals.energy_j_per_unit);
        let [mean_low, mean_high] = ends(self.intervals.latency_mean_us);
        let [p99_low, p99_high] = ends(self.intervals.latency_p99_us);
        vec![
            ("unit_of_work", self.unit_of_work.into()),
            ("units", self.units.into()),
            ("duration_s", self.duration_s.into()),
            ("energy_j", self.energy_j.into()),
            // A run without units divides by 0, which the cell turns into a missing value.
            ("energy_j_per_unit", (self.energy_j / self.units as f64).into()),
            ("energy_low_j_per_unit", energy_low),
            ("energy_high_j_per_unit", energy_high),
            ("latency_mean_us", self.latency_mean_us.into()),
            ("latency_mean_low_us", mean_low),
            ("latency_mean_high_us", mean_high),
            ("latency_p99_us", self.latency_p99_us.into()),
            ("latency_p99_low_us", p99_low),
            ("latency_p99_high_us", p99_high),
            ("load", self.load.name().into()),
            ("idle_w", self.idle_w.into()),
        ]
    }
}

/// Time and energy by component, state, mode and cause.
pub(crate) fn ledger(closed: &Closed) -> Table {
    let mut table = Table::new(&LEDGER);
    for (component, state, cause, row) in closed.named_rows() {
        table.push(vec![
            component.into(),
            state.0.into(),
            cause.mode.name().into(),
            cause.reason.into(),
            row.time.as_s().into(),
            row.energy.as_j().into(),
        ]);
    }
    table
}
