//! Recorded idle times.

use std::path::PathBuf;
use std::sync::Arc;

use halfwink_study as study;
use pyo3::prelude::*;

use crate::convert::{from_json, json, py_error};
use crate::library::Library;
use crate::runs::RunControl;

/// Plays idle policies in recorded idle times: a `halfwink_study::IdleAnswer`.
#[pyfunction]
#[pyo3(signature = (library, control, file, machine, set, techniques, *, limit_us, states,
    any_bad))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn idle<'py>(
    py: Python<'py>,
    library: &Library,
    control: &RunControl,
    file: PathBuf,
    machine: String,
    set: Vec<(String, String)>,
    techniques: Vec<String>,
    limit_us: Option<f64>,
    states: Vec<String>,
    any_bad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let question =
        study::IdleQuestion { file, machine, set, techniques, limit_us, states, any_bad };
    let control = Arc::clone(&control.0);
    let found = py.detach(|| library.0.idle(&question, &control.run)).map_err(py_error)?;
    from_json(py, &json(&found)?)
}
