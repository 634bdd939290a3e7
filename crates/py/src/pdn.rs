//! Delivery networks.

use halfwink_study as study;
use pyo3::prelude::*;

use crate::convert::{from_json, json, py_error};

/// A delivery network, read.
#[pyclass(frozen)]
pub(crate) struct Network(pub(crate) study::NetworkInfo);

impl Network {
    /// Works without holding the interpreter; the answer as Python's own types.
    fn answer<'py, T: serde::Serialize + Send>(
        &self,
        py: Python<'py>,
        work: impl Fn(&study::NetworkInfo) -> Result<T, study::StudyError> + Send + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = py.detach(|| work(&self.0)).map_err(py_error)?;
        from_json(py, &json(&found)?)
    }
}

#[pymethods]
impl Network {
    /// The description, elements by section.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(self.0.network.spec())?)
    }

    /// All sets of cores up to symmetry.
    fn table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, study::NetworkInfo::table)
    }

    /// Fits of Eq 2.1.
    fn fit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, study::NetworkInfo::fit)
    }

    /// `T0` with elements scaled.
    fn sensitivity<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, study::NetworkInfo::sensitivity)
    }

    /// Worst wake-ups with and without stagger.
    fn stagger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, study::NetworkInfo::stagger)
    }

    /// Named values for targets.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, study::NetworkInfo::facts)
    }

    /// The calibrated elements, fitted again: name and value.
    fn calibrate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, study::NetworkInfo::calibrate)
    }

    /// Returns the transient of a drawn case.
    #[pyo3(signature = (drawing, wake_up_ns=None, stagger_ns=0.0))]
    fn case<'py>(
        &self,
        py: Python<'py>,
        drawing: &str,
        wake_up_ns: Option<f64>,
        stagger_ns: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, |network| network.case(drawing, wake_up_ns, stagger_ns))
    }

    /// Largest droop of each core in a drawn case, as a share of the supply.
    #[pyo3(signature = (drawing, wake_up_ns, stagger_ns=0.0))]
    fn droop(&self, drawing: &str, wake_up_ns: f64, stagger_ns: f64) -> PyResult<Vec<f64>> {
        self.0.droop(drawing, wake_up_ns, stagger_ns).map_err(py_error)
    }

    /// The SPICE deck of a drawn case.
    #[pyo3(signature = (drawing, wake_up_ns=None, stagger_ns=0.0))]
    fn deck(&self, drawing: &str, wake_up_ns: Option<f64>, stagger_ns: f64) -> PyResult<String> {
        self.0.deck(drawing, wake_up_ns, stagger_ns).map_err(py_error)
    }
}
