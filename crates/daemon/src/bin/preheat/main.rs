//! `halfwink-preheat`: the program without Python.

mod metrics;
mod program;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use halfwink_daemon::run::{main as run, Begun, Kind, Options};
use halfwink_daemon::{Error, Library};

use program::{check, Preheat};

/// Loads the cache lines of an unmodified server before each announced request.
///
/// SIGTERM or SIGINT ends it; SIGHUP reads the description again. Times are measured.
#[derive(Parser)]
#[command(name = "halfwink-preheat", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn begin(_: &Library, path: &Path, log: Option<&Path>) -> Result<Begun, Error> {
    let program = Preheat::start(path, log)?;
    let greeting = format!("serving at {}", program.address());
    Ok((Arc::new(program), vec![greeting]))
}

fn main() -> ExitCode {
    run(&Arguments::parse().options, &Kind { check, begin })
}
