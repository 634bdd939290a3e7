//! A user's own block I/Os on a machine with a storage device.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::library::{py_error, tables, Library};

/// A user's own load on a machine with a storage device: `load`, one row that says what it is, and
/// `runs`, a row for each policy and seed. `latency_us` is the device's, where the load does not
/// say it; `asked` are policies, seeds and what is left out although it matters.
#[pyfunction]
pub(crate) fn storage_load<'py>(
    py: Python<'py>,
    library: &Library,
    name: &str,
    set: Vec<(String, String)>,
    path: std::path::PathBuf,
    latency_us: Option<f64>,
    asked: (Vec<String>, Vec<u64>, Vec<String>),
) -> PyResult<Bound<'py, PyDict>> {
    let found = library.0.storage(name, &set).map_err(py_error)?;
    let (policies, seeds, ignored) = asked;
    let asked = study::LoadAsked { path, latency_us, policies, seeds, ignored };
    let control = study::RunControl::new();
    let (load, runs) = py.detach(|| found.load(&asked, &control)).map_err(py_error)?;
    tables(py, [("load", &load), ("runs", &runs)])
}
