//! This machine, measured; programs on it, recorded.

use std::path::PathBuf;
use std::sync::Arc;

use halfwink_chip::sample::again;
use halfwink_chip::{Machine, MAX_WINDOW};
use halfwink_engine::Input;
use halfwink_live_calibrate::sample::Effort;
use halfwink_live_calibrate::RecordFault;
use halfwink_trace::TraceFile;
use pyo3::prelude::*;

use crate::library::{from_json, json, RunControl};
use crate::{HalfwinkError, RunError};

/// All that kernels of machine code say of the core and memory of this machine. `sizes`: of its
/// data caches, smallest first.
#[pyfunction]
#[pyo3(signature = (*, cpu=None, quick=false, max_spread_pct=None, sizes=Vec::new()))]
fn calibrate_host<'py>(
    py: Python<'py>,
    cpu: Option<usize>,
    quick: bool,
    max_spread_pct: Option<f64>,
    sizes: Vec<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut effort = if quick { Effort::QUICK } else { Effort::FULL };
    effort.max_spread_pct = max_spread_pct.unwrap_or(effort.max_spread_pct);
    let found = py.detach(|| halfwink_live_calibrate::measure(effort, cpu, &sizes));
    from_json(py, &json(&found.map_err(|fault| RunError::new_err(fault.to_string()))?)?)
}

/// Records what a command executes between its marks, and tells how much that is.
#[pyfunction]
fn record_program<'py>(
    py: Python<'py>,
    workload: &str,
    command: Vec<String>,
    out: PathBuf,
    most: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let found = py.detach(|| halfwink_live_calibrate::record(workload, &command, &out, most));
    let told = |fault: RecordFault| RunError::new_err(fault.to_string());
    from_json(py, &json(&found.map_err(told)?)?)
}

/// Makes the branch predictor of the CPU that this runs on forget what it has learnt.
#[pyfunction]
fn forget_branches(py: Python<'_>) -> PyResult<()> {
    let done = py.detach(halfwink_live_calibrate::forget_branches);
    done.map_err(|fault| RunError::new_err(fault.to_string()))
}

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
    module.add_function(wrap_pyfunction!(calibrate_host, module)?)?;
    module.add_function(wrap_pyfunction!(record_program, module)?)?;
    module.add_function(wrap_pyfunction!(forget_branches, module)?)?;
    module.add_function(wrap_pyfunction!(play_again, module)?)?;
    module.add_function(wrap_pyfunction!(check_machine, module)?)
}
