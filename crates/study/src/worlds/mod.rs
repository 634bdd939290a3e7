//! The worlds behind the seam, a folder each; and what their tables have in common.

pub(crate) mod chip;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod switching;
mod toy;

pub use chip::Chip;
pub use router::Router;
pub use server::Server;
pub use switching::Switching;
pub use toy::Toy;

use halfwink_engine::Closed;

use crate::table::{integer, real, text, Head, Table, Value};

/// What every world says of a run, so that results can be related whatever they are of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Common {
    /// What is counted as work: `request`, `instruction`, `packet`.
    pub unit_of_work: &'static str,
    /// How many were done.
    pub units: u64,
    /// Length of the run, in seconds.
    pub duration_s: f64,
    /// Energy of everything, in joules; modelled.
    pub energy_j: f64,
    /// What somebody waits for a unit, in microseconds; none where nobody does.
    pub latency_mean_us: Option<f64>,
    /// The same of all but one in a hundred.
    pub latency_p99_us: Option<f64>,
}

/// Columns of [`Common`].
pub(crate) const COMMON: [Head; 7] = [
    text("unit_of_work"),
    integer("units"),
    real("duration_s"),
    real("energy_j"),
    real("energy_j_per_unit"),
    real("latency_mean_us"),
    real("latency_p99_us"),
];

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
        vec![
            ("unit_of_work", self.unit_of_work.into()),
            ("units", self.units.into()),
            ("duration_s", self.duration_s.into()),
            ("energy_j", self.energy_j.into()),
            ("energy_j_per_unit", (self.energy_j / self.units as f64).into()),
            ("latency_mean_us", self.latency_mean_us.into()),
            ("latency_p99_us", self.latency_p99_us.into()),
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
