//! Machines that were measured, and recordings played on them.

use std::path::PathBuf;
use std::sync::Arc;

use halfwink_chip::sample::again;
use halfwink_chip::{Machine, MAX_WINDOW};
use halfwink_engine::Input;
use halfwink_trace::TraceFile;
use pyo3::prelude::*;

use crate::runs::RunControl;
use crate::{HalfwinkError, RunError};

/// Plays a recording on a machine a second time: nanoseconds that it takes, and how many
/// instructions it has.
#[pyfunction]
fn play_again(
    py: Python<'_>,
    control: &RunControl,
    name: &str,
    text: &str,
    trace: PathBuf,
) -> PyResult<(f64, u64)> {
    let machine = Machine::parse(&Input::new(name, text))
        .map_err(|e| HalfwinkError::new_err(e.to_string()))?
        .with_cores(1);
    let control = Arc::clone(&control.0);
    let played = py.detach(|| {
        let file = TraceFile::open(&trace).map_err(|e| e.to_string())?;
        let warm = Arc::new(file.warm().map_err(|e| e.to_string())?);
        let count = file.footer().totals.instructions;
        let sources = [file.stream(), file.stream()];
        again(&machine, sources, &warm, count, &control.run).map_err(|e| e.to_string())
    });
    let found = played.map_err(|e| RunError::new_err(format!("{}: {e}", trace.display())))?;
    Ok((found.time.as_ns(), found.instructions))
}

/// Refuses a machine file of the chip that is none.
#[pyfunction]
fn check_machine(name: &str, text: &str) -> PyResult<()> {
    let read = Machine::parse(&Input::new(name, text));
    read.map(drop).map_err(|e| HalfwinkError::new_err(e.to_string()))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MAX_WINDOW", MAX_WINDOW)?;
    module.add_function(wrap_pyfunction!(play_again, module)?)?;
    module.add_function(wrap_pyfunction!(check_machine, module)?)
}
