//! Live circuits: names of schedules.

use halfwink_techniques::circuits::LiveFabric;
use pyo3::prelude::*;

use crate::HalfwinkError;

/// Checks a schedule by name, without touching an interface; what it is called in full.
/// `fabric`: hosts, microseconds of a slot and a night, gigabits per second.
#[pyfunction]
fn circuits_check(technique: &str, fabric: (u16, f64, f64, f64)) -> PyResult<String> {
    let (hosts, slot_us, night_us, gbps) = fabric;
    let found = LiveFabric { hosts, slot_us, night_us, gbps }.schedule(technique);
    found.map(|(_, technique)| technique).map_err(|e| HalfwinkError::new_err(e.to_string()))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(circuits_check, module)?)
}
