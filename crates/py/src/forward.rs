//! The live router.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use halfwink_live::router as live;
use halfwink_study as study;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::library::{from_json, json, py_error, Library};
use crate::{HalfwinkError, RunError};

/// A router of real packets, and the described one that gives it policy and watts.
#[pyclass(frozen)]
pub(crate) struct LiveRouter {
    router: Mutex<live::Router>,
    info: study::RouterInfo,
}

fn described(library: &Library, config: &live::Config) -> PyResult<study::RouterInfo> {
    let set: Vec<(String, String)> =
        config.set.iter().map(|(path, value)| (path.clone(), value.to_string())).collect();
    library.0.live_router(&config.machine, config.workers, &set).map_err(py_error)
}

fn read(path: &std::path::Path) -> PyResult<live::Config> {
    live::Config::read(path).map_err(|e| HalfwinkError::new_err(e.to_string()))
}

#[pymethods]
impl LiveRouter {
    /// Opens the ports of a description and starts forwarding; keeps so many lines of a log.
    #[new]
    #[pyo3(signature = (library, path, *, log_lines=0))]
    fn new(
        py: Python<'_>,
        library: &Library,
        path: PathBuf,
        log_lines: usize,
    ) -> PyResult<LiveRouter> {
        let config = read(&path)?;
        let info = described(library, &config)?;
        let policy = info.policy(&config.policy).map_err(py_error)?;
        let started = py.detach(|| live::Router::start(config, policy, log_lines));
        let router = Mutex::new(started.map_err(RunError::new_err)?);
        Ok(LiveRouter { router, info })
    }

    /// Counts and times since the start.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(&self.locked().report())?)
    }

    /// What the model says of times: joules, by name. `times`: five per core.
    fn modelled(
        &self,
        times: Vec<[f64; 5]>,
        duration_s: f64,
        packets: u64,
        bytes: f64,
    ) -> BTreeMap<&'static str, f64> {
        let times: Vec<study::CoreTimes> = times
            .into_iter()
            .map(|[busy_s, spin_s, c1_s, c3_s, c6_s]| study::CoreTimes {
                busy_s,
                spin_s,
                c1_s,
                c3_s,
                c6_s,
            })
            .collect();
        let meter = self.info.virtual_meter(&times, duration_s, packets, bytes);
        BTreeMap::from([
            ("energy_j", meter.energy_j),
            ("cores_j", meter.cores_j),
            ("polling_j", meter.polling_j),
            ("asleep_j", meter.asleep_j),
        ])
    }

    /// Takes routes, addresses, neighbours and application from a description.
    fn reload(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let config = read(&path)?;
        let router = &self.router;
        py.detach(|| {
            let router = router.lock().unwrap_or_else(PoisonError::into_inner);
            router.reload(config)
        })
        .map_err(HalfwinkError::new_err)
    }

    /// Forwards what has arrived, takes nothing more, and ends.
    fn stop(&self, py: Python<'_>) {
        let router = &self.router;
        py.detach(|| router.lock().unwrap_or_else(PoisonError::into_inner).stop());
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

impl LiveRouter {
    fn locked(&self) -> std::sync::MutexGuard<'_, live::Router> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a fresh policy what the lines of a log say: the number of the first line (from 0) at which
/// it asks for something else, and what; none if it asks for the same.
#[pyfunction]
pub(crate) fn replay_router(
    library: &Library,
    path: PathBuf,
    lines: Vec<String>,
) -> PyResult<Option<(usize, String)>> {
    let config = read(&path)?;
    let policy = described(library, &config)?.policy(&config.policy).map_err(py_error)?;
    let lines: Vec<live::Line> = log_lines(&lines)?;
    let found = live::replay(&lines, policy);
    found.map(|(n, asked)| Ok((n, json(&asked)?.to_string()))).transpose()
}

/// Lines of an event log, read.
pub(crate) fn log_lines<T: DeserializeOwned>(lines: &[String]) -> PyResult<Vec<T>> {
    let read = |(n, line): (usize, &String)| {
        serde_json::from_str(line)
            .map_err(|e| HalfwinkError::new_err(format!("line {}: {e}", n + 1)))
    };
    lines.iter().enumerate().map(read).collect()
}

/// What each element of the data plane costs here: (element, bytes of a frame, nanoseconds per
/// packet, times a copy of the frame).
#[pyfunction]
pub(crate) fn dataplane_costs(
    py: Python<'_>,
    repeats: usize,
) -> PyResult<Vec<(&'static str, usize, f64, f64)>> {
    let found = py.detach(|| live::costs(repeats)).map_err(RunError::new_err)?;
    Ok(found.into_iter().map(|c| (c.element, c.frame_bytes, c.ns_per_packet, c.per_copy)).collect())
}
