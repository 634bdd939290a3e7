//! The live programs and instruments.

use std::path::PathBuf;

use halfwink_live::clock::Rate;
use halfwink_live::idle::{Mechanism, Watch};
use halfwink_live::probe;
use halfwink_live::program::rapl;
use halfwink_live::sys::CpuSet;
use halfwink_live_delegate::measure::{names, Bench, Limits};
use halfwink_live_delegate::report::Run;
use halfwink_live_delegate::shared::Options;
use halfwink_live_delegate::VARIABLE;
use halfwink_policy::offload::{DelegationKind, DelegationParameters};
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::{HalfwinkError, RunError};

/// A run of `halfwink live delegate`: the file that the preloaded library counts into.
#[pyclass(frozen)]
pub(crate) struct DelegateRun(Run);

#[pymethods]
impl DelegateRun {
    /// Makes the file. Times are in nanoseconds; without `n_ns` the controller finds it.
    #[new]
    #[pyo3(signature = (path, policy, os_cpu, *, n_ns=None, least_bytes=4096, time_every=64,
                        worker_spin_ns=100_000, caller_spin_ns=50_000, log_records=0))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        policy: &str,
        os_cpu: u32,
        n_ns: Option<u64>,
        least_bytes: u64,
        time_every: u32,
        worker_spin_ns: u64,
        caller_spin_ns: u64,
        log_records: u64,
    ) -> PyResult<DelegateRun> {
        let policy = DelegationParameters { kind: kind(policy)?, n_ns, least_bytes };
        let begin = || {
            let rate = Rate::measure();
            let options = Options {
                policy,
                os_cpu,
                time_every,
                worker_spin_ns,
                caller_spin_ns,
                rate,
                log_records,
            };
            Run::begin(&path, options)
        };
        let run = py.detach(begin);
        run.map(DelegateRun).map_err(|e| RunError::new_err(format!("{}: {e}", path.display())))
    }

    /// Returns the counters up to now.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.report())
    }

    /// Writes the event log, once the program has ended.
    fn write_log(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| self.0.write_log(&path));
        written.map(drop).map_err(|e| RunError::new_err(e.to_string()))
    }
}

fn kind(policy: &str) -> PyResult<DelegationKind> {
    let names: Vec<&str> = DelegationKind::NAMES.iter().map(|(name, _)| *name).collect();
    let found = DelegationKind::NAMES.into_iter().find(|(name, _)| *name == policy);
    found.map(|(_, kind)| kind).ok_or_else(|| {
        HalfwinkError::new_err(format!("--policy {policy}: expected one of {}", names.join(", ")))
    })
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

/// The calling process is killed when its parent dies.
#[pyfunction]
fn die_with_parent() {
    halfwink_live::sys::die_with_parent();
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DELEGATE_VARIABLE", VARIABLE)?;
    module.add_class::<DelegateRun>()?;
    module.add_class::<IdleWatch>()?;
    module.add_class::<EnergyMeter>()?;
    module.add_function(wrap_pyfunction!(die_with_parent, module)?)?;
    module.add_function(wrap_pyfunction!(energy_meters, module)?)?;
    module.add_function(wrap_pyfunction!(live_features, module)?)?;
    module.add_function(wrap_pyfunction!(measure, module)?)?;
    module.add_function(wrap_pyfunction!(measure_names, module)?)?;
    module.add_function(wrap_pyfunction!(allowed_cpus, module)?)
}
