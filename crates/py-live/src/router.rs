//! The live router.

use std::path::PathBuf;
use std::sync::Arc;

use halfwink_daemon::router::Router;
use halfwink_daemon::Program;
use halfwink_live_router as live;
use halfwink_techniques::router::CoreTimes;
use halfwink_techniques::Descriptions;
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::programs::{daemon_error, Metrics};
use crate::RunError;

/// A router of real packets, and the described one that gives it policy and watts.
#[pyclass(frozen)]
pub(crate) struct LiveRouter(Arc<Router>);

#[pymethods]
impl LiveRouter {
    /// Opens the ports of a description and starts forwarding; `log`: a file for its policy's
    /// events.
    #[new]
    #[pyo3(signature = (root, path, *, log=None))]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        path: PathBuf,
        log: Option<PathBuf>,
    ) -> PyResult<LiveRouter> {
        let machines = Ok(Descriptions::new(root));
        let started = py.detach(|| Router::start(&machines, &path, log.as_deref()));
        Ok(LiveRouter(Arc::new(started.map_err(daemon_error)?)))
    }

    /// Counts and times since the start, with the joules of a model.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.report())
    }

    /// Returns the modelled joules and watts of times, by name. `times` has five per core.
    fn modelled<'py>(
        &self,
        py: Python<'py>,
        times: Vec<[f64; 5]>,
        duration_s: f64,
        packets: u64,
        bytes: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let core = |[busy_s, spin_s, c1_s, c3_s, c6_s]: [f64; 5]| CoreTimes {
            busy_s,
            spin_s,
            c1_s,
            c3_s,
            c6_s,
        };
        let times: Vec<CoreTimes> = times.into_iter().map(core).collect();
        to_python(py, &self.0.modelled(&times, duration_s, packets, bytes))
    }

    /// Takes routes, addresses, neighbours and application from a description; what has changed.
    fn reload(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
        py.detach(|| self.0.reload(&path)).map_err(daemon_error)
    }

    /// Forwards what has arrived, takes nothing more, and ends.
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

/// Measures the cost of each element of the data plane here: (element, bytes of a frame,
/// nanoseconds per packet, times a copy of the frame).
#[pyfunction]
pub(crate) fn dataplane_costs(
    py: Python<'_>,
    repeats: usize,
) -> PyResult<Vec<(&'static str, usize, f64, f64)>> {
    let found = py.detach(|| live::costs(repeats)).map_err(RunError::new_err)?;
    Ok(found.into_iter().map(|c| (c.element, c.frame_bytes, c.ns_per_packet, c.per_copy)).collect())
}
