//! Values, tables and errors on their way to Python.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::{HalfwinkError, Interrupted, RunError};

pub(crate) fn py_error(error: study::StudyError) -> PyErr {
    let text = error.to_string();
    match error {
        study::StudyError::Interrupted => Interrupted::new_err(text),
        // The command line ends with another status where the user can mend it.
        e if e.is_usage() => HalfwinkError::new_err(text),
        _ => RunError::new_err(text),
    }
}

/// A value that serializes, as Python's own types.
pub(crate) fn from_json<'py>(
    py: Python<'py>,
    value: &serde_json::Value,
) -> PyResult<Bound<'py, PyAny>> {
    // By Python's own parser, so that the types are those of any other JSON that a user reads.
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

/// Values of a column, as a list.
fn values<'py>(py: Python<'py>, column: &study::Column) -> PyResult<Bound<'py, PyList>> {
    let values = PyList::empty(py);
    for value in &column.values {
        match value {
            study::Value::Text(text) => values.append(text)?,
            study::Value::Integer(n) => values.append(n)?,
            study::Value::Real(n) => values.append(n)?,
            // A column of a data frame has one kind of null, so that the reason is lost here.
            study::Value::Missing(_) => values.append(py.None())?,
        }
    }
    Ok(values)
}

/// A table as a list of (name, kind, values).
pub(crate) fn table<'py>(py: Python<'py>, table: &study::Table) -> PyResult<Bound<'py, PyList>> {
    let columns = PyList::empty(py);
    for column in &table.columns {
        columns.append((column.name, column.kind.name(), values(py, column)?))?;
    }
    Ok(columns)
}

/// Tables by name, each a list of (name, kind, values).
pub(crate) fn tables<'py, 'a>(
    py: Python<'py>,
    named: impl IntoIterator<Item = (&'a str, &'a study::Table)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, content) in named {
        dict.set_item(name, table(py, content)?)?;
    }
    Ok(dict)
}

pub(crate) fn json<T: serde::Serialize>(value: &T) -> PyResult<serde_json::Value> {
    serde_json::to_value(value).map_err(|e| RunError::new_err(e.to_string()))
}
