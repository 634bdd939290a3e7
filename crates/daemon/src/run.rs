//! From arguments to exit status: what all binaries do alike.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use halfwink_live::program::config::plain;
use halfwink_techniques::Descriptions;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};

use crate::http::Metrics;
use crate::notify::Manager;
use crate::{Error, Library, Program};

/// Between two looks whether all threads are alive.
const LOOK: Duration = Duration::from_secs(2);

/// Arguments of all programs.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// Description (TOML): the file that `halfwink live` takes for the same program.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Folder that holds `machines` [default: of the Python package, or
    /// the first above this program].
    #[arg(long, value_name = "DIR", env = "HALFWINK_HOME")]
    pub library: Option<PathBuf>,
    /// Checks the description, says what is wrong with it, and ends.
    #[arg(long)]
    pub check: bool,
    /// Serves OpenMetrics at HOST:PORT.
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,
    /// Writes events and actions of the policy there as they come: lines of JSON, for `halfwink
    /// replay`.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Writes what it has counted and measured there at the end, and at each SIGUSR2: JSON; - is
    /// standard output.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Ends after so many seconds [default: when it is told to].
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Prints no messages.
    #[arg(long, short)]
    pub quiet: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected above 0, at most 30 days".to_owned();
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    // NaN is in no range.
    let in_range = seconds > 0.0 && seconds <= 30.0 * 86_400.0;
    in_range.then(|| Duration::from_secs_f64(seconds)).ok_or_else(expected)
}

/// Functions of one kind of program.
pub struct Kind {
    /// Checks a description.
    pub check: fn(&Library, &Path) -> Result<(), Error>,
    /// Begins, with a file for its log if there is to be one; lines to say.
    pub begin: fn(&Library, &Path, Option<&Path>) -> Result<Begun, Error>,
}

/// A program that has begun, and what to say of it.
pub type Begun = (Arc<dyn Program>, Vec<String>);

/// Runs a program from its arguments to its end. Exit status: 0 if all went well, 1 if the machine
/// did not allow it or a thread died, 2 if what was asked for cannot be; that of the command, if
/// the program is the parent of one.
#[must_use]
pub fn main(options: &Options, kind: &Kind) -> ExitCode {
    match work(options, kind) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            halfwink_live::say!("{}: {error}", name());
            ExitCode::from(if matches!(error, Error::Input(_)) { 2 } else { 1 })
        }
    }
}

/// Returns the exit status.
fn work(options: &Options, kind: &Kind) -> Result<u8, Error> {
    let say = |text: &str| {
        if !options.quiet {
            halfwink_live::say!("{}: {text}", name());
        }
    };
    let library = root(options.library.as_deref()).map(Descriptions::new);
    if options.check {
        (kind.check)(&library, &options.config)?;
        say(&format!("{}: well", options.config.display()));
        return Ok(0);
    }
    if let Some(path) = options.report.as_deref().filter(|path| path.as_os_str() != "-") {
        can_be_written(path)?;
    }
    // Before anything is opened: a signal that comes early is kept for later.
    let (signals, more) = signals()?;
    let mut manager = Manager::find();
    let (program, greeting) = (kind.begin)(&library, &options.config, options.log.as_deref())?;
    for &number in program.extra_signals() {
        more.add_signal(number).map_err(|e| Error::Run(format!("signals: {e}")))?;
    }
    greeting.iter().for_each(|line| say(line));
    let metrics = options.metrics.as_ref().map(|address| {
        let program = program.clone();
        Metrics::serve(address, move || program.metrics())
    });
    let metrics = metrics.transpose()?;
    metrics.iter().for_each(|m| say(&format!("metrics: http://{}/metrics", m.address())));
    if program.report().get("modelled").is_some_and(Value::is_null) {
        let file = options.config.display();
        say(&format!("energy is not reported: machine = \"NAME\" in {file} adds modelled watts"));
    }
    say("ready");
    manager.ready(greeting.last().map_or("ready", String::as_str));
    until_told(&*program, &signals, options, &mut manager);
    manager.stopping();
    // Before `stop`, after which no thread runs.
    let (alive, ended) = (program.is_running(), program.ended());
    let stopped = program.stop();
    let report = program.report();
    // Written whatever the run came to: an error is returned only at the end.
    if let Some(path) = &options.report {
        write(path, &format!("{report:#}\n"))?;
    }
    if let Some(why) = report["measured"]["missing"].as_str() {
        say(&format!("not measured: {why}"));
    }
    if let Some(why) = report["ledger"]["imbalance"].as_str() {
        halfwink_live::say!("{}: {why}", name());
    }
    if let Some(dropped) = report["log_dropped"].as_u64().filter(|&dropped| dropped > 0) {
        halfwink_live::say!(
            "{}: the log lacks {dropped} lines: its file could not be written, or too slowly",
            name()
        );
    }
    let access = &report["access_log"];
    if let Some(dropped) = access["dropped"].as_u64().filter(|&dropped| dropped > 0) {
        halfwink_live::say!("{}: the access log lacks {dropped} lines", name());
    }
    let status = program.status();
    if !alive && status.is_none() {
        return Err(Error::Run(ended.to_owned()));
    }
    stopped.map(|()| status.unwrap_or(0))
}

/// Checks before the run that its report will have a place.
fn can_be_written(path: &Path) -> Result<(), Error> {
    let wrong = |why: &str| Err(Error::Input(format!("--report {}: {why}", path.display())));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        return wrong("found a folder, expected a file");
    }
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return wrong("expected a folder that is there");
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = if path.as_os_str() == "-" {
        std::io::stdout().write_all(text.as_bytes())
    } else {
        // A FIFO without a reader is an error at once: nothing else here waits for others.
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK);
        options.open(path).and_then(|mut file| file.write_all(text.as_bytes()))
    };
    written.map_err(|e| Error::Run(format!("{}: {e}", path.display())))
}

/// Writes a report while the program runs, so that a reader finds either the last one or this.
fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let is_file = std::fs::metadata(path).map_or(true, |found| found.is_file());
    if path.as_os_str() == "-" || !is_file {
        return write(path, text);
    }
    // Renaming would put a file in the place of a symbolic link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let moved =
        || std::fs::rename(&new, &path).map_err(|e| Error::Run(format!("{}: {e}", path.display())));
    write(Path::new(&new), text).and_then(|()| moved()).inspect_err(|_| {
        // The error that matters is the first one.
        let _ = std::fs::remove_file(&new);
    })
}

/// Signals to end, to reload, to open logs again or to report, as they come, and the handle that
/// adds more.
fn signals() -> Result<(Receiver<i32>, Handle), Error> {
    let wrong = |e: std::io::Error| Error::Run(format!("signals: {e}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2]).map_err(wrong)?;
    let more = signals.handle();
    let (tell, hear) = mpsc::channel();
    let body = move || signals.forever().take_while(|&s| tell.send(s).is_ok()).for_each(drop);
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).map_err(wrong)?;
    Ok((hear, more))
}

fn until_told(
    program: &dyn Program,
    signals: &Receiver<i32>,
    options: &Options,
    manager: &mut Manager,
) {
    let end = options.seconds.map(|seconds| Instant::now() + seconds);
    while program.is_running() {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return;
        }
        manager.alive();
        // The manager's watchdog has to hear in time that this thread is alive.
        let most = manager.patience().unwrap_or(LOOK).min(LOOK);
        match signals.recv_timeout(left.unwrap_or(LOOK).min(most)) {
            Ok(number) if program.signal(number) => {}
            Ok(SIGHUP) => {
                manager.reloading();
                let now = reload(program, &options.config);
                manager.ready(&now);
            }
            Ok(SIGUSR1) => reopen(program),
            Ok(SIGUSR2) => report_now(program, options.report.as_deref()),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Reloads the description. The result is returned, and always printed, since the sender of SIGHUP
/// waits for it.
fn reload(program: &dyn Program, path: &Path) -> String {
    let now = match program.reload(path) {
        // Files that it names, routes and certificates, are read all the same.
        Ok(changes) if changes.is_empty() => {
            format!("read {} again: no value in it has changed", path.display())
        }
        Ok(changes) => {
            format!("read {} again: {} changed", path.display(), plain(&changes.join(", ")))
        }
        Err(error) => format!("{error}; all stays as it was"),
    };
    halfwink_live::say!("{}: {now}", name());
    now
}

/// Opens logs again. The result is always printed, since the sender of SIGUSR1 waits for it.
fn reopen(program: &dyn Program) {
    let said = match program.reopen() {
        Ok(Some(said)) => said,
        Ok(None) => "SIGUSR1 changes nothing without an access log; SIGHUP reloads".to_owned(),
        Err(error) => format!("{error}; lines go to the old file"),
    };
    halfwink_live::say!("{}: {said}", name());
}

/// Writes the report up to now. The result is always printed, since the sender of SIGUSR2 waits for
/// it.
fn report_now(program: &dyn Program, path: Option<&Path>) {
    let said = match path {
        None => "SIGUSR2 changes nothing without --report; SIGHUP reloads".to_owned(),
        Some(path) => match replace(path, &format!("{:#}\n", program.report())) {
            Ok(()) => format!("report written to {}", path.display()),
            Err(error) => format!("report not written: {error}"),
        },
    };
    halfwink_live::say!("{}: {said}", name());
}

/// The folder that holds `machines`: as said, or the first above the program that does.
fn root(said: Option<&Path>) -> Result<PathBuf, Error> {
    let program = std::env::current_exe().unwrap_or_default();
    match said {
        Some(folder) if holds(folder) => Ok(folder.to_owned()),
        Some(folder) => {
            let found = folder.display();
            Err(Error::Input(format!("--library {found}: expected a folder that holds `machines`")))
        }
        None => found(&program).ok_or_else(|| {
            let from = program.display();
            Error::Input(format!("no folder `machines` above {from}: say --library DIR"))
        }),
    }
}

fn holds(folder: &Path) -> bool {
    folder.join("machines").is_dir()
}

/// The data of the Python package that a program was installed with, or of the clone above it.
fn found(program: &Path) -> Option<PathBuf> {
    let packages = packages(program)?.map(|package| package.join("data"));
    packages.chain(program.ancestors().skip(1).map(Path::to_owned)).find(|folder| holds(folder))
}

/// Returns the places of the Python package that a program may have been installed with.
pub(crate) fn packages(program: &Path) -> Option<impl Iterator<Item = PathBuf>> {
    // A program is at PREFIX/bin/NAME.
    let lib = program.ancestors().nth(2)?.join("lib");
    let pythons = std::fs::read_dir(lib).into_iter().flatten().flatten();
    Some(pythons.map(|python| python.path().join("site-packages/halfwink")))
}

fn name() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    program.file_name().map_or_else(|| "halfwink".into(), |n| n.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_cannot_be_are_refused() {
        for wrong in ["0", "-1", "nan", "inf", "2592001", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(Options::try_parse_from(["halfwink-steer"]).is_err());
    }

    #[test]
    fn the_library_is_that_of_the_package_or_of_the_clone() {
        let clone = tempfile::tempdir().unwrap();
        let program = clone.path().join(".venv/bin/halfwink-steer");
        assert_eq!(found(&program), None);
        std::fs::create_dir_all(clone.path().join("machines")).unwrap();
        assert_eq!(found(&program).as_deref(), Some(clone.path()));
        let data = clone.path().join(".venv/lib/python3.11/site-packages/halfwink/data");
        std::fs::create_dir_all(data.join("machines")).unwrap();
        assert_eq!(found(&program), Some(data));
    }
}
