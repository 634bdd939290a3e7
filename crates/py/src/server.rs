//! Hybrid servers.

use std::sync::Arc;

use halfwink_study as study;
use halfwink_units::Time;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{from_json, json, py_error};
use crate::library::Library;

/// A hybrid server, read.
#[pyclass(frozen)]
pub(crate) struct Server(pub(crate) Arc<study::ServerInfo>);

#[pymethods]
impl Server {
    /// Returns the description as a dict.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(self.0.model.spec())?)
    }

    /// Draws so many requests of a workload at a load and does nothing with them: how many there
    /// are.
    fn draw(
        &self,
        py: Python<'_>,
        library: &Library,
        workload: &str,
        load: &str,
        requests: u64,
        seed: u64,
    ) -> PyResult<u64> {
        let load = study::ServerLoad::parse(load).map_err(py_error)?;
        py.detach(|| self.0.draw(&library.0, workload, &load, requests, seed)).map_err(py_error)
    }
}

/// Requests per second in steps of `counts:FILE` or `log:FILE` (in steps of `step_s`):
/// `halfwink_study::Day`.
#[pyfunction]
pub(crate) fn day_load<'py>(
    py: Python<'py>,
    library: &Library,
    load: &str,
    step_s: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let step = Time::from_ns(step_s * 1e9);
    let found = py.detach(|| study::Day::read(&library.0, load, step)).map_err(py_error)?;
    let dict = PyDict::new(py);
    dict.set_item("step_s", found.step_s)?;
    dict.set_item("per_s", found.per_s)?;
    dict.set_item("read_as", found.read_as)?;
    dict.set_item("bad_lines", found.bad_lines)?;
    dict.set_item("missing", found.missing)?;
    Ok(dict)
}

/// Measures of how power follows load, from pairs (load, watts); none if they are too few.
#[pyfunction]
pub(crate) fn proportionality<'py>(
    py: Python<'py>,
    points: Vec<(f64, f64)>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(found) = study::proportionality(&points) else { return Ok(None) };
    let dict = PyDict::new(py);
    for (name, value) in found {
        dict.set_item(name, value)?;
    }
    Ok(Some(dict))
}
