//! The live steering proxy.

use std::path::PathBuf;
use std::sync::Arc;

use halfwink_daemon::steer::Steer;
use halfwink_daemon::Program;
use halfwink_techniques::Descriptions;
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::programs::{daemon_error, Metrics};

/// A proxy at work, and the described server that gives it policy and watts.
#[pyclass(frozen)]
pub(crate) struct LiveSteer(Arc<Steer>);

#[pymethods]
impl LiveSteer {
    /// Listens and serves as a description says; `log`: a file for its policy's
    /// events.
    #[new]
    #[pyo3(signature = (root, path, *, log=None))]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        path: PathBuf,
        log: Option<PathBuf>,
    ) -> PyResult<LiveSteer> {
        let machines = Ok(Descriptions::new(root));
        let started = py.detach(|| Steer::start(&machines, &path, log.as_deref()));
        Ok(LiveSteer(Arc::new(started.map_err(daemon_error)?)))
    }

    /// Returns the address that it listens on.
    fn address(&self) -> String {
        self.0.address()
    }

    /// Counts and times since the start, with the joules of a model.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.report())
    }

    /// Takes limits, machines, certificate and policy from a description; what has changed.
    fn reload(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
        py.detach(|| self.0.reload(&path)).map_err(daemon_error)
    }

    /// Opens the access log by its name again; what to say of it, if there is one.
    fn reopen(&self, py: Python<'_>) -> PyResult<Option<String>> {
        py.detach(|| self.0.reopen()).map_err(daemon_error)
    }

    /// Answers the requests under way, takes no more, wakes who sleeps, and ends.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.stop()).map_err(daemon_error)
    }

    /// Returns whether all its threads are running.
    fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Returns its counters as OpenMetrics text.
    fn metrics(&self) -> String {
        self.0.metrics()
    }

    /// Serves that at HOST:PORT until it is closed.
    fn serve_metrics(&self, address: &str) -> PyResult<Metrics> {
        Metrics::serve(address, self.0.clone())
    }
}
