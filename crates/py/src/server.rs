//! Hybrid servers.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::library::{from_json, json, py_error, table, tables};

/// A hybrid server, read.
#[pyclass(frozen)]
pub(crate) struct Server(pub(crate) study::ServerInfo);

#[pymethods]
impl Server {
    /// The description.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(self.0.model.spec())?)
    }

    /// Runs all experiments: tables by name, each a dict of lists.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.tables()).map_err(py_error)?;
        tables(py, found.iter().map(|(name, content)| (*name, content)))
    }

    /// Policies against loads.
    fn ask<'py>(
        &self,
        py: Python<'py>,
        workloads: Vec<String>,
        policies: Vec<String>,
        loads: Vec<String>,
        requests: u64,
        seed: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let loads = loads.iter().map(|load| study::ServerLoad::parse(load));
        let loads = loads.collect::<Result<Vec<_>, _>>().map_err(py_error)?;
        let question = study::ServerQuestion { workloads, policies, loads, requests, seed };
        let found = py.detach(|| self.0.ask(&question)).map_err(py_error)?;
        table(py, &found)
    }
}

/// Policies of a hybrid server: name, title and source; what others are compared with first.
#[pyfunction]
pub(crate) fn server_policies(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, study::SERVER_POLICIES.iter().map(|p| (p.name, p.title, p.source)))
}
