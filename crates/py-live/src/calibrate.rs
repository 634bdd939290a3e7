//! This machine, measured; programs on it, recorded.

use std::path::PathBuf;

use halfwink_live_calibrate::sample::Effort;
use halfwink_live_calibrate::RecordFault;
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::RunError;

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
    to_python(py, &found.map_err(|fault| RunError::new_err(fault.to_string()))?)
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
    to_python(py, &found.map_err(told)?)
}

/// Makes the branch predictor of the CPU that this runs on forget what it has learnt.
#[pyfunction]
fn forget_branches(py: Python<'_>) -> PyResult<()> {
    let done = py.detach(halfwink_live_calibrate::forget_branches);
    done.map_err(|fault| RunError::new_err(fault.to_string()))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(calibrate_host, module)?)?;
    module.add_function(wrap_pyfunction!(record_program, module)?)?;
    module.add_function(wrap_pyfunction!(forget_branches, module)?)
}
