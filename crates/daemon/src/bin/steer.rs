//! `halfwink-steer`: the program without Python.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use halfwink_daemon::run::{main as run, Begun, Kind, Options};
use halfwink_daemon::steer::{check, Steer};
use halfwink_daemon::{modules, Error, Library};
use halfwink_policy_module::STEERING;

/// Steers HTTP requests, or TCP connections, to a small and a big server, which may sleep.
///
/// SIGTERM or SIGINT ends it in good order; SIGHUP reads the description again. Watts are modelled.
#[derive(Parser)]
#[command(name = "halfwink-steer", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn begin(library: &Library, path: &Path, log: Option<&Path>) -> Result<Begun, Error> {
    let program = Steer::start(library, path, log)?;
    let greeting = format!("listening at {}", program.address());
    Ok((Arc::new(program), vec![greeting]))
}

fn main() -> ExitCode {
    modules::install(&[STEERING], None);
    run(&Arguments::parse().options, &Kind { check, begin })
}
