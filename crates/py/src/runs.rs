//! Jobs that are prepared and run, how a run is watched and stopped, and logs of runs.

use std::path::PathBuf;
use std::sync::Arc;

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::convert::{from_json, json, py_error, tables};

/// Lets a thread watch and stop a run in another.
#[pyclass(frozen)]
#[derive(Default)]
pub(crate) struct RunControl(pub(crate) Arc<study::Control>);

#[pymethods]
impl RunControl {
    /// Creates a control; with a path, every event and action of the run's policies is written
    /// there.
    #[new]
    #[pyo3(signature = (log=None))]
    fn new(log: Option<PathBuf>) -> RunControl {
        RunControl(Arc::new(study::Control { log, ..study::Control::default() }))
    }

    /// Asks the run to stop soon.
    fn stop(&self) {
        self.0.run.stop();
    }

    /// Work done so far, in the job's unit.
    fn done(&self) -> u64 {
        self.0.run.done()
    }
}

/// A job whose names were found.
#[pyclass(frozen)]
pub(crate) struct PreparedJob(pub(crate) study::PreparedJob);

#[pymethods]
impl PreparedJob {
    /// Identifies the result: of content alone, without names.
    fn key(&self) -> String {
        self.0.key()
    }

    /// Returns the amount of work and its unit.
    fn work(&self) -> (u64, &'static str) {
        let work = self.0.work();
        (work.amount, work.unit)
    }

    /// Returns a key: jobs with an equal key may share a run; `None` shares with none.
    fn pace(&self) -> Option<String> {
        self.0.pace()
    }

    /// The technique with its parameters, in its one spelling.
    fn technique(&self) -> &str {
        self.0.technique()
    }

    /// The machine description as it will be used.
    fn machine_text(&self) -> &str {
        self.0.machine_text()
    }

    /// Runs it without holding the interpreter: the tables by name, each a list of (name, kind,
    /// values).
    fn run<'py>(&self, py: Python<'py>, control: &RunControl) -> PyResult<Bound<'py, PyDict>> {
        let control = Arc::clone(&control.0);
        let found = py.detach(|| self.0.run(&control)).map_err(py_error)?;
        tables(py, found.iter().map(|(name, content)| (*name, content)))
    }
}

/// Plays jobs in as few runs as it takes, without holding the interpreter: for each its tables, or
/// the error that it ended with.
#[pyfunction]
pub(crate) fn run_together<'py>(
    py: Python<'py>,
    jobs: Vec<PyRef<'py, PreparedJob>>,
    control: &RunControl,
) -> PyResult<Bound<'py, PyList>> {
    let control = Arc::clone(&control.0);
    let prepared: Vec<&study::PreparedJob> = jobs.iter().map(|job| &job.0).collect();
    let found = py.detach(|| study::run_together(&prepared, &control.run));
    let list = PyList::empty(py);
    for result in found {
        match result {
            Ok(found) => list.append(tables(py, found.iter().map(|(n, t)| (*n, t)))?)?,
            // As a value and not raised: only this job failed, and the others have their tables.
            Err(error) => list.append(py_error(error).into_value(py))?,
        }
    }
    Ok(list)
}

/// Lays two event logs side by side: `halfwink_eventlog::Beside`.
#[pyfunction]
pub(crate) fn beside(py: Python<'_>, a: PathBuf, b: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(|| study::beside(&a, &b)).map_err(py_error)?;
    from_json(py, &json(&found)?)
}
