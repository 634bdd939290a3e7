//! Files that a user hands over.

use std::path::PathBuf;

use halfwink_inputs::{open_input, Budget, Opened};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::HalfwinkError;

/// All of a file, unpacked, of so many bytes at most; as UTF-8 without a mark if it is text.
#[pyfunction]
pub(crate) fn read_input<'py>(
    py: Python<'py>,
    path: PathBuf,
    most: u64,
    text: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let read = || {
        let opened = open_input(&path, &Budget::new(most))?;
        if text {
            opened.text()?.bytes()
        } else {
            Opened::bytes(opened)
        }
    };
    let bytes = py.detach(read).map_err(|error| HalfwinkError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &bytes))
}
