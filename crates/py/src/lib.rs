//! `halfwink._core`: the study and trace crates for Python. Conversion only, no logic.

mod capping;
mod circuits;
mod idle;
mod inputs;
mod library;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod live_calibrate;
#[cfg(feature = "live")]
mod live_circuits;
#[cfg(feature = "live")]
mod live_preheat;
#[cfg(feature = "live")]
mod live_router;
#[cfg(feature = "live")]
mod live_steer;
mod pdn;
mod planning;
#[cfg(feature = "live")]
mod programs;
#[cfg(feature = "live")]
mod prototype;
mod resctrl;
mod router;
mod sample;
mod server;
mod switching;
mod trace;
#[cfg(feature = "live")]
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
    module.add_function(wrap_pyfunction!(capping::run_capping, module)?)?;
    module.add_function(wrap_pyfunction!(circuits::circuit_schedule, module)?)?;
    module.add_function(wrap_pyfunction!(library::beside, module)?)?;
    module.add_function(wrap_pyfunction!(library::run_together, module)?)?;
    module.add_function(wrap_pyfunction!(library::worlds, module)?)?;
    module.add_function(wrap_pyfunction!(library::experiments, module)?)?;
    module.add_function(wrap_pyfunction!(server::proportionality, module)?)?;
    module.add_function(wrap_pyfunction!(server::day_load, module)?)?;
    module.add_function(wrap_pyfunction!(library::techniques, module)?)?;
    module.add_function(wrap_pyfunction!(idle::idle, module)?)?;
    module.add_function(wrap_pyfunction!(sample::sample, module)?)?;
    module.add_function(wrap_pyfunction!(inputs::read_input, module)?)?;
    resctrl::register(module)?;
    trace::register(module)?;
    live_parts(module)
}

#[cfg(feature = "live")]
fn live_parts(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LIVE", true)?;
    module.add_class::<live_router::LiveRouter>()?;
    module.add_class::<programs::Metrics>()?;
    module.add_class::<live_steer::LiveSteer>()?;
    module.add_function(wrap_pyfunction!(live_router::dataplane_costs, module)?)?;
    live::register(module)?;
    live_calibrate::register(module)?;
    live_circuits::register(module)?;
    live_preheat::register(module)?;
    prototype::register(module)?;
    traffic::register(module)
}

/// Says what is missing when it is asked for, as its absence would be a traceback.
#[cfg(not(feature = "live"))]
fn live_parts(module: &Bound<'_, PyModule>) -> PyResult<()> {
    #[pyfunction]
    fn __getattr__(name: &str) -> PyResult<()> {
        if name.starts_with('_') {
            return Err(pyo3::exceptions::PyAttributeError::new_err(name.to_owned()));
        }
        Err(HalfwinkError::new_err(format!(
            "this build of halfwink has no live parts ({name}); build it with the feature `live`"
        )))
    }
    module.add("LIVE", false)?;
    module.add_function(wrap_pyfunction!(__getattr__, module)?)
}
