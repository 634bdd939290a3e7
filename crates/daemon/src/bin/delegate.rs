//! `halfwink-delegate`: the program without Python.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use halfwink_daemon::delegate::{check, Delegate};
use halfwink_daemon::run::{main as run, Begun, Kind, Options};
use halfwink_daemon::{Error, Library};

/// Runs a program whose system calls may be made on another CPU.
///
/// Signals are passed on to the program, whose exit status is the own one. SIGHUP reads the
/// description again as well. Times are measured, joules of cores of unlike size are modelled.
#[derive(Parser)]
#[command(name = "halfwink-delegate", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn begin(_: &Library, path: &Path, log: Option<&Path>) -> Result<Begun, Error> {
    Ok((Arc::new(Delegate::start(path, None, log)?), Vec::new()))
}

fn main() -> ExitCode {
    run(&Arguments::parse().options, &Kind { check, begin })
}
