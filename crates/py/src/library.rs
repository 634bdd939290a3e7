//! Names, jobs, studies, targets.

use std::sync::Arc;

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::pdn::Network;
use crate::router::{PreparedRouterJob, Router};
use crate::server::Server;
use crate::switching::Switching;
use crate::{HalfwinkError, Interrupted, RunError};

pub(crate) fn py_error(error: study::StudyError) -> PyErr {
    let text = error.to_string();
    match error {
        study::StudyError::Interrupted => Interrupted::new_err(text),
        e if e.is_usage() => HalfwinkError::new_err(text),
        _ => RunError::new_err(text),
    }
}

/// A value that serializes, as Python's own types.
pub(crate) fn from_json<'py>(
    py: Python<'py>,
    value: &serde_json::Value,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

/// A table as a dict of lists.
pub(crate) fn table<'py>(py: Python<'py>, table: &study::Table) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for column in &table.columns {
        let values = PyList::empty(py);
        for value in &column.values {
            match value {
                study::Value::Text(text) => values.append(text)?,
                study::Value::Integer(n) => values.append(n)?,
                study::Value::Real(n) => values.append(n)?,
                study::Value::Missing => values.append(py.None())?,
            }
        }
        columns.set_item(column.name, values)?;
    }
    Ok(columns)
}

/// All techniques, baseline first: name, family, title, source.
#[pyfunction]
pub(crate) fn techniques(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let entry = |t: &study::Technique| {
        let dict = PyDict::new(py);
        for (key, value) in
            [("name", t.name), ("family", t.family), ("title", t.title), ("source", t.source)]
        {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    };
    study::TECHNIQUES.iter().map(entry).collect()
}

/// Lets a thread watch and stop a run in another.
#[pyclass(frozen)]
#[derive(Default)]
pub(crate) struct RunControl(Arc<study::RunControl>);

#[pymethods]
impl RunControl {
    #[new]
    fn new() -> RunControl {
        RunControl::default()
    }

    /// Asks the run to stop soon.
    fn stop(&self) {
        self.0.stop();
    }

    /// Instructions played so far.
    fn done(&self) -> u64 {
        self.0.done()
    }
}

/// A job whose names were found.
#[pyclass(frozen)]
pub(crate) struct PreparedJob(study::Prepared);

#[pymethods]
impl PreparedJob {
    /// Identifies the result.
    fn key(&self) -> String {
        self.0.key()
    }

    /// Instructions that will be played.
    fn instructions(&self) -> u64 {
        self.0.instructions()
    }

    /// The machine description as it will be used.
    fn machine_text(&self) -> &str {
        self.0.machine_text()
    }

    /// Runs it without holding the interpreter: the tables by name, each a dict of lists.
    fn run<'py>(&self, py: Python<'py>, control: &RunControl) -> PyResult<Bound<'py, PyDict>> {
        let control = Arc::clone(&control.0);
        let output = py.detach(|| self.0.run(&control)).map_err(py_error)?;
        let named = [
            ("run", &output.run),
            ("ledger", &output.ledger),
            ("counters", &output.counters),
            ("histograms", &output.histograms),
            ("calls", &output.calls),
            ("timeline", &output.timeline),
        ];
        tables(py, named)
    }
}

/// The folders of machines, workloads, studies and targets.
#[pyclass(frozen)]
pub(crate) struct Library(pub(crate) study::Library);

#[pymethods]
impl Library {
    #[new]
    fn new(root: std::path::PathBuf) -> Library {
        Library(study::Library::new(root))
    }

    /// Names of the files with an extension in a folder.
    fn names(&self, folder: &str, extension: &str) -> Vec<String> {
        self.0.names(folder, extension)
    }

    /// Description, cores and clock of a machine, and the facts that follow.
    fn machine<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        set: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let info = self.0.machine(name, &set).map_err(py_error)?;
        let dict = PyDict::new(py);
        dict.set_item("name", &info.name)?;
        dict.set_item("description", &info.machine.description)?;
        dict.set_item("cores", info.machine.cores)?;
        dict.set_item("clock_ghz", info.machine.clock.hz() * 1e-9)?;
        dict.set_item("text", &info.text)?;
        let facts = PyDict::new(py);
        for (fact, value) in info.machine.facts() {
            facts.set_item(fact, value)?;
        }
        dict.set_item("facts", facts)?;
        Ok(dict)
    }

    /// A delivery network by name or file, with values set.
    fn network(&self, name: &str, set: Vec<(String, String)>) -> PyResult<Network> {
        self.0.network(name, &set).map(Network).map_err(py_error)
    }

    /// Names of the delivery networks.
    fn networks(&self) -> Vec<String> {
        self.0.networks()
    }

    /// A router by name or file, with values set.
    fn router(&self, name: &str, set: Vec<(String, String)>) -> PyResult<Router> {
        self.0.router(name, &set).map(Router).map_err(py_error)
    }

    /// Names of the routers.
    fn routers(&self) -> Vec<String> {
        self.0.routers()
    }

    /// A hybrid server by name or file, with values set.
    fn server(&self, name: &str, set: Vec<(String, String)>) -> PyResult<Server> {
        self.0.server(name, &set).map(Server).map_err(py_error)
    }

    /// Names of the hybrid servers.
    fn servers(&self) -> Vec<String> {
        self.0.servers()
    }

    /// A model of core switching by name or file, with values set.
    fn switching(&self, name: &str, set: Vec<(String, String)>) -> PyResult<Switching> {
        self.0.switching(name, &set).map(Switching).map_err(py_error)
    }

    /// Names of the models of core switching.
    fn switchings(&self) -> Vec<String> {
        self.0.switchings()
    }

    /// All workloads.
    fn workloads<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let list = self.0.workloads().map_err(py_error)?;
        list.into_iter()
            .map(|info| {
                let dict = PyDict::new(py);
                dict.set_item("name", &info.name)?;
                dict.set_item("kind", info.kind)?;
                dict.set_item("description", &info.description)?;
                if let Some((header, totals, bytes)) = &info.trace {
                    dict.set_item("bytes", bytes)?;
                    dict.set_item("header", from_json(py, &json(header)?)?)?;
                    dict.set_item("totals", from_json(py, &json(totals)?)?)?;
                }
                Ok(dict)
            })
            .collect()
    }

    /// Number of cores and unit of work of a workload by name.
    fn workload<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        let workload = self.0.workload(name).map_err(py_error)?;
        let dict = PyDict::new(py);
        dict.set_item("name", &workload.name)?;
        dict.set_item("cores", workload.cores())?;
        dict.set_item("unit_of_work", workload.unit_of_work())?;
        dict.set_item("open", workload.is_open())?;
        dict.set_item("identity", workload.identity())?;
        Ok(dict)
    }

    /// How well the run-length predictor foresees the kernel entries of a workload.
    fn foresight<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let foresight = py.detach(|| self.0.foresight(name)).map_err(py_error)?;
        from_json(py, &json(&foresight)?)
    }

    /// A study by name or file.
    fn study<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let study = study::Study::open(&self.0, name).map_err(py_error)?;
        from_json(py, &json(&study)?)
    }

    /// The kernel's part in a workload: tables by name, each a dict of lists.
    fn os_profile<'py>(
        &self,
        py: Python<'py>,
        workload: &str,
        caches: &str,
        set: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.os_profile(workload, caches, &set)).map_err(py_error)?;
        tables(py, found.iter().map(|(name, content)| (*name, content)))
    }

    /// All targets; `compute` is null for those that nothing computes yet.
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let targets = self.0.targets().map_err(py_error)?;
        from_json(py, &json(&targets)?)
    }

    /// Verdicts on our values of targets, in their order.
    fn verdicts(&self, values: Vec<(String, Option<f64>)>) -> PyResult<Vec<String>> {
        let targets = self.0.targets().map_err(py_error)?;
        values
            .into_iter()
            .map(|(id, ours)| {
                let target = targets.iter().find(|t| t.id == id);
                let target = target
                    .ok_or_else(|| HalfwinkError::new_err(format!("unknown target `{id}`")))?;
                let verdict = json(&target.verdict(ours))?;
                Ok(verdict.as_str().unwrap_or_default().to_owned())
            })
            .collect()
    }

    /// Finds everything that a job of a study of routers names.
    fn prepare_router(
        &self,
        workload: String,
        machine: String,
        technique: String,
        set: Vec<(String, String)>,
    ) -> PyResult<PreparedRouterJob> {
        let job = study::RouterJob { workload, machine, technique, set };
        job.prepare(&self.0).map(PreparedRouterJob).map_err(py_error)
    }

    /// Finds everything that a job names.
    #[pyo3(signature = (workload, machine, technique, set, instructions=None, timeline_ns=None))]
    fn prepare(
        &self,
        workload: String,
        machine: String,
        technique: String,
        set: Vec<(String, String)>,
        instructions: Option<u64>,
        timeline_ns: Option<(u64, u64)>,
    ) -> PyResult<PreparedJob> {
        let job = study::Job { workload, machine, technique, set, instructions, timeline_ns };
        job.prepare(&self.0).map(PreparedJob).map_err(py_error)
    }
}

/// Tables by name, each a dict of lists.
pub(crate) fn tables<'py, 'a>(
    py: Python<'py>,
    named: impl IntoIterator<Item = (&'a str, &'a study::Table)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, content) in named {
        dict.set_item(name, table(py, content)?)?;
    }
    Ok(dict)
}

pub(crate) fn json<T: serde::Serialize>(value: &T) -> PyResult<serde_json::Value> {
    serde_json::to_value(value).map_err(|e| RunError::new_err(e.to_string()))
}
