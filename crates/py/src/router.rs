//! Routers.

use halfwink_study as study;
use pyo3::prelude::*;

use crate::convert::{from_json, json, py_error};

/// A router that was read from a description.
#[pyclass(frozen)]
pub(crate) struct Router(pub(crate) study::RouterInfo);

#[pymethods]
impl Router {
    /// Returns the description as a dict.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(self.0.model.spec())?)
    }

    /// Draws the packets of an application and does nothing with them: how many there are.
    fn draw(&self, py: Python<'_>, app: &str, profile: &str, seed: u64) -> PyResult<u64> {
        let profile = study::RouterProfile::parse(profile).map_err(py_error)?;
        py.detach(|| self.0.draw(app, &profile, seed)).map_err(py_error)
    }
}
