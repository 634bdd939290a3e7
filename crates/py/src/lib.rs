//! `halfwink._core`: the study and trace crates for Python. Conversion only, no logic.

mod capping;
mod forward;
mod library;
mod live;
mod pdn;
mod prototype;
mod router;
mod server;
mod steer;
mod switching;
mod trace;
mod traffic;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    _core,
    HalfwinkError,
    PyException,
    "What the user asked for cannot be; one line."
);
create_exception!(_core, RunError, PyException, "The work itself failed; one line.");
create_exception!(_core, Interrupted, PyException, "The run was stopped from outside.");

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
    module.add_class::<router::PreparedRouterJob>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<switching::Switching>()?;
    module.add_class::<forward::LiveRouter>()?;
    module.add_function(wrap_pyfunction!(capping::run_capping, module)?)?;
    module.add_class::<steer::LiveSteer>()?;
    module.add_function(wrap_pyfunction!(steer::replay_steer, module)?)?;
    module.add_function(wrap_pyfunction!(forward::replay_router, module)?)?;
    module.add_function(wrap_pyfunction!(forward::dataplane_costs, module)?)?;
    module.add_function(wrap_pyfunction!(router::router_policies, module)?)?;
    module.add_function(wrap_pyfunction!(server::server_policies, module)?)?;
    module.add_function(wrap_pyfunction!(server::proportionality, module)?)?;
    module.add_function(wrap_pyfunction!(library::techniques, module)?)?;
    live::register(module)?;
    prototype::register(module)?;
    trace::register(module)?;
    traffic::register(module)
}
