//! Pages of servers that stood still.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use halfwink_live_preheat::client::Dialogue;
use halfwink_live_preheat::harness::Subject;
use halfwink_live_preheat::pages::{Kind, Twin};
use pyo3::prelude::*;

use super::{address, failed, with, wrong};
use crate::convert::to_python;

/// A server whose pages are dropped and put back, with its client.
#[pyclass(frozen)]
pub struct PreheatPages(Mutex<Twin>);

#[pymethods]
impl PreheatPages {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn new(
        py: Python<'_>,
        shared: PathBuf,
        to: &str,
        greeting: Vec<u8>,
        request: Vec<u8>,
        pid: u32,
        cpus: (u32, u32),
        folder: PathBuf,
    ) -> PyResult<PreheatPages> {
        let dialogue = Dialogue { greeting, request };
        let subject = Subject { address: address(to)?, dialogue, pid, cpus };
        let open = || Twin::open(subject, super::shared(&shared)?, &folder);
        Ok(PreheatPages(Mutex::new(py.detach(open).map_err(failed)?)))
    }

    /// Drops all pages and has a request recorded.
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &with(py, &self.0, Twin::record)?)
    }

    /// Response times by class.
    fn measure<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        rounds: usize,
        lead_us: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = Kind::ALL.into_iter().find(|k| k.name() == kind);
        let kind = found.ok_or_else(|| wrong(format!("{kind}: no such kind of drop")))?;
        let measured = with(py, &self.0, |twin| {
            twin.lead = Duration::from_secs_f64(lead_us / 1e6);
            twin.measure(kind, rounds)
        });
        to_python(py, &measured?)
    }

    /// Loads that policies asked for.
    fn loads(&self, py: Python<'_>) -> PyResult<u64> {
        with(py, &self.0, |twin| Ok(twin.loads()))
    }

    /// Writes the set of pages.
    fn write_set(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        with(py, &self.0, |twin| twin.write_set(&path)).map(drop)
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PREHEAT_DROPS", Kind::ALL.map(Kind::name).to_vec())?;
    module.add_class::<PreheatPages>()
}
