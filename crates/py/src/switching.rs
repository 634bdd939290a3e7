//! Models of core switching.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::convert::{from_json, json, py_error, table};

/// A model of core switching, read.
#[pyclass(frozen)]
pub(crate) struct Switching(pub(crate) study::SwitchingInfo);

#[pymethods]
impl Switching {
    /// Returns the description as a dict.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(self.0.model.spec())?)
    }

    /// Cost of an empty call that switches twice: a table.
    fn costs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        table(py, &self.0.costs().map_err(py_error)?)
    }

    /// The fitted values, fitted again: a table.
    fn calibrate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        table(py, &py.detach(|| self.0.calibrate()).map_err(py_error)?)
    }
}
