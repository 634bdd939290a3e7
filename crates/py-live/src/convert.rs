//! Values on their way to Python.

use pyo3::prelude::*;

use crate::RunError;

/// A value that serializes, as Python's own types.
pub(crate) fn to_python<'py, T: serde::Serialize>(
    py: Python<'py>,
    value: &T,
) -> PyResult<Bound<'py, PyAny>> {
    let value = serde_json::to_value(value).map_err(|e| RunError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (value.to_string(),))
}
