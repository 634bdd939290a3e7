//! The library of machines, workloads, studies and targets, by name.

use std::collections::HashMap;
use std::path::PathBuf;

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{from_json, json, py_error, tables};
use crate::pdn::Network;
use crate::planning::{planned, NamedJob, PlannedJob, Settings};
use crate::router::Router;
use crate::runs::PreparedJob;
use crate::server::Server;
use crate::switching::Switching;
use crate::HalfwinkError;

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
                // Generated workloads are in no file, and have neither a header nor bytes.
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
        // A log may have millions of lines, over which other threads of Python go on.
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
            // Lines travel between two CPUs: for one the count would be a zero that says nothing.
            dict.set_item("transfers", beside.map(|_| counts.transfers))?;
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
        // By a map, whose order is never seen: results keep the order of the values.
        let by_id: HashMap<&str, &study::Target> =
            targets.iter().map(|t| (t.id.as_str(), t)).collect();
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
        // Another library, so that runs of the descriptions as they are do not see the broken ones.
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
        // Before anything is played, so that a long study fails at once over a wrong name.
        let job = study::Job { world, workload, machine, technique, set, options };
        job.prepare(&self.0).map(PreparedJob).map_err(py_error)
    }

    /// Key, amount and unit of work, and pace of each job; or the first error.
    fn plan(&self, py: Python<'_>, jobs: Vec<NamedJob>) -> PyResult<Vec<PlannedJob>> {
        planned(py, &self.0, jobs).map_err(py_error)
    }
}
