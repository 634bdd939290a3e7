//! Laws of policies.

use std::time::Duration;

use halfwink_study as study;
use pyo3::prelude::*;

use crate::convert::{from_json, json, py_error};
use crate::library::Library;

/// Checks the laws of a technique's family on its policy: a `halfwink_study::Checked`.
#[pyfunction]
pub(crate) fn check_policy<'py>(
    library: &Library,
    py: Python<'py>,
    technique: &str,
    world: Option<&str>,
    seeds: u64,
    within_s: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let within = Duration::from_secs_f64(within_s);
    let check = || study::check_policy(&library.0, world, technique, seeds, within);
    from_json(py, &json(&py.detach(check).map_err(py_error)?)?)
}
