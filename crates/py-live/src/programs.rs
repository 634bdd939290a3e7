//! What live programs share on their way to Python.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use halfwink_daemon::{http, modules, Error, Program};
use halfwink_policy_module::{SCALING, STEERING};
use pyo3::prelude::*;

use crate::{HalfwinkError, RunError};

pub(crate) fn daemon_error(error: Error) -> PyErr {
    match error {
        Error::Input(text) => HalfwinkError::new_err(text),
        Error::Run(text) => RunError::new_err(text),
    }
}

/// Lets programs here play policies that are modules, by the interpreter at this path.
#[pyfunction]
pub(crate) fn play_modules(interpreter: PathBuf) {
    modules::install(&[SCALING, STEERING], Some(interpreter));
}

/// A page of metrics, served until it is closed.
#[pyclass(frozen)]
pub(crate) struct Metrics {
    server: Mutex<Option<http::Metrics>>,
    address: String,
}

impl Metrics {
    pub(crate) fn serve(address: &str, program: Arc<dyn Program>) -> PyResult<Metrics> {
        let server = http::Metrics::serve(address, move || program.metrics());
        let server = server.map_err(daemon_error)?;
        let address = server.address().to_string();
        Ok(Metrics { server: Mutex::new(Some(server)), address })
    }
}

#[pymethods]
impl Metrics {
    /// Returns its address: `HOST:PORT`.
    #[getter]
    fn address(&self) -> String {
        self.address.clone()
    }

    /// Stops the server of this page.
    fn close(&self, py: Python<'_>) {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(server));
    }
}
