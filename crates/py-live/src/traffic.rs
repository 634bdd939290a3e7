//! Test traffic: generator and sink.

use std::path::PathBuf;

use halfwink_testbed::traffic::flows::{Flows, Prefix};
use halfwink_testbed::traffic::frame::TAG;
use halfwink_testbed::traffic::generator::{Load, Options as Sending, Pace, Port, Sent};
use halfwink_testbed::traffic::profile::{read, Profile};
use halfwink_testbed::traffic::running::{generate, watch, Running};
use halfwink_testbed::traffic::schedule::{Schedule, Segment, Spacing};
use halfwink_testbed::traffic::sink::{Options as Watching, Received};
use halfwink_testbed::traffic::Error;
use pyo3::prelude::*;
use serde::Serialize;

use crate::convert::to_python;
use crate::running::wait;
use crate::{HalfwinkError, RunError};

/// Seconds, frames per second at the start and at the end.
type Line = (f64, f64, f64);

fn py_error(error: Error) -> PyErr {
    match error {
        Error::Input(message) => HalfwinkError::new_err(message),
        os @ Error::Os { .. } => RunError::new_err(os.to_string()),
    }
}

fn result<'py, T: Serialize + Send + 'static>(
    py: Python<'py>,
    running: &Running<T>,
) -> PyResult<Bound<'py, PyAny>> {
    let found = running.take().ok_or_else(|| RunError::new_err("no result, or not any more"))?;
    to_python(py, &found.map_err(py_error)?)
}

/// A generator that sends from a thread of its own.
#[pyclass(frozen)]
pub(crate) struct Generator(Running<Sent>);

#[pymethods]
impl Generator {
    /// Begins. `ports` are interfaces with the MAC address of their next hop. Rates are `segments`
    /// of a schedule, or frames leave for `flood_s` seconds as fast as can be, or a `replay` keeps
    /// its own timing, `faster` times as fast.
    #[new]
    #[pyo3(signature = (ports, *, segments=None, flood_s=None, replay=None, repeat=1, faster=1.0,
                        flows=64, sources=vec![], destinations=vec![], sizes="60", burst=1,
                        random_gaps=false, count=None, spin_us=100.0, batch=32, bypass=true,
                        tag=TAG, seed=1, cpu=None, slot_ms=1000))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        ports: Vec<(String, [u8; 6])>,
        segments: Option<Vec<Line>>,
        flood_s: Option<f64>,
        replay: Option<PathBuf>,
        repeat: u32,
        faster: f64,
        flows: usize,
        sources: Vec<String>,
        destinations: Vec<String>,
        sizes: &str,
        burst: u32,
        random_gaps: bool,
        count: Option<u64>,
        spin_us: f64,
        batch: usize,
        bypass: bool,
        tag: u16,
        seed: u64,
        cpu: Option<u32>,
        slot_ms: u64,
    ) -> PyResult<Generator> {
        let pace = match (segments, flood_s) {
            (Some(lines), _) => {
                let spacing = if random_gaps { Spacing::Exponential } else { Spacing::Even };
                let segments = lines.into_iter().map(segment).collect();
                Pace::Schedule(Schedule::new(segments, burst, spacing, seed).map_err(py_error)?)
            }
            (None, Some(seconds)) => Pace::Flood(seconds),
            (None, None) => Pace::Captured(faster),
        };
        let load = match replay {
            Some(path) => Load::Replay(path, repeat),
            None => {
                let (from, to) = (prefixes(&sources)?, prefixes(&destinations)?);
                Load::Flows(Flows { count: flows, from, to }, sizes.parse().map_err(py_error)?)
            }
        };
        let port = |(interface, to_mac)| Port { interface, to_mac };
        let options = Sending {
            ports: ports.into_iter().map(port).collect(),
            load,
            pace,
            count,
            spin_ns: (spin_us * 1e3) as u64,
            batch,
            bypass,
            tag,
            seed,
            cpu,
            slot_ns: slot_ms * 1_000_000,
        };
        Ok(Generator(generate(options)))
    }

    /// Waits until it has ended, for so many seconds at most; whether it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        wait(py, &self.0, seconds)
    }

    /// Asks it to end.
    fn stop(&self) {
        self.0.stop();
    }

    /// Returns what was sent; once, after its end.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        result(py, &self.0)
    }
}

/// A sink that watches from a thread of its own.
#[pyclass(frozen)]
pub(crate) struct Sink(Running<Received>);

#[pymethods]
impl Sink {
    /// Begins to watch: nothing that comes later is missed.
    #[new]
    #[pyo3(signature = (interfaces, *, tag=TAG, seconds=None, count=None, slot_ms=1000,
                        ring_mib=16, cpu=None, capture=None, capture_count=1_000_000))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        interfaces: Vec<String>,
        tag: u16,
        seconds: Option<f64>,
        count: Option<u64>,
        slot_ms: u64,
        ring_mib: usize,
        cpu: Option<u32>,
        capture: Option<PathBuf>,
        capture_count: u64,
    ) -> PyResult<Sink> {
        let options = Watching {
            interfaces,
            tag,
            seconds,
            count,
            slot_ns: slot_ms * 1_000_000,
            ring_mib,
            cpu,
            capture: capture.map(|path| (path, capture_count)),
        };
        py.detach(|| watch(options)).map(Sink).map_err(py_error)
    }

    /// Waits until it has ended, for so many seconds at most; whether it has.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        wait(py, &self.0, seconds)
    }

    /// Asks it to end.
    fn stop(&self) {
        self.0.stop();
    }

    /// Returns what was received; once, after its end.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        result(py, &self.0)
    }
}

fn prefixes(texts: &[String]) -> PyResult<Vec<Prefix>> {
    texts.iter().map(|text| text.parse().map_err(py_error)).collect()
}

fn segment((seconds, from_pps, to_pps): Line) -> Segment {
    Segment { seconds, from_pps, to_pps }
}

fn lines(segments: Vec<Segment>) -> Vec<Line> {
    segments.into_iter().map(|s| (s.seconds, s.from_pps, s.to_pps)).collect()
}

/// Rates of a named profile: `evaluation` or `world-cup`.
#[pyfunction]
#[pyo3(signature = (name, seconds, peak_pps, *, seed=1))]
fn traffic_profile(name: &str, seconds: f64, peak_pps: f64, seed: u64) -> PyResult<Vec<Line>> {
    let profile = match name {
        "evaluation" => Profile::evaluation(60, seed),
        "world-cup" => Profile::world_cup_day(),
        other => {
            return Err(HalfwinkError::new_err(format!(
                "profile {other}: expected evaluation, world-cup or a file"
            )))
        }
    };
    Ok(lines(profile.segments(seconds, peak_pps)))
}

/// Rates from the text of a file, lines `SECONDS,PPS`.
#[pyfunction]
#[pyo3(signature = (text, *, stretch=1.0, scale=1.0))]
fn traffic_rates(text: &str, stretch: f64, scale: f64) -> PyResult<Vec<Line>> {
    read(text, stretch, scale).map(lines).map_err(py_error)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Generator>()?;
    module.add_class::<Sink>()?;
    module.add_function(wrap_pyfunction!(traffic_profile, module)?)?;
    module.add_function(wrap_pyfunction!(traffic_rates, module)?)
}
