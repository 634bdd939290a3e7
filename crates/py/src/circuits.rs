//! Weeks of circuits.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{py_error, tables};

/// A week of circuits for a demand: `week`, `facts`. `times` are week, night and shortest day, in
/// microseconds.
#[pyfunction]
pub(crate) fn circuit_schedule<'py>(
    py: Python<'py>,
    path: &str,
    content: &str,
    scheduler: &str,
    times: (f64, f64, f64),
    gbps: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let (week_us, night_us, shortest_us) = times;
    let scheduler = study::Scheduler { name: scheduler, week_us, night_us, shortest_us, gbps };
    let found = py.detach(|| study::schedule(path, content, &scheduler)).map_err(py_error)?;
    tables(py, found.iter().map(|(name, content)| (*name, content)))
}
