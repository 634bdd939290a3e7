//! Live circuits: a switch, or a host, of network namespaces.

use std::path::PathBuf;
use std::sync::Mutex;

use halfwink_eventlog::{Family, Header, Live};
use halfwink_live::program::config::plain;
use halfwink_live_circuits as live;
use halfwink_techniques::circuits::{LiveFabric, LIVE_CIRCUITS};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::convert::to_python;
use crate::{HalfwinkError, RunError};

/// Lines of a log that may wait to be written.
const ROOM: usize = 1 << 16;
/// The described fabric whose values are made a live one's, to replay its log.
const MACHINE: &str = "mordia";
/// The simulated world's name of the load that keeps all queues full.
const WORKLOAD: &str = "all-to-all";

fn wrong(error: impl std::fmt::Display) -> PyErr {
    HalfwinkError::new_err(error.to_string())
}

/// Messages on the state of the event log's file.
fn say(text: &str) {
    eprintln!("halfwink: {}", plain(text));
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    RunError::new_err(error.to_string())
}

fn read<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(wrong)
}

fn fabric((hosts, slot_us, night_us, gbps): (u16, f64, f64, f64)) -> LiveFabric {
    LiveFabric { hosts, slot_us, night_us, gbps }
}

/// Checks a schedule by name, without touching an interface; what it is called in full.
/// `fabric`: hosts, microseconds of a slot and a night, gigabits per second.
#[pyfunction]
fn circuits_check(technique: &str, fabric: (u16, f64, f64, f64)) -> PyResult<String> {
    self::fabric(fabric).schedule(technique).map(|(_, technique)| technique).map_err(wrong)
}

/// Returns the values to set in the described fabric to match a live one.
#[pyfunction]
fn circuits_values(fabric: (u16, f64, f64, f64)) -> Vec<(String, String)> {
    self::fabric(fabric).values()
}

/// An emulated circuit switch at work.
#[pyclass(frozen)]
struct CircuitSwitch {
    switch: Mutex<live::Switch>,
    log: Mutex<Option<Live>>,
}

#[pymethods]
impl CircuitSwitch {
    /// Opens the wires of a description (JSON) and starts; `log`: a file for its policy's events.
    #[new]
    #[pyo3(signature = (technique, fabric, config, *, log=None))]
    fn new(
        technique: &str,
        fabric: (u16, f64, f64, f64),
        config: &str,
        log: Option<PathBuf>,
    ) -> PyResult<CircuitSwitch> {
        let fabric = self::fabric(fabric);
        let (policy, technique) = fabric.schedule(technique).map_err(wrong)?;
        let values = fabric.values();
        let header = Header::new(LIVE_CIRCUITS, Family::Circuits, &technique)
            .on(MACHINE, WORKLOAD)
            .with(values.iter().map(|(path, value)| (path.as_str(), value.as_str())));
        let begun = log.map(|path| Live::create(&path, &header, ROOM, say)).transpose();
        let (log, tap) = begun.map_err(wrong)?.unzip();
        let switch = live::Switch::start(read(config)?, policy, tap).map_err(failed)?;
        Ok(CircuitSwitch { switch: Mutex::new(switch), log: Mutex::new(log) })
    }

    /// Returns the counters, and sets them to zero if requested.
    fn report<'py>(&self, py: Python<'py>, from_zero: bool) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.switch.lock().map_err(failed)?.report(from_zero))
    }

    /// Returns whether it is running.
    fn is_running(&self) -> PyResult<bool> {
        Ok(self.switch.lock().map_err(failed)?.is_running())
    }

    /// Ends it, and its log.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let stop = || {
            self.switch.lock().map_err(|e| e.to_string())?.stop()?;
            let log = self.log.lock().map_err(|e| e.to_string())?.take();
            log.map_or(Ok(()), |log| log.end().map(drop).map_err(|e| e.to_string()))
        };
        py.detach(stop).map_err(failed)
    }
}

/// A host's shaper at work.
#[pyclass(frozen)]
struct CircuitHost(Mutex<live::Shaper>);

#[pymethods]
impl CircuitHost {
    /// Opens device and wire of a description (JSON) and starts.
    #[new]
    fn new(config: &str) -> PyResult<CircuitHost> {
        let started = live::Shaper::start(&read(config)?).map_err(failed)?;
        Ok(CircuitHost(Mutex::new(started)))
    }

    /// Returns the counters, and sets them to zero if requested.
    fn report<'py>(&self, py: Python<'py>, from_zero: bool) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.lock().map_err(failed)?.report(from_zero))
    }

    /// Returns whether it is running.
    fn is_running(&self) -> PyResult<bool> {
        Ok(self.0.lock().map_err(failed)?.is_running())
    }

    /// Stops the host and its threads.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let stop = || self.0.lock().map_err(|e| e.to_string())?.stop();
        py.detach(stop).map_err(failed)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CircuitSwitch>()?;
    module.add_class::<CircuitHost>()?;
    module.add_function(wrap_pyfunction!(circuits_check, module)?)?;
    module.add_function(wrap_pyfunction!(circuits_values, module)?)
}
