//! `halfwink-circuits`: the program without Python.

mod metrics;
mod program;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use halfwink_daemon::run::{main as run, Begun, Kind, Options};
use halfwink_daemon::{Error, Library};

use program::{check, Circuits};

/// Plays the circuit switch of a fabric, one of its hosts, or all of them.
///
/// SIGTERM or SIGINT ends it in good order; SIGUSR1 counts from zero. Times are measured.
#[derive(Parser)]
#[command(name = "halfwink-circuits", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn begin(_: &Library, path: &Path, log: Option<&Path>) -> Result<Begun, Error> {
    Ok((Arc::new(Circuits::start(path, log)?), Vec::new()))
}

fn main() -> ExitCode {
    run(&Arguments::parse().options, &Kind { check, begin })
}
