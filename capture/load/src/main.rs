// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs inside the recorded machine: loads its server, or starts its program, and executes the
//! marker instructions that tell the recorder when to start and stop and which requests there are.

mod args;
mod connection;
mod engine;
mod marker;
mod poll;
mod protocol;
mod random;
mod schedule;
mod summary;

use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

use args::{Command, LoadArgs, ProtocolName};
use connection::Connection;
use engine::{Arrivals, Engine};
use protocol::{Http, Memcached, Postgres, Protocol, Redis};
use random::Random;
use schedule::Schedule;

/// Keys in a key-value store: about 5 MB with their values.
const KEYS: u64 = 10_000;
/// Rows of the table that the guest's set-up creates.
const ACCOUNTS: u64 = 10_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = match args::parse(&words) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("halfwink-load: {error}\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Load(args) => load(&args),
        Command::Run { warmup, own_start, command } => run(warmup, own_start, &command),
        Command::Mark(start) => {
            if start {
                marker::start();
            } else {
                marker::stop();
            }
            Ok(())
        }
        Command::SplitCpu(cpu) => split_cpu(cpu),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("halfwink-load: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Sets EFER.SVME on a CPU, which allows instructions that no program here uses. An emulator
/// generates other code for such a CPU, and so does not share code between it and the rest.
fn split_cpu(cpu: u64) -> io::Result<()> {
    const EFER: u64 = 0xc000_0080;
    const SVME: u64 = 1 << 12;
    let registers =
        std::fs::OpenOptions::new().read(true).write(true).open(format!("/dev/cpu/{cpu}/msr"))?;
    let mut value = [0; 8];
    registers.read_exact_at(&mut value, EFER)?;
    let changed = u64::from_le_bytes(value) | SVME;
    registers.write_all_at(&changed.to_le_bytes(), EFER)
}

fn client(args: &LoadArgs) -> Box<dyn Protocol> {
    let items = |usual: u64| args.items.unwrap_or(usual);
    match args.protocol {
        ProtocolName::Http => Box::new(Http::new(true, args.items)),
        ProtocolName::HttpClose => Box::new(Http::new(false, args.items)),
        ProtocolName::Memcached => Box::new(Memcached::new(items(KEYS))),
        ProtocolName::Redis => Box::new(Redis::new(items(KEYS))),
        ProtocolName::Postgres => Box::new(Postgres::new(ACCOUNTS)),
    }
}

fn load(args: &LoadArgs) -> io::Result<()> {
    let mut random = Random::new(args.seed);
    let mut connections = Vec::new();
    for _ in 0..args.connections {
        connections.push(Connection::open(args.server, client(args))?);
    }
    if let Some(first) = connections.first_mut() {
        first.fill()?;
    }
    let arrivals = match args.rate {
        None => Arrivals::Closed,
        Some(rate) => Arrivals::Open(Schedule::new(rate, args.gaps, Random::new(random.bits()))),
    };
    let engine = Engine::new(connections, arrivals, random, args.warmup, args.requests)?;
    println!("halfwink-load: {}", engine.run()?);
    Ok(())
}

fn run(warmup: u64, own_start: bool, command: &[String]) -> io::Result<()> {
    for n in 0..=warmup {
        let mut child = std::process::Command::new(&command[0]);
        child.args(&command[1..]);
        if n == warmup && !own_start {
            marker::start();
        }
        let status = child
            .status()
            .map_err(|error| io::Error::new(error.kind(), not_started(&command[0], &error)))?;
        let code = match (status.code(), status.signal()) {
            (Some(code), _) => code as u8,
            (None, signal) => 128 + signal.unwrap_or(0) as u8,
        };
        if code != 0 {
            // What it said must be on its way before the machine is gone.
            for terminal in [1, 2] {
                // SAFETY: a descriptor; of one that is no terminal nothing happens.
                unsafe { libc::tcdrain(terminal) };
            }
        }
        if n == warmup {
            marker::stop_with(code);
            // Here only if nobody records.
            if code != 0 {
                return Err(io::Error::other(format!("`{}` ended with {status}", command[0])));
            }
        }
    }
    Ok(())
}

/// Describes why a program did not start. If the interpreter of a script is missing, the kernel
/// reports that the script does not exist.
fn not_started(program: &str, error: &io::Error) -> String {
    let content = std::fs::read(program);
    if error.kind() != io::ErrorKind::NotFound {
        return format!("`{program}`: {error}");
    }
    let first = content.as_deref().unwrap_or_default().split(|byte| *byte == b'\n').next();
    match first.and_then(|line| line.strip_prefix(b"#!")) {
        Some(words) => {
            let words = String::from_utf8_lossy(words);
            let interpreter = words.split_whitespace().next().unwrap_or_default();
            format!("`{program}` needs {interpreter}, which the guest lacks: add its --package")
        }
        None if content.is_err() => {
            format!("`{program}` is not in the guest: add its --package, or give its path here")
        }
        None => format!("`{program}`: {error}"),
    }
}
