//! `halfwink._core`: the study and trace crates for Python. Conversion only, no logic.

mod calibrated;
mod capping;
mod circuits;
mod convert;
mod idle;
mod inputs;
mod laws;
mod library;
mod lists;
mod pdn;
mod planning;
mod policies;
mod resctrl;
mod router;
mod runs;
mod sample;
mod server;
mod switching;
mod trace;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    halfwink._core,
    HalfwinkError,
    PyException,
    "What the user asked for cannot be; one line."
);
create_exception!(halfwink._core, RunError, PyException, "The work itself failed; one line.");
create_exception!(halfwink._core, Interrupted, PyException, "The run was stopped from outside.");

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    halfwink_study::play_policies_in_files();
    policies::install();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HalfwinkError", py.get_type::<HalfwinkError>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add("Interrupted", py.get_type::<Interrupted>())?;
    module.add_class::<library::Library>()?;
    module.add_class::<runs::PreparedJob>()?;
    module.add_class::<runs::RunControl>()?;
    module.add_class::<pdn::Network>()?;
    module.add_class::<router::Router>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<switching::Switching>()?;
    module.add_function(wrap_pyfunction!(capping::run_capping, module)?)?;
    module.add_function(wrap_pyfunction!(circuits::circuit_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(laws::check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(runs::beside, module)?)?;
    module.add_function(wrap_pyfunction!(runs::run_together, module)?)?;
    module.add_function(wrap_pyfunction!(lists::worlds, module)?)?;
    module.add_function(wrap_pyfunction!(lists::experiments, module)?)?;
    module.add_function(wrap_pyfunction!(server::proportionality, module)?)?;
    module.add_function(wrap_pyfunction!(server::day_load, module)?)?;
    module.add_function(wrap_pyfunction!(lists::techniques, module)?)?;
    module.add_function(wrap_pyfunction!(lists::technique_of_file, module)?)?;
    module.add_function(wrap_pyfunction!(idle::idle, module)?)?;
    module.add_function(wrap_pyfunction!(policies::leave_policies, module)?)?;
    module.add_function(wrap_pyfunction!(sample::sample, module)?)?;
    module.add_function(wrap_pyfunction!(inputs::read_input, module)?)?;
    resctrl::register(module)?;
    trace::register(module)?;
    calibrated::register(module)
}
