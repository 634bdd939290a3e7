//! The prototype: data set, pools of workers, loads.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use halfwink_testbed::prototype::dataset::{self, Dataset, Options as Values};
use halfwink_testbed::prototype::load::{self, Options as Loading, Outcome, Pace, What};
use halfwink_testbed::prototype::pareto::BoundedPareto;
use halfwink_testbed::prototype::server::{Options as Serving, Server, SlowBy};
use halfwink_testbed::prototype::Error;
use halfwink_testbed::traffic::running::Running;
use halfwink_testbed::traffic::schedule::{Schedule, Segment, Spacing};
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::running::wait;
use crate::{HalfwinkError, RunError};

/// `at_s`, bytes, `latency_s`, `service_s`, status, backend of requests.
type Columns = (Vec<f64>, Vec<u64>, Vec<f64>, Vec<f64>, Vec<u16>, Vec<Option<String>>);

fn py_error(error: Error) -> PyErr {
    match error {
        Error::Input(message) => HalfwinkError::new_err(message),
        os @ Error::Os { .. } => RunError::new_err(os.to_string()),
    }
}

fn taken<T: Send + 'static>(running: &Running<T, Error>) -> PyResult<T> {
    let found = running.take().ok_or_else(|| RunError::new_err("no result, or not any more"))?;
    found.map_err(py_error)
}

/// A data set that is being written.
#[pyclass(frozen)]
pub(crate) struct DatasetWriter {
    running: Running<Dataset, Error>,
    written: Arc<AtomicUsize>,
}

#[pymethods]
impl DatasetWriter {
    /// Begins writing a data set.
    #[new]
    #[pyo3(signature = (folder, *, files, min_bytes, max_bytes, mean_bytes, seed, threads))]
    fn new(
        folder: PathBuf,
        files: usize,
        min_bytes: u64,
        max_bytes: u64,
        mean_bytes: f64,
        seed: u64,
        threads: usize,
    ) -> DatasetWriter {
        let options = Values { files, min_bytes, max_bytes, mean_bytes, seed };
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        let running =
            Running::begin(move |stop| dataset::write(&folder, options, threads, &count, stop));
        DatasetWriter { running, written }
    }

    /// Files that are written.
    #[getter]
    fn written(&self) -> usize {
        // For display alone: it orders nothing.
        self.written.load(Ordering::Relaxed)
    }

    /// Waits until it has ended, for `seconds` at most, and returns whether it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        wait(py, &self.running, seconds)
    }

    /// Asks it to end.
    fn stop(&self) {
        self.running.stop();
    }

    /// Returns what was written; once, after its end.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &taken(&self.running)?)
    }
}

/// Reads a data set again: what it is, if it is what it says.
#[pyfunction]
fn dataset_check(py: Python<'_>, folder: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    // Ten gigabytes take a minute, in which other threads of Python go on.
    let found = py.detach(|| dataset::check(&folder)).map_err(py_error)?;
    to_python(py, &found)
}

/// Shape, and the sizes at these shares of all, of the bounded Pareto distribution with a mean.
#[pyfunction]
fn bounded_pareto(
    min_bytes: f64,
    max_bytes: f64,
    mean_bytes: f64,
    shares: Vec<f64>,
) -> PyResult<(f64, Vec<f64>)> {
    let law = BoundedPareto::of_mean(min_bytes, max_bytes, mean_bytes).map_err(py_error)?;
    Ok((law.shape(), shares.into_iter().map(|share| law.quantile(share)).collect()))
}

/// A pool of workers behind HTTP/1.1.
#[pyclass(frozen)]
pub(crate) struct WorkerPool(Server);

#[pymethods]
impl WorkerPool {
    /// Begins to serve: when it is made, connections are taken.
    #[new]
    #[pyo3(signature = (folder, *, name, listen, workers, cpus, slow, slow_by, repeat, quota))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        name: String,
        listen: String,
        workers: usize,
        cpus: Vec<u32>,
        slow: f64,
        slow_by: &str,
        repeat: u32,
        quota: Option<f64>,
    ) -> PyResult<WorkerPool> {
        let slow_by = match slow_by {
            "wait" => SlowBy::Wait,
            "spin" => SlowBy::Spin,
            other => {
                return Err(HalfwinkError::new_err(format!(
                    "slow by {other}: expected wait or spin"
                )))
            }
        };
        let options = Serving { name, listen, folder, workers, cpus, slow, slow_by, repeat, quota };
        py.detach(|| Server::start(options)).map(WorkerPool).map_err(py_error)
    }

    /// Returns the address that it listens on.
    #[getter]
    fn address(&self) -> &str {
        self.0.address()
    }

    /// Returns whether all workers are alive.
    #[getter]
    fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Returns the report up to now.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &py.detach(|| self.0.report()))
    }

    /// Ends it: requests in service are answered first.
    fn stop(&self, py: Python<'_>) {
        // It waits for requests in service, whose clients may be threads of this interpreter.
        py.detach(|| self.0.stop());
    }
}

/// A load that is being sent from a thread of its own.
#[pyclass(frozen)]
pub(crate) struct Load {
    running: Running<Outcome, Error>,
    outcome: Mutex<Option<Outcome>>,
}

#[pymethods]
impl Load {
    /// Begins. Exactly one of `segments` (seconds, requests per second at the start and at the
    /// end), `times` (seconds) and `clients` is needed.
    #[new]
    #[pyo3(signature = (url, *, segments=None, random=true, times=None, clients=None,
                        seconds=10.0, requests=None, workload=None, files=None, path=None,
                        connections=256, http2=false, timeout_s=10.0, warm_up_s=0.0,
                        backend_header="x-backend", seed=1, keep=false,
                        spin_us=0.0))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        url: String,
        segments: Option<Vec<(f64, f64, f64)>>,
        random: bool,
        times: Option<Vec<f64>>,
        clients: Option<usize>,
        seconds: f64,
        requests: Option<u64>,
        workload: Option<&str>,
        files: Option<usize>,
        path: Option<String>,
        connections: usize,
        http2: bool,
        timeout_s: f64,
        warm_up_s: f64,
        backend_header: &str,
        seed: u64,
        keep: bool,
        spin_us: f64,
    ) -> PyResult<Load> {
        let what = match (workload, path) {
            (_, Some(path)) => What::Path(path),
            (name, None) => {
                What::Workload(name.unwrap_or("count").parse().map_err(py_error)?, files)
            }
        };
        let pace = match (segments, times, clients) {
            (Some(lines), None, None) => {
                let spacing = if random { Spacing::Exponential } else { Spacing::Even };
                let segments = lines.into_iter().map(segment).collect();
                // Requests come one by one; only frames come in bursts.
                let made = Schedule::new(segments, 1, spacing, seed);
                Pace::Schedule(made.map_err(|e| py_error(e.into()))?)
            }
            (None, Some(times), None) => Pace::Times(nanoseconds(&times)?),
            (None, None, Some(clients)) => Pace::Closed(clients, seconds),
            _ => return Err(HalfwinkError::new_err("expected rates, times or clients")),
        };
        let running = load::begin(Loading {
            url,
            what,
            pace,
            requests,
            connections,
            http2,
            timeout_s,
            warm_up_s,
            backend_header: backend_header.to_owned(),
            seed,
            keep,
            spin_ns: (spin_us * 1e3) as u64,
        });
        Ok(Load { running, outcome: Mutex::default() })
    }

    /// Waits until it has ended, for `seconds` at most, and returns whether it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        wait(py, &self.running, seconds)
    }

    /// Asks it to end.
    fn stop(&self) {
        self.running.stop();
    }

    /// Returns the results; after its end.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.with_outcome(|outcome| to_python(py, &outcome.found))
    }

    /// Every request as columns, if they were to be kept: `at_s`, bytes, `latency_s`, `service_s`,
    /// status, backend.
    fn records(&self) -> PyResult<Columns> {
        self.with_outcome(|outcome| {
            let all = &outcome.records;
            let seconds = |ns: u64| ns as f64 / 1e9;
            let name = |n: u16| outcome.names[usize::from(n)].clone();
            Ok((
                all.iter().map(|r| seconds(r.at_ns)).collect(),
                all.iter().map(|r| r.bytes).collect(),
                all.iter().map(|r| seconds(r.latency_ns)).collect(),
                all.iter().map(|r| seconds(r.service_ns)).collect(),
                all.iter().map(|r| r.status).collect(),
                all.iter().map(|r| r.backend.map(name)).collect(),
            ))
        })
    }

    /// Writes every request to a file, if they were to be kept.
    fn write_csv(&self, path: PathBuf) -> PyResult<()> {
        self.with_outcome(|outcome| {
            let written = File::create(&path).and_then(|f| outcome.write_csv(BufWriter::new(f)));
            written.map_err(|e| RunError::new_err(format!("{}: {e}", path.display())))
        })
    }
}

impl Load {
    fn with_outcome<T>(&self, f: impl FnOnce(&Outcome) -> PyResult<T>) -> PyResult<T> {
        // A run gives its outcome once, but results, columns and files are all made of it.
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if outcome.is_none() {
            *outcome = Some(taken(&self.running)?);
        }
        outcome.as_ref().map_or_else(|| Err(RunError::new_err("no result")), f)
    }
}

fn segment((seconds, from_pps, to_pps): (f64, f64, f64)) -> Segment {
    Segment { seconds, from_pps, to_pps }
}

/// Times in seconds, ascending, as nanoseconds.
fn nanoseconds(times: &[f64]) -> PyResult<Vec<u64>> {
    let wrong = |n: usize| {
        let message = format!("arrival {}: {}: expected seconds, ascending", n + 1, times[n]);
        HalfwinkError::new_err(message)
    };
    let mut last = 0.0;
    let mut made = Vec::with_capacity(times.len());
    for (n, &time) in times.iter().enumerate() {
        // NaN is in no range, and 10^9 s are far from the end of 64 bits of nanoseconds.
        if !(last..=1e9).contains(&time) {
            return Err(wrong(n));
        }
        last = time;
        made.push((time * 1e9).round() as u64);
    }
    Ok(made)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DatasetWriter>()?;
    module.add_class::<WorkerPool>()?;
    module.add_class::<Load>()?;
    module.add_function(wrap_pyfunction!(dataset_check, module)?)?;
    module.add_function(wrap_pyfunction!(bounded_pareto, module)?)
}
