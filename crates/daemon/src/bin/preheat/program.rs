//! The live preheating daemon with its policy.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use halfwink_daemon::log::{Log, Told};
use halfwink_daemon::shown::json;
use halfwink_daemon::{Error, Library, Program};
use halfwink_eventlog::{Family, Header};
use halfwink_live::program::config::{changes, read_as, refuse, Read};
use halfwink_live::program::rapl::{Measured, Meter};
use halfwink_live::sys::CpuSet;
use halfwink_live_preheat::config::{Config, FIXED};
use halfwink_live_preheat::daemon::{Awake, Counts, Daemon, Hosted, Syn, Triggers};
use halfwink_live_preheat::kernel::Image;
use halfwink_live_preheat::load::Loader;
use halfwink_live_preheat::set::{self, Lines};
use halfwink_live_preheat::shared::Shared;
use halfwink_live_preheat::{bpf, policy, TECHNIQUE};
use halfwink_policy::preheat::announce::{Key, Receiver, ReceiverParameters};
use serde::Serialize;
use serde_json::Value;

use crate::metrics;

/// A preheating daemon at work. Dropping it stops it.
pub(crate) struct Preheat {
    address: SocketAddr,
    daemon: Mutex<Daemon>,
    config: Mutex<Config>,
    begun: Instant,
    log: Log,
    meter: Meter,
}

/// Report of a preheating daemon.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Measured part of the report.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Since its start, in seconds.
    pub(crate) duration_s: f64,
    /// State of the event log.
    #[serde(flatten)]
    pub(crate) log: Told,
    /// Joules and watts of this machine, with all that runs on it, by meters that it has.
    pub(crate) measured: Measured,
}

/// A description with the files that it names.
struct Described {
    config: Config,
    image: Image,
    lines: Lines,
    key: Key,
}

fn described(path: &Path) -> Result<Described, Error> {
    let Read { config, input } = read_as(path, Config::parse).map_err(Error::input)?;
    let secret = &config.key;
    let wrong = |why| Error::at(&input, "key", format!("{}: {why}", secret.display()));
    let key = std::fs::read(secret).map_err(|e| wrong(e.to_string()))?;
    let found = key.len();
    let key = key.try_into().map_err(|_| wrong(format!("a key of {found} bytes: expected 16")))?;
    let image = Image::running().map_err(Error::Input)?;
    let lines = set::read(&config.set, &image).map_err(|e| Error::at(&input, "set", e))?;
    Ok(Described { config, image, lines, key: Key(key) })
}

/// Checks a description, its set of lines and its key, without loading a line.
///
/// # Errors
/// The file, the line and what was expected.
pub(crate) fn check(_: &Library, path: &Path) -> Result<(), Error> {
    described(path).map(drop)
}

/// Opens the file in which servers report; makes it if there is none.
fn shared(path: &Path) -> Result<Shared, Error> {
    let wrong = |e: std::io::Error| Error::Input(format!("{}: {e}", path.display()));
    if path.exists() {
        return Shared::open(path).map_err(wrong);
    }
    let file = File::options().read(true).write(true).create_new(true).open(path);
    file.and_then(|file| Shared::create(&file, false)).map_err(wrong)
}

impl Preheat {
    /// Begins to load lines as a description says; `log`: a file for its policy's events.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub(crate) fn start(path: &Path, log: Option<&Path>) -> Result<Preheat, Error> {
        let Described { config, image, lines, key } = described(path)?;
        let shared = shared(&config.shared)?;
        let programs = bpf::Lines::open(&image).map_err(Error::Run)?;
        let first = || CpuSet::allowed().iter().next().unwrap_or(0);
        let cpu = config.cpu.unwrap_or_else(first);
        let mut loader = Loader::new(Some(Arc::new(Mutex::new(programs))), shared, cpu);
        loader.set(lines, "").map_err(Error::Run)?;
        let syn = config.syn().map(|lead| Ok((Syn::open(0, config.port)?, lead)));
        let triggers = Triggers {
            syn: syn.transpose().map_err(Error::Run)?,
            awake: config.awake.then_some(Awake::Polite),
            every: config.every(),
            sockets: bpf::Sockets::open().ok(),
        };
        let listen = config.listen;
        let socket = UdpSocket::bind(listen);
        let socket = socket.map_err(|e| Error::Run(format!("listen {listen}: {e}")))?;
        let header = Header::new("live preheat", Family::Preheat, TECHNIQUE).on("", "live");
        let (log, tap) = Log::begin(log, &header)?;
        let (host, loader) = (Hosted::logged(policy(), tap), Arc::new(Mutex::new(loader)));
        let receiver = Receiver::new(key, ReceiverParameters::default());
        let daemon = Daemon::start(socket, receiver, host, loader, (config.port, triggers));
        let daemon = daemon.map_err(Error::Run)?;
        let (address, begun, meter) = (daemon.address, Instant::now(), Meter::begin());
        let (daemon, config) = (Mutex::new(daemon), Mutex::new(config));
        Ok(Preheat { address, daemon, config, begun, log, meter })
    }

    /// Returns the address on which it receives announcements.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the report up to now.
    pub(crate) fn look(&self) -> Report {
        let counts = self.locked().counts();
        let duration_s = self.begun.elapsed().as_secs_f64();
        let (log, measured) = (self.log.told(), self.meter.look());
        Report { counts, duration_s, log, measured }
    }

    fn locked(&self) -> MutexGuard<'_, Daemon> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program for Preheat {
    fn report(&self) -> Value {
        json(&self.look())
    }

    fn metrics(&self) -> String {
        metrics::preheat(&self.look())
    }

    fn reload(&self, path: &Path) -> Result<Vec<String>, Error> {
        let Described { config, lines, .. } = described(path)?;
        let mut now = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = changes(&*now, &config);
        refuse(&found, &FIXED).map_err(Error::Input)?;
        // The file may hold another set under the same name.
        let is_other = self.locked().load(lines).map_err(Error::Input)?;
        if is_other && found.is_empty() {
            found.push("lines of the set".to_owned());
        }
        *now = config;
        Ok(found)
    }

    fn stop(&self) -> Result<(), Error> {
        self.locked().stop();
        self.log.end()
    }

    fn is_running(&self) -> bool {
        self.locked().is_running()
    }
}

impl Drop for Preheat {
    fn drop(&mut self) {
        // An error is for the caller of `stop`; dropping has no way to tell of one.
        let _ = self.stop();
    }
}
