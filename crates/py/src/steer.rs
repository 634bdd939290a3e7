//! The live steering proxy.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use halfwink_live::steer as live;
use halfwink_study as study;
use pyo3::prelude::*;

use crate::forward::log_lines;
use crate::library::{from_json, json, py_error, Library};
use crate::{HalfwinkError, RunError};

/// A proxy at work, and the described server that gives it policy and watts.
#[pyclass(frozen)]
pub(crate) struct LiveSteer {
    steer: Mutex<live::Steer>,
}

fn described(library: &Library, config: &live::Config) -> PyResult<study::ServerInfo> {
    let set: Vec<(String, String)> =
        config.set.iter().map(|(path, value)| (path.clone(), value.to_string())).collect();
    library.0.server(&config.machine, &set).map_err(py_error)
}

fn read(path: &Path) -> PyResult<live::Config> {
    live::Config::read(path).map_err(|e| HalfwinkError::new_err(e.to_string()))
}

#[pymethods]
impl LiveSteer {
    /// Listens and serves as a description says; keeps so many lines of a log.
    #[new]
    #[pyo3(signature = (library, path, *, log_lines=0))]
    fn new(
        py: Python<'_>,
        library: &Library,
        path: PathBuf,
        log_lines: usize,
    ) -> PyResult<LiveSteer> {
        let config = read(&path)?;
        let info = described(library, &config)?;
        let policy = info.policy(&config.policy, &config.workload).map_err(py_error)?;
        let started = py.detach(|| live::Steer::start(config, policy, log_lines));
        Ok(LiveSteer { steer: Mutex::new(started.map_err(RunError::new_err)?) })
    }

    /// Counts and times since the start.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(&self.locked().report())?)
    }

    /// The described server of the description in use.
    fn spec<'py>(&self, py: Python<'py>, library: &Library) -> PyResult<Bound<'py, PyAny>> {
        let info = described(library, &self.locked().config())?;
        from_json(py, &json(info.model.spec())?)
    }

    /// Takes limits, machines, certificate and policy from a description.
    fn reload(&self, py: Python<'_>, library: &Library, path: PathBuf) -> PyResult<()> {
        let config = read(&path)?;
        let info = described(library, &config)?;
        let policy = info.policy(&config.policy, &config.workload).map_err(py_error)?;
        let steer = &self.steer;
        py.detach(|| {
            let steer = steer.lock().unwrap_or_else(PoisonError::into_inner);
            let before = steer.config();
            let same = before.policy == config.policy
                && before.machine == config.machine
                && before.workload == config.workload
                && before.set == config.set;
            steer.reload(config, (!same).then_some(policy))
        })
        .map_err(HalfwinkError::new_err)
    }

    /// Answers the requests under way, takes no more, wakes who sleeps, and ends.
    fn stop(&self, py: Python<'_>) {
        let steer = &self.steer;
        py.detach(|| steer.lock().unwrap_or_else(PoisonError::into_inner).stop());
    }

    /// Whether all its threads are at work.
    fn is_running(&self) -> bool {
        self.locked().is_running()
    }

    /// The event log, a line of JSON per event.
    fn log(&self) -> PyResult<Vec<String>> {
        self.locked().log().iter().map(|line| Ok(json(line)?.to_string())).collect()
    }
}

impl LiveSteer {
    fn locked(&self) -> std::sync::MutexGuard<'_, live::Steer> {
        self.steer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a fresh policy what the lines of a log say: the number of the first line (from 0) at which
/// it asks for something else, and what; none if it asks for the same.
#[pyfunction]
pub(crate) fn replay_steer(
    library: &Library,
    path: PathBuf,
    lines: Vec<String>,
) -> PyResult<Option<(usize, String)>> {
    let config = read(&path)?;
    let info = described(library, &config)?;
    let policy = info.policy(&config.policy, &config.workload).map_err(py_error)?;
    let lines: Vec<live::Line> = log_lines(&lines)?;
    let found = live::replay(&lines, policy);
    found.map(|(n, asked)| Ok((n, json(&asked)?.to_string()))).transpose()
}
