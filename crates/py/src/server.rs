//! Hybrid servers.

use std::sync::Arc;

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::library::{from_json, json, py_error, table, tables, Library};

/// A hybrid server, read.
#[pyclass(frozen)]
pub(crate) struct Server(pub(crate) Arc<study::ServerInfo>);

#[pymethods]
impl Server {
    /// Returns the description as a dict.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(self.0.model.spec())?)
    }

    /// Runs all experiments: tables by name, each a dict of lists.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.tables()).map_err(py_error)?;
        tables(py, found.iter().map(|(name, content)| (*name, content)))
    }

    /// A year of counts on a fleet: a table. `question`: each key as the fields of
    /// `YearQuestion`.
    fn year<'py>(
        &self,
        py: Python<'py>,
        library: &Library,
        question: YearQuestion,
    ) -> PyResult<Bound<'py, PyList>> {
        let question = question.read().map_err(py_error)?;
        let found = py.detach(|| self.0.year(&library.0, &question)).map_err(py_error)?;
        table(py, &found)
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

/// Parameters of a year's query, from a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct YearQuestion {
    workloads: Vec<String>,
    policies: Vec<String>,
    counts: String,
    servers: u32,
    dispatch: String,
    load_pct: Option<f64>,
    days: Option<f64>,
    points: usize,
    requests: u64,
    accuracy: Option<f64>,
    seed: u64,
}

impl YearQuestion {
    fn read(self) -> Result<study::YearQuestion, study::StudyError> {
        Ok(study::YearQuestion {
            workloads: self.workloads,
            policies: self.policies,
            counts: self.counts.into(),
            fleet: (self.servers, study::dispatch(&self.dispatch)?),
            load_pct: self.load_pct,
            days: self.days,
            points: self.points,
            requests: self.requests,
            goal: self.accuracy.map(|relative| study::Goal { relative, confidence: 0.95 }),
            seed: self.seed,
        })
    }
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
