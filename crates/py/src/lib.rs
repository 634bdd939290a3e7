//! `halfwink._core`: the study and trace crates for Python. Conversion only, no logic.

mod capping;
mod circuits;
mod library;
mod live;
mod live_circuits;
mod live_preheat;
mod live_router;
mod live_steer;
mod pdn;
mod programs;
mod prototype;
mod resctrl;
mod router;
mod sample;
mod server;
mod storage;
mod switching;
mod trace;
mod traffic;

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
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HalfwinkError", py.get_type::<HalfwinkError>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add("Interrupted", py.get_type::<Interrupted>())?;
    module.add_class::<library::Library>()?;
    module.add_class::<library::PreparedJob>()?;
    module.add_class::<library::RunControl>()?;
    module.add_class::<pdn::Network>()?;
    module.add_class::<router::Router>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<switching::Switching>()?;
    module.add_class::<live_router::LiveRouter>()?;
    module.add_class::<programs::Metrics>()?;
    module.add_function(wrap_pyfunction!(capping::run_capping, module)?)?;
    module.add_class::<live_steer::LiveSteer>()?;
    module.add_function(wrap_pyfunction!(live_router::dataplane_costs, module)?)?;
    module.add_function(wrap_pyfunction!(circuits::circuit_runs, module)?)?;
    module.add_function(wrap_pyfunction!(circuits::circuit_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(storage::storage_runs, module)?)?;
    module.add_function(wrap_pyfunction!(storage::storage_topology, module)?)?;
    module.add_function(wrap_pyfunction!(library::beside, module)?)?;
    module.add_function(wrap_pyfunction!(library::run_together, module)?)?;
    module.add_function(wrap_pyfunction!(library::worlds, module)?)?;
    module.add_function(wrap_pyfunction!(library::experiments, module)?)?;
    module.add_function(wrap_pyfunction!(server::proportionality, module)?)?;
    module.add_function(wrap_pyfunction!(library::techniques, module)?)?;
    module.add_function(wrap_pyfunction!(sample::sample, module)?)?;
    live::register(module)?;
    live_circuits::register(module)?;
    live_preheat::register(module)?;
    prototype::register(module)?;
    resctrl::register(module)?;
    trace::register(module)?;
    traffic::register(module)
}
