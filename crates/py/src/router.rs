//! Routers.

use halfwink_study as study;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::library::{from_json, json, py_error, table, tables};

/// A router that was read from a description.
#[pyclass(frozen)]
pub(crate) struct Router(pub(crate) study::RouterInfo);

/// A pair of tables.
type Pair<'py> = (Bound<'py, PyList>, Bound<'py, PyList>);

#[pymethods]
impl Router {
    /// Returns the description as a dict.
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        from_json(py, &json(self.0.model.spec())?)
    }

    /// Runs all experiments: tables by name, each a dict of lists.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.tables()).map_err(py_error)?;
        tables(py, found.iter().map(|(name, content)| (*name, content)))
    }

    /// Applications under policies over a load profile: runs, and their points.
    fn query<'py>(
        &self,
        py: Python<'py>,
        apps: Vec<String>,
        policies: Vec<String>,
        profile: &str,
        seed: u64,
    ) -> PyResult<Pair<'py>> {
        let profile = study::RouterProfile::parse(profile).map_err(py_error)?;
        let question = study::RouterQuestion { apps, policies, profile, seed };
        let (runs, slots) = py.detach(|| self.0.query(&question)).map_err(py_error)?;
        Ok((table(py, &runs)?, table(py, &slots)?))
    }

    /// Draws the packets of an application and does nothing with them: how many there are.
    fn draw(&self, py: Python<'_>, app: &str, profile: &str, seed: u64) -> PyResult<u64> {
        let profile = study::RouterProfile::parse(profile).map_err(py_error)?;
        let apps = vec![app.to_owned()];
        let question = study::RouterQuestion { apps, profile, seed, ..Default::default() };
        py.detach(|| self.0.draw(&question)).map_err(py_error)
    }
}
