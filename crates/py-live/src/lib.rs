//! `halfwink._live`: live programs, instruments and test beds for Python. It converts and has no
//! logic.

mod block;
mod calibrate;
mod circuits;
mod convert;
mod delegate;
mod preheat;
mod programs;
mod prototype;
mod router;
mod running;
mod steer;
mod traffic;

use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(halfwink._core, HalfwinkError);
import_exception!(halfwink._core, RunError);

#[pymodule]
fn _live(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<router::LiveRouter>()?;
    module.add_class::<programs::Metrics>()?;
    module.add_class::<steer::LiveSteer>()?;
    module.add_function(wrap_pyfunction!(block::block_costs, module)?)?;
    module.add_function(wrap_pyfunction!(router::dataplane_costs, module)?)?;
    module.add_function(wrap_pyfunction!(programs::play_modules, module)?)?;
    calibrate::register(module)?;
    circuits::register(module)?;
    delegate::register(module)?;
    preheat::register(module)?;
    prototype::register(module)?;
    traffic::register(module)
}
