//! Names, jobs, studies, targets.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use halfwink_study as study;
use halfwink_techniques::{Make, Parameter, Technique};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::pdn::Network;
use crate::planning::{planned, NamedJob, PlannedJob, Settings};
use crate::router::Router;
use crate::server::Server;
use crate::switching::Switching;
use crate::{HalfwinkError, Interrupted, RunError};

pub(crate) fn py_error(error: study::StudyError) -> PyErr {
    let text = error.to_string();
    match error {
        study::StudyError::Interrupted => Interrupted::new_err(text),
        e if e.is_usage() => HalfwinkError::new_err(text), // The user can mend it.
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

/// Values of a column, as a list.
fn values<'py>(py: Python<'py>, column: &study::Column) -> PyResult<Bound<'py, PyList>> {
    let values = PyList::empty(py);
    for value in &column.values {
        match value {
            study::Value::Text(text) => values.append(text)?,
            study::Value::Integer(n) => values.append(n)?,
            study::Value::Real(n) => values.append(n)?,
            study::Value::Missing(_) => values.append(py.None())?, // Tables hold no reasons.
        }
    }
    Ok(values)
}

/// A table as a list of (name, kind, values).
pub(crate) fn table<'py>(py: Python<'py>, table: &study::Table) -> PyResult<Bound<'py, PyList>> {
    let columns = PyList::empty(py);
    for column in &table.columns {
        columns.append((column.name, column.kind.name(), values(py, column)?))?;
    }
    Ok(columns)
}

fn parameter<'py>(py: Python<'py>, p: &Parameter) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", p.name)?;
    dict.set_item("unit", p.unit)?;
    dict.set_item("default", p.default.to_string())?;
    dict.set_item("range", p.range.to_string())?;
    dict.set_item("title", p.title)?;
    dict.set_item("source", p.source)?;
    Ok(dict)
}

fn parameters<'py>(py: Python<'py>, all: &[Parameter]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    all.iter().map(|p| parameter(py, p)).collect()
}

/// All techniques of all worlds: name, family, worlds, title, source, parameters, whether an
/// operator can use it today and how, and whether it is added to others.
#[pyfunction]
pub(crate) fn techniques(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let entry = |t: &Technique| {
        let dict = PyDict::new(py);
        for (key, value) in
            [("name", t.name), ("family", t.family), ("title", t.title), ("source", t.source)]
        {
            dict.set_item(key, value)?;
        }
        dict.set_item("worlds", t.worlds)?;
        dict.set_item("available", t.available.needs.name())?;
        dict.set_item("how", t.available.how)?;
        dict.set_item("is_usual", t.available.is_usual)?;
        dict.set_item("is_modifier", matches!(t.make, Make::Modifier(_)))?;
        dict.set_item("parameters", parameters(py, t.parameters)?)?;
        Ok(dict)
    };
    halfwink_techniques::techniques().map(entry).collect()
}

fn short<'py>(py: Python<'py>, column: &study::Short) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("column", column.column)?;
    dict.set_item("heading", column.heading)?;
    dict.set_item("digits", column.digits)?;
    Ok(dict)
}

/// All worlds: name, title, options, the columns of their tables as (name, kind), those of the
/// short table, and the default machine, workload and loads.
#[pyfunction]
pub(crate) fn worlds(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let entry = |world: &&dyn study::World| {
        let dict = PyDict::new(py);
        dict.set_item("name", world.name())?;
        dict.set_item("title", world.title())?;
        dict.set_item("options", parameters(py, world.options())?)?;
        let tables = PyDict::new(py);
        for (name, heads) in world.schema() {
            let heads: Vec<_> = heads.iter().map(|head| (head.0, head.1.name())).collect();
            tables.set_item(name, heads)?;
        }
        dict.set_item("tables", tables)?;
        let short: PyResult<Vec<_>> = world.short().iter().map(|s| short(py, s)).collect();
        dict.set_item("short", short?)?;
        let defaults = world.defaults();
        dict.set_item("machine", defaults.machine)?;
        dict.set_item("workload", defaults.workload)?;
        dict.set_item("loads", defaults.loads.map(<[_]>::to_vec))?;
        Ok(dict)
    };
    study::WORLDS.iter().map(entry).collect()
}

/// Lays two event logs side by side: `halfwink_eventlog::Beside`.
#[pyfunction]
pub(crate) fn beside(py: Python<'_>, a: PathBuf, b: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let found = py.detach(|| study::beside(&a, &b)).map_err(py_error)?;
    from_json(py, &json(&found)?)
}

/// Returns the experiments that targets may use beside studies: name, argument, title.
#[pyfunction]
pub(crate) fn experiments(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let entry = |e: &study::Experiment| {
        let dict = PyDict::new(py);
        for (key, value) in [("name", e.name), ("argument", e.argument), ("title", e.title)] {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    };
    study::EXPERIMENTS.iter().map(entry).collect()
}

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
pub(crate) struct PreparedJob(study::PreparedJob);

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
            Err(error) => list.append(py_error(error).into_value(py))?, // Only this job failed.
        }
    }
    Ok(list)
}

/// The folders of machines, workloads, studies and targets.
#[pyclass(frozen)]
pub(crate) struct Library(pub(crate) study::Library);

#[pymethods]
impl Library {
    #[new]
    fn new(root: PathBuf) -> Library {
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

    /// Closed forms of a fabric, by name or file, with values set: tables by name.
    fn fabric<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        set: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = self.0.fabric(name, &set).map_err(py_error)?.tables();
        tables(py, found.iter().map(|(name, content)| (*name, content)))
    }

    /// Names of the machines with a storage device.
    fn storages(&self) -> Vec<String> {
        self.0.storages()
    }

    /// Names of the fabrics.
    fn fabrics(&self) -> Vec<String> {
        self.0.fabrics()
    }

    /// A model of core switching by name or file, with values set.
    fn switching(&self, name: &str, set: Vec<(String, String)>) -> PyResult<Switching> {
        self.0.switching(name, &set).map(Switching).map_err(py_error)
    }

    /// Names of the models of core switching.
    fn switchings(&self) -> Vec<String> {
        self.0.switchings()
    }

    /// Returns all workloads.
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

    /// Tells fresh policies what an event log says: what came of it, a `halfwink_eventlog::Report`.
    #[pyo3(signature = (log, technique=None))]
    fn replay<'py>(
        &self,
        py: Python<'py>,
        log: PathBuf,
        technique: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let told = py.detach(|| study::replay(&self.0, &log, technique));
        let report = told.map_err(py_error)?;
        from_json(py, &json(&report)?)
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

    /// Workloads of a world: name and title.
    fn workloads_of(&self, world: &str) -> PyResult<Vec<(String, String)>> {
        let named = study::world(world).and_then(|w| w.workloads(&self.0)).map_err(py_error)?;
        Ok(named.into_iter().map(|n| (n.name, n.title)).collect())
    }

    /// Machines of a world: name and title.
    fn machines_of(&self, world: &str) -> PyResult<Vec<(String, String)>> {
        let world = study::world(world).map_err(py_error)?;
        Ok(world.machines(&self.0).into_iter().map(|n| (n.name, n.title)).collect())
    }

    /// Returns how well the run-length predictor predicts the kernel entries of a workload.
    fn prediction<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        set: Settings,
    ) -> PyResult<Bound<'py, PyAny>> {
        let prediction = py.detach(|| self.0.prediction(name, &set)).map_err(py_error)?;
        from_json(py, &json(&prediction)?)
    }

    /// Returns the kernel work of a recording's I/Os: sums over its I/Os. With `beside`, another
    /// CPU of the same run, also that one's, and the lines that travel between them.
    #[pyo3(signature = (workload, beside=None))]
    fn io_path<'py>(
        &self,
        py: Python<'py>,
        workload: &str,
        beside: Option<&str>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let found = py.detach(|| self.0.io_path(workload, beside)).map_err(py_error)?;
        let row = |counts: study::IoCounts| {
            let dict = PyDict::new(py);
            for (name, value) in [
                ("ios", counts.ios),
                ("submissions", counts.submissions),
                ("user_instructions", counts.instructions[0]),
                ("kernel_instructions", counts.instructions[1]),
                ("locked_instructions", counts.locked),
                ("interrupts", counts.interrupts),
                ("lines", counts.lines),
            ] {
                dict.set_item(name, value)?;
            }
            dict.set_item("transfers", beside.map(|_| counts.transfers))?; // One CPU has none.
            Ok(dict)
        };
        found.into_iter().map(row).collect()
    }

    /// Runs an experiment (`router/westmere`): tables by name, those named or all.
    fn experiment<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        set: Vec<(String, String)>,
        only: Vec<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.experiment(name, &set, &only)).map_err(py_error)?;
        tables(py, found.iter().map(|(name, content)| (name.as_str(), content)))
    }

    /// Every job of a study by name or file, in order, as (world, workload, machine, technique,
    /// set, options).
    fn study_jobs(&self, name: &str) -> PyResult<Vec<NamedJob>> {
        let study = study::Study::open(&self.0, name).map_err(py_error)?;
        let jobs = study.jobs().map_err(py_error)?;
        Ok(jobs
            .into_iter()
            .map(|j| (j.world, j.workload, j.machine, j.technique, j.set, j.options))
            .collect())
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

    /// Requests of a recorded service played warm, cold and preheated: tables by name, each a dict
    /// of lists. `asked`: requests to measure, requests to train with, microseconds
    /// asleep before each, and from the announcement to the arrival.
    fn preheat<'py>(
        &self,
        py: Python<'py>,
        workload: &str,
        machine: &str,
        asked: (usize, usize, f64, f64),
        set: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (requests, training, sleep_us, lead_us) = asked;
        let question = study::PreheatQuestion { requests, training, sleep_us, lead_us };
        let found = py.detach(|| self.0.preheat(workload, machine, &question, &set));
        tables(py, found.map_err(py_error)?.iter().map(|(name, content)| (*name, content)))
    }

    /// Every way to share a second level, over one workload: tables by name, each a dict of lists.
    fn segregation<'py>(
        &self,
        py: Python<'py>,
        workload: &str,
        set: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let sweep = study::SegregationSweep::of(&set).map_err(py_error)?;
        let found = py.detach(|| self.0.segregation(workload, &sweep)).map_err(py_error)?;
        tables(py, found.iter().map(|(name, content)| (*name, content)))
    }

    /// The best split by ways, with these routes to choose from, and what it brings: per cent of
    /// time and energy, with intervals.
    fn split_advice<'py>(
        &self,
        py: Python<'py>,
        workload: &str,
        machine: &str,
        routes: Vec<String>,
        set: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sweep = study::SegregationSweep::of(&set).map_err(py_error)?;
        let found = py.detach(|| self.0.split_advice(workload, machine, &routes, &sweep));
        from_json(py, &json(&found.map_err(py_error)?)?)
    }

    /// All targets; `compute` is null for those that nothing computes yet.
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let targets = self.0.targets().map_err(py_error)?;
        from_json(py, &json(&targets)?)
    }

    /// Verdicts on our values of targets, in their order; `on_its_own`: whether or not any mutant
    /// would change them.
    #[pyo3(signature = (values, *, on_its_own = false))]
    fn verdicts(
        &self,
        values: Vec<(String, Option<f64>)>,
        on_its_own: bool,
    ) -> PyResult<Vec<String>> {
        let targets = self.0.targets().map_err(py_error)?;
        let by_id: HashMap<&str, &study::Target> =
            targets.iter().map(|t| (t.id.as_str(), t)).collect(); // Its order is never seen.
        values
            .iter()
            .map(|(id, ours)| {
                let target = by_id
                    .get(id.as_str())
                    .ok_or_else(|| HalfwinkError::new_err(format!("unknown target `{id}`")))?;
                let verdict = if on_its_own {
                    target.verdict_on_its_own(*ours)
                } else {
                    target.verdict(*ours)
                };
                Ok(json(&verdict)?.as_str().unwrap_or_default().to_owned())
            })
            .collect()
    }

    /// All mutants: `name`, `what`, `machines`, `areas`, `quick`.
    fn mutants<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(&self.0.mutants().map_err(py_error)?)?)
    }

    /// The library with descriptions broken as a mutant says.
    fn mutated(&self, name: &str) -> PyResult<Library> {
        self.0.mutated(name).map(Library).map_err(py_error)
    }

    /// The one spelling of a technique of a world, with the digests of files that it names.
    fn identity(&self, world: &str, technique: &str) -> PyResult<String> {
        self.0.identity(world, technique).map_err(py_error)
    }

    /// Finds everything that a job names.
    fn prepare(
        &self,
        world: String,
        workload: String,
        machine: String,
        technique: String,
        set: Settings,
        options: Settings,
    ) -> PyResult<PreparedJob> {
        let job = study::Job { world, workload, machine, technique, set, options };
        job.prepare(&self.0).map(PreparedJob).map_err(py_error)
    }

    /// Key, amount and unit of work, and pace of each job; or the first error.
    fn plan(&self, py: Python<'_>, jobs: Vec<NamedJob>) -> PyResult<Vec<PlannedJob>> {
        planned(py, &self.0, jobs).map_err(py_error)
    }
}

/// Tables by name, each a list of (name, kind, values).
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
