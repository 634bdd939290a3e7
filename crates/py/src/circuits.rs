//! Hosts that take turns, and weeks of circuits.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::library::{py_error, tables, Library};

/// Hosts of a fabric in turns: `runs`, a row for each length of day (microseconds) and each kind of
/// tokens. `played` is what carries data (its name, congestion control, whether cards cut
/// segments), for how many milliseconds, and the seed.
#[pyfunction]
pub(crate) fn circuit_runs<'py>(
    py: Python<'py>,
    library: &Library,
    name: &str,
    set: Vec<(String, String)>,
    days_us: Vec<f64>,
    tokens: Vec<String>,
    played: ((String, String, String), f64, u64),
) -> PyResult<Bound<'py, PyDict>> {
    let found = library.0.fabric(name, &set).map_err(py_error)?;
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let ((name, congestion, offload), duration_ms, seed) = &played;
    let asked = study::Turns {
        days_us: &days_us,
        tokens: &tokens,
        transport: [name, congestion, offload],
        duration_ms: *duration_ms,
        seed: *seed,
    };
    let runs = py.detach(|| found.runs(&asked)).map_err(py_error)?;
    tables(py, [("runs", &runs)])
}

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
