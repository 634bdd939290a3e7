//! `halfwink-router`: the program without Python.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use halfwink_daemon::router::{check, Router};
use halfwink_daemon::run::{main as run, Begun, Kind, Options};
use halfwink_daemon::{modules, Error, Library};
use halfwink_policy_module::SCALING;

/// Forwards packets between interfaces of this machine, by as few cores as carry them.
///
/// SIGTERM or SIGINT ends it in good order; SIGHUP reads the description again. Watts are modelled.
#[derive(Parser)]
#[command(name = "halfwink-router", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn begin(library: &Library, path: &Path, log: Option<&Path>) -> Result<Begun, Error> {
    let program = Router::start(library, path, log)?;
    Ok((Arc::new(program), Vec::new()))
}

fn main() -> ExitCode {
    modules::install(&[SCALING], None);
    run(&Arguments::parse().options, &Kind { check, begin })
}
