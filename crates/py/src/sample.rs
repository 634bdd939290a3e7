//! Long workloads by samples.

use std::sync::Arc;

use halfwink_study as study;
use pyo3::prelude::*;

use crate::convert::{from_json, json, py_error};
use crate::library::Library;
use crate::runs::RunControl;

/// Samples a workload: a `halfwink_study::Sample`. Of `windows` and `period`, at most one is given.
#[pyfunction]
#[pyo3(signature = (library, control, workload, machine, set, techniques, *, unit, warm_up,
    windows=None, period=None, instructions=None, skip=None, seed=1, precision_pct=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn sample<'py>(
    py: Python<'py>,
    library: &Library,
    control: &RunControl,
    workload: String,
    machine: String,
    set: Vec<(String, String)>,
    techniques: Vec<String>,
    unit: u64,
    warm_up: u64,
    windows: Option<u64>,
    period: Option<u64>,
    instructions: Option<u64>,
    skip: Option<u64>,
    seed: u64,
    precision_pct: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let spacing = match (windows, period) {
        (Some(windows), _) => study::Spacing::Windows(windows),
        (None, Some(period)) => study::Spacing::Period(period),
        (None, None) => study::Spacing::Default,
    };
    let question = study::SampleQuestion {
        workload,
        machine,
        set,
        techniques,
        spacing,
        unit,
        warm_up,
        instructions,
        skip,
        seed,
        precision_pct,
    };
    let control = Arc::clone(&control.0);
    let found = py.detach(|| library.0.sample(&question, &control.run)).map_err(py_error)?;
    from_json(py, &json(&found)?)
}
