//! The live programs and instruments.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use halfwink_daemon::delegate::Delegate;
use halfwink_daemon::Program;
use halfwink_live::idle::{Mechanism, Watch};
use halfwink_live::probe;
use halfwink_live::program::child::Child;
use halfwink_live::program::rapl;
use halfwink_live::sys::CpuSet;
use halfwink_live_delegate::measure::{names, Bench, Limits};
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::programs::{daemon_error, Metrics};
use crate::{HalfwinkError, RunError};

/// Time between two looks for signals of Python, which may have come just before a wait.
const LOOK: Duration = Duration::from_millis(100);

/// A program under delegation.
#[pyclass(frozen)]
pub(crate) struct LiveDelegate(Arc<Delegate>);

#[pymethods]
impl LiveDelegate {
    /// Starts the program of a description, or the one of `command`; `log`: a file for its
    /// policies' events.
    #[new]
    #[pyo3(signature = (path, *, command=None, log=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        command: Option<Vec<OsString>>,
        log: Option<PathBuf>,
    ) -> PyResult<LiveDelegate> {
        let started = py.detach(|| Delegate::start(&path, command, log.as_deref()));
        Ok(LiveDelegate(Arc::new(started.map_err(daemon_error)?)))
    }

    /// Counts and times up to now, with the joules of a model.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.report())
    }

    /// Compares a description with the present one, which nothing can change.
    fn reload(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
        py.detach(|| self.0.reload(&path)).map_err(daemon_error)
    }

    /// Passes a signal on to the program.
    fn signal(&self, number: i32) {
        self.0.signal(number);
    }

    /// Waits until the program has ended. Handlers of signals run meanwhile.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        while !py.detach(|| self.0.wait(LOOK)) {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Returns the exit status of the program, once it has ended.
    fn status(&self) -> Option<u8> {
        self.0.status()
    }

    /// Ends the program, and writes the log.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.stop()).map_err(daemon_error)
    }

    /// Returns whether the program is running.
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

/// A command that is only waited for.
#[pyclass(frozen)]
pub(crate) struct LiveCommand(Child);

#[pymethods]
impl LiveCommand {
    /// Starts the command, which takes all CPUs of this process.
    #[new]
    fn new(words: Vec<OsString>) -> PyResult<LiveCommand> {
        let Some((program, rest)) = words.split_first() else {
            return Err(HalfwinkError::new_err("expected a program and its arguments"));
        };
        let mut command = Command::new(program);
        command.args(rest);
        let started = Child::start(command, None, false);
        started
            .map(LiveCommand)
            .map_err(|e| RunError::new_err(format!("{}: {e}", program.display())))
    }

    /// Passes a signal on to it.
    fn signal(&self, number: i32) {
        self.0.signal(number);
    }

    /// Waits until it has ended. Handlers of signals run meanwhile.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        while py.detach(|| self.0.wait(LOOK)).is_none() {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Returns its exit status, once it has ended.
    fn status(&self) -> Option<u8> {
        self.0.status()
    }
}

/// Measures this machine between two CPUs: all items, or those named.
#[pyfunction]
#[pyo3(signature = (here, there, *, only=None, trials=20, repetitions=5_000,
                    item_ns=1_000_000_000))]
fn measure<'py>(
    py: Python<'py>,
    here: u32,
    there: Option<u32>,
    only: Option<Vec<String>>,
    trials: u32,
    repetitions: u32,
    item_ns: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let limits = Limits { trials, repetitions, item_ns };
    let wanted = |name: &str| only.as_ref().is_none_or(|all| all.iter().any(|n| n == name));
    let found = py.detach(|| Bench::new(here, there, limits).run(wanted));
    to_python(py, &found)
}

/// CPUs whose idle time is being watched.
#[pyclass]
pub(crate) struct IdleWatch(Option<Watch>);

#[pymethods]
impl IdleWatch {
    /// Begins; by `switch-records`, `spinners`, or the best that is allowed. Periods are written to
    /// `record`, if it is given.
    #[new]
    #[pyo3(signature = (mechanism=None, record=None))]
    fn new(
        py: Python<'_>,
        mechanism: Option<&str>,
        record: Option<PathBuf>,
    ) -> PyResult<IdleWatch> {
        let wanted = match mechanism {
            None => None,
            Some("switch-records") => Some(Mechanism::SwitchRecords),
            Some("spinners") => Some(Mechanism::Spinners),
            Some(other) => {
                return Err(HalfwinkError::new_err(format!(
                    "--by {other}: expected switch-records or spinners"
                )))
            }
        };
        let begun = py.detach(|| Watch::begin(wanted, record.as_deref()));
        let watch = begun.map_err(HalfwinkError::new_err)?;
        Ok(IdleWatch(Some(watch)))
    }

    /// Ends; what was found. Only once.
    fn end<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let watch = self.0.take().ok_or_else(|| RunError::new_err("it has ended before"))?;
        let found = py.detach(|| watch.end()).map_err(RunError::new_err)?;
        to_python(py, &found)
    }
}

/// Names of all that can be measured.
#[pyfunction]
fn measure_names() -> Vec<&'static str> {
    names().collect()
}

/// Returns the features of this machine that live parts use: names, and reasons why not (empty if
/// available).
#[pyfunction]
fn live_features() -> Vec<(&'static str, String)> {
    let ground = probe::features().into_iter();
    ground
        .chain(halfwink_live_delegate::features())
        .chain(halfwink_live_router::features())
        .chain(halfwink_live_preheat::features())
        .collect()
}

/// Energy meters of this machine that can be read, and what cannot and why, or `None`.
#[pyfunction]
fn energy_meters() -> (Vec<String>, Option<String>) {
    rapl::probe()
}

/// The energy counters of this machine, from when it is made on.
#[pyclass(frozen)]
pub(crate) struct EnergyMeter(rapl::Meter);

#[pymethods]
impl EnergyMeter {
    /// Begins to read what there is; that there is nothing is no error.
    #[new]
    fn new() -> EnergyMeter {
        EnergyMeter(rapl::Meter::begin())
    }

    /// Returns the readings up to now.
    fn look<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &py.detach(|| self.0.look()))
    }
}

/// The CPUs that this thread may run on.
#[pyfunction]
fn allowed_cpus() -> Vec<u32> {
    CpuSet::allowed().iter().collect()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LiveDelegate>()?;
    module.add_class::<LiveCommand>()?;
    module.add_class::<IdleWatch>()?;
    module.add_class::<EnergyMeter>()?;
    module.add_function(wrap_pyfunction!(energy_meters, module)?)?;
    module.add_function(wrap_pyfunction!(live_features, module)?)?;
    module.add_function(wrap_pyfunction!(measure, module)?)?;
    module.add_function(wrap_pyfunction!(measure_names, module)?)?;
    module.add_function(wrap_pyfunction!(allowed_cpus, module)?)
}
