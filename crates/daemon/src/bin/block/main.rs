//! `halfwink-block`: the program without Python.

mod metrics;
mod program;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use halfwink_daemon::run::{main as run, Begun, Kind, Options};
use halfwink_daemon::{modules, Error, Library};
use halfwink_policy_module::COMPLETION;

use program::{check, Block};

/// Serves a block device to clients over NBD, to virtual machines, or to this machine's kernel.
///
/// SIGTERM or SIGINT ends it in good order; SIGHUP reads the description again. Times are measured.
#[derive(Parser)]
#[command(name = "halfwink-block", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn begin(_: &Library, path: &Path, log: Option<&Path>) -> Result<Begun, Error> {
    let (program, mut said) = Block::start(path, log)?;
    said.push(format!("serving at {}", program.address()));
    Ok((Arc::new(program), said))
}

fn main() -> ExitCode {
    modules::install(&[COMPLETION], None);
    run(&Arguments::parse().options, &Kind { check, begin })
}
