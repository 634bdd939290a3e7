//! A program whose system calls may be made by threads on another CPU, with the policy of its
//! description.

mod report;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use halfwink_engine::Input;
use halfwink_live::clock::Rate;
use halfwink_live::program::child::{can_run, Child};
use halfwink_live::program::config::{changes, read_as, Read};
use halfwink_live::program::rapl::Meter;
use halfwink_live::sys::CpuSet;
use halfwink_live_delegate::config::Config;
use halfwink_live_delegate::place::Place;
use halfwink_live_delegate::report::Run;
use halfwink_live_delegate::shared::Options;
use halfwink_live_delegate::VARIABLE;
use halfwink_policy::offload::{DelegationKind, DelegationParameters};
use halfwink_techniques::delegate::{parameters, WORLD};
use serde_json::Value;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGQUIT};

use crate::modules::beside;
use crate::shown::json;
use crate::{Error, Library, Program};

pub use report::Report;

/// Name of the library that the program is made to load.
const LIBRARY: &str = "libhalfwink_delegate.so";
/// Variable of the dynamic loader that names such libraries.
const PRELOAD: &str = "LD_PRELOAD";
/// Time that the program has to end after SIGTERM, before SIGKILL.
const PATIENCE: Duration = Duration::from_secs(10);
/// Signals that are passed on to the program and mean nothing else here, and that of its end.
const EXTRA: [i32; 2] = [SIGQUIT, SIGCHLD];

/// A program at work under delegation. Dropping it ends the program.
pub struct Delegate {
    config: Config,
    command: Vec<OsString>,
    run: Run,
    child: Child,
    /// File of the log until it has been written.
    log: Mutex<Option<PathBuf>>,
    meter: Meter,
    _place: Place,
}

/// A description with what it names.
struct Described {
    config: Config,
    command: Vec<OsString>,
    parameters: DelegationParameters,
    technique: String,
    library: PathBuf,
    own: CpuSet,
    os_cpu: u32,
}

/// Reads a description; `words`: a command in place of the one that it names.
fn described(path: &Path, words: Option<Vec<OsString>>) -> Result<Described, Error> {
    let Read { config, input } = read_as(path, Config::parse).map_err(Error::input)?;
    let (parameters, technique) = parameters(&config.policy)
        .map_err(|error| Error::at_policy(&input, WORLD, &config.policy, &error))?;
    let named = || config.command.iter().map(OsString::from).collect();
    let command = words.unwrap_or_else(named);
    runnable(&command).map_err(|why| Error::at(&input, "command", why))?;
    let library = match &config.library {
        Some(path) => {
            let opened = File::open(path).map_err(|e| format!("{}: {e}", path.display()));
            opened.map_err(|why| Error::at(&input, "library", why))?;
            path.clone()
        }
        None => beside(LIBRARY).ok_or_else(|| Error::Run(format!("{LIBRARY} is missing")))?,
    };
    // Without a call that moves there is no second CPU to keep free.
    let (own, os_cpu) = match parameters.kind {
        DelegationKind::Never => (CpuSet::allowed(), 0),
        _ => cpus(&input, config.os_cpu)?,
    };
    Ok(Described { config, command, parameters, technique, library, own, os_cpu })
}

/// Chooses the CPUs of the program, and the one for its system calls.
fn cpus(input: &Input, wanted: Option<u32>) -> Result<(CpuSet, u32), Error> {
    let allowed: Vec<u32> = CpuSet::allowed().iter().collect();
    let (Some(&last), 2..) = (allowed.last(), allowed.len()) else {
        let count = allowed.len();
        let why = format!("this process may use {count} (see taskset -p $$)");
        return Err(Error::Input(format!("delegation needs two CPUs; {why}")));
    };
    let chosen = wanted.unwrap_or(last);
    if !allowed.contains(&chosen) {
        let known: Vec<String> = allowed.iter().map(u32::to_string).collect();
        let message = format!("found {chosen}, expected one of {}", known.join(", "));
        return Err(Error::at(input, "os_cpu", message));
    }
    Ok((allowed.into_iter().filter(|&cpu| cpu != chosen).collect(), chosen))
}

/// Checks that there is such a program, where a shell would find it.
fn runnable(command: &[OsString]) -> Result<(), String> {
    let program = command.first().ok_or("expected a program and its arguments")?;
    if can_run(program) {
        return Ok(());
    }
    Err(format!("{}: no such program", program.display()))
}

/// Checks a description without starting its program.
///
/// # Errors
/// The file, the line and what was expected.
pub fn check(_: &Library, path: &Path) -> Result<(), Error> {
    described(path, None).map(drop)
}

impl Delegate {
    /// Starts the program of a description; `words`: a command in place of the one that it names;
    /// `log`: a file for its policies' events, which is written at the end.
    ///
    /// # Errors
    /// The description is wrong, or the machine does not allow it.
    pub fn start(
        path: &Path,
        words: Option<Vec<OsString>>,
        log: Option<&Path>,
    ) -> Result<Delegate, Error> {
        let found = described(path, words)?;
        let Described { config, command, parameters, technique, library, own, os_cpu } = found;
        let at = |path: &Path, e: std::io::Error| Error::Run(format!("{}: {e}", path.display()));
        let log =
            log.map(|path| File::create(path).map(|_| path.to_owned()).map_err(|e| at(path, e)));
        let log = log.transpose()?;
        let options = Options {
            policy: parameters,
            os_cpu,
            time_every: config.time_every,
            worker_spin_ns: (config.spin_us * 1e3) as u64,
            caller_spin_ns: (config.spin_us * 500.0) as u64,
            rate: Rate::measure(),
            log_records: if log.is_some() { config.log_records } else { 0 },
        };
        let place = Place::find();
        let run = Run::begin(place.path(), &technique, options).map_err(|e| at(place.path(), e))?;
        let program = Path::new(&command[0]);
        let ready = self::command(&command, &library, place.path());
        let child = Child::start(ready, config.pin.then_some(own), config.die_with_us);
        let child = child.map_err(|e| at(program, e))?;
        let (log, meter) = (Mutex::new(log), Meter::begin());
        Ok(Delegate { config, command, run, child, log, meter, _place: place })
    }

    /// Returns the report up to now.
    #[must_use]
    pub fn look(&self) -> Report {
        let (live, measured) = (self.run.report(), self.meter.look());
        Report { live, status: self.child.status(), measured }
    }

    /// Waits until the program has ended, at most so long; returns whether it has.
    #[must_use]
    pub fn wait(&self, most: Duration) -> bool {
        self.child.wait(most).is_some()
    }
}

/// Prepares the command, with the environment that makes it load the library.
fn command(words: &[OsString], library: &Path, counts: &Path) -> Command {
    let mut preload = library.as_os_str().to_owned();
    if let Some(before) = std::env::var_os(PRELOAD).filter(|before| !before.is_empty()) {
        preload.push(":");
        preload.push(before);
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(PRELOAD, preload).env(VARIABLE, counts);
    command
}

impl Program for Delegate {
    fn report(&self) -> Value {
        json(&self.look())
    }

    fn metrics(&self) -> String {
        self.look().metrics()
    }

    fn reload(&self, path: &Path) -> Result<Vec<String>, Error> {
        // The processes of the program have read their options when they started.
        let config = described(path, Some(self.command.clone()))?.config;
        let found = changes(&self.config, &config);
        if found.is_empty() {
            return Ok(found);
        }
        Err(Error::Input(format!("{}: can only change by a restart", found.join(", "))))
    }

    fn stop(&self) -> Result<(), Error> {
        self.child.stop(PATIENCE);
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).take();
        let written = log.map(|path| self.run.write_log(&path));
        written.transpose().map(drop).map_err(|e| Error::Run(e.to_string()))
    }

    fn is_running(&self) -> bool {
        self.child.status().is_none()
    }

    fn status(&self) -> Option<u8> {
        self.child.status()
    }

    fn extra_signals(&self) -> &'static [i32] {
        &EXTRA
    }

    fn signal(&self, number: i32) -> bool {
        if number != SIGCHLD {
            self.child.signal(number);
        }
        // The program may read a configuration of its own, and the description is read as well.
        number != SIGHUP
    }
}

impl Drop for Delegate {
    fn drop(&mut self) {
        // An error is for the caller of `stop`; dropping has no way to tell of one.
        let _ = self.stop();
    }
}
