//! Policies that complete block I/Os, by the number of CPUs that issue.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::library::{py_error, tables, Library};

/// A machine with a storage device: `runs`, a row for each policy and number of issuing CPUs.
/// `load` is what lies between issuers and device, I/Os in flight of each, the most I/Os a second
/// (0 for no limit), I/Os that are counted, and the seed.
#[pyfunction]
pub(crate) fn storage_runs<'py>(
    py: Python<'py>,
    library: &Library,
    name: &str,
    set: Vec<(String, String)>,
    policies: Vec<String>,
    issuers: Vec<u16>,
    load: (String, u32, f64, u64, u64),
) -> PyResult<Bound<'py, PyDict>> {
    let found = library.0.storage(name, &set).map_err(py_error)?;
    let (through, depth, rate, ios, seed) = load;
    let rate = (rate > 0.0).then_some(rate);
    let asked = study::StorageAsked { policies, issuers, through, depth, rate, ios, seed };
    let control = study::RunControl::new();
    let runs = py.detach(|| found.runs(&asked, &control)).map_err(py_error)?;
    tables(py, [("runs", &runs)])
}

/// A user's own load on such a machine: `load`, one row that says what it is, and `runs`, a row for
/// each policy and seed. `latency_us` is the device's, where the load does not say it; `asked` are
/// policies, seeds and what is left out although it matters.
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

/// Sockets of such a machine, and CPUs of each.
#[pyfunction]
pub(crate) fn storage_topology(
    library: &Library,
    name: &str,
    set: Vec<(String, String)>,
) -> PyResult<(u16, u16)> {
    let found = library.0.storage(name, &set).map_err(py_error)?;
    Ok(found.sockets())
}
