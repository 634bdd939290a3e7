//! What completing I/Os on other CPUs costs here.

use halfwink_live_block::advise::measure;
use halfwink_live_block::topology::Machine;
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::{HalfwinkError, RunError};

/// Measures what it costs to have another CPU complete, between CPUs of a list as the kernel writes
/// it (all that are allowed without one).
#[pyfunction]
pub(crate) fn block_costs<'py>(
    py: Python<'py>,
    cpus: Option<String>,
) -> PyResult<Bound<'py, PyAny>> {
    let machine = Machine::serving(cpus.as_deref());
    let machine = machine.map_err(|why| HalfwinkError::new_err(format!("--cpus: {why}")))?;
    let measured = py.detach(|| measure(&machine)).map_err(RunError::new_err)?;
    to_python(py, &measured)
}
