//! Live preheating.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use halfwink_live_preheat::client::Dialogue;
use halfwink_live_preheat::harness::{beside, Cold, Harness, Subject};
use halfwink_live_preheat::shared::Shared;
use halfwink_live_preheat::{policy, VARIABLE};
use halfwink_policy::preheat::announce::{encode, Announcement, Key, Mode};
use halfwink_units::Time;
use pyo3::prelude::*;

use crate::convert::to_python;
use crate::{HalfwinkError, RunError};

mod pages;

fn wrong(error: impl std::fmt::Display) -> PyErr {
    HalfwinkError::new_err(error.to_string())
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    RunError::new_err(error.to_string())
}

fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| wrong(format!("{text}: expected ADDRESS:PORT, in numbers")))
}

fn shared(path: &Path) -> Result<Shared, String> {
    Shared::open(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Works with what another thread may hold, while Python's others go on.
fn with<T: Send, R: Send>(
    py: Python<'_>,
    held: &Mutex<T>,
    work: impl FnOnce(&mut T) -> Result<R, String> + Send,
) -> PyResult<R> {
    let work = || work(&mut *held.lock().map_err(|_| "an earlier run failed")?);
    py.detach(work).map_err(failed)
}

fn key(bytes: &[u8]) -> PyResult<Key> {
    let found = bytes.len();
    let key =
        bytes.try_into().map_err(|_| wrong(format!("a key of {found} bytes: expected 16")))?;
    Ok(Key(key))
}

/// Makes the file in which servers report that load the preload library.
#[pyfunction]
fn preheat_share(path: PathBuf, measures: bool) -> PyResult<()> {
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let shared = file.and_then(|file| Shared::create(&file, measures));
    shared.map(drop).map_err(|e| wrong(format!("{}: {e}", path.display())))
}

/// Sends an announcement of a request.
#[pyfunction]
#[pyo3(signature = (to, key, port, *, sequence, lead_us, source=1))]
fn preheat_announce(
    to: &str,
    key: &[u8],
    port: u16,
    sequence: u64,
    lead_us: f64,
    source: u32,
) -> PyResult<()> {
    let lead = Time::ns((lead_us * 1e3) as u64);
    let announcement = Announcement { port, source, sequence, lead, mode: Mode::Announce };
    let bytes = encode(&announcement, &self::key(key)?);
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    socket.send_to(&bytes, address(to)?).map(drop).map_err(failed)
}

/// Two servers by turns, warm and never announced; each an address and a process.
#[pyfunction]
fn preheat_beside<'py>(
    py: Python<'py>,
    shared: PathBuf,
    servers: [(String, u32); 2],
    greeting: Vec<u8>,
    request: Vec<u8>,
    cpus: (u32, u32),
    rounds: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let dialogue = Dialogue { greeting, request };
    let subject = |(to, pid): &(String, u32)| {
        Ok::<_, PyErr>(Subject {
            address: address(to)?,
            dialogue: dialogue.clone(),
            pid: *pid,
            cpus,
        })
    };
    let (here, there) = (subject(&servers[0])?, subject(&servers[1])?);
    let measured = py.detach(|| beside(&here, &there, self::shared(&shared)?, rounds));
    to_python(py, &measured.map_err(failed)?)
}

/// A server with its client, and all that prepares its machine.
#[pyclass(frozen)]
struct PreheatHarness(Mutex<Harness>);

#[pymethods]
impl PreheatHarness {
    #[new]
    fn new(
        py: Python<'_>,
        shared: PathBuf,
        to: &str,
        greeting: Vec<u8>,
        request: Vec<u8>,
        pid: u32,
        cpus: (u32, u32),
    ) -> PyResult<PreheatHarness> {
        let dialogue = Dialogue { greeting, request };
        let subject = Subject { address: address(to)?, dialogue, pid, cpus };
        let open = || Harness::open(subject, self::shared(&shared)?);
        Ok(PreheatHarness(Mutex::new(py.detach(open).map_err(failed)?)))
    }

    /// Finds out which lines a request uses.
    fn learn<'py>(&self, py: Python<'py>, requests: u32) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &with(py, &self.0, |h| h.learn(requests))?)
    }

    /// Has requests announced from now on.
    fn announce(&self, py: Python<'_>) -> PyResult<()> {
        with(py, &self.0, |h| h.announce(policy())).map(drop)
    }

    /// Response times by class.
    fn measure<'py>(
        &self,
        py: Python<'py>,
        cold: &str,
        rounds: usize,
        lead_us: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = Cold::ALL.into_iter().find(|c| c.name() == cold);
        let cold = found.ok_or_else(|| wrong(format!("{cold}: no such kind of cold")))?;
        let measured = with(py, &self.0, |h| {
            h.lead = Duration::from_secs_f64(lead_us / 1e6);
            h.measure(cold, rounds)
        });
        to_python(py, &measured?)
    }

    /// Measures the time from sending an announcement to the first load, in microseconds.
    fn latency<'py>(&self, py: Python<'py>, rounds: usize) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &with(py, &self.0, |h| h.latency(rounds))?)
    }

    /// Measures the nanoseconds per line.
    fn rates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &with(py, &self.0, Harness::rates)?)
    }

    /// Returns the counters of the daemon.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &with(py, &self.0, |h| Ok(h.counts()))?)
    }

    /// Writes the set to a file.
    fn write_set(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        with(py, &self.0, |h| h.write_set(&path)).map(drop)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PREHEAT_VARIABLE", VARIABLE)?;
    module.add("PREHEAT_COLD", Cold::ALL.map(Cold::name).to_vec())?;
    module.add_class::<PreheatHarness>()?;
    pages::register(module)?;
    module.add_function(wrap_pyfunction!(preheat_announce, module)?)?;
    module.add_function(wrap_pyfunction!(preheat_beside, module)?)?;
    module.add_function(wrap_pyfunction!(preheat_share, module)?)
}
