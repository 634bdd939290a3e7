// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line.

use std::net::SocketAddr;

use crate::schedule::Gaps;

/// Usage of the program, as it is printed.
pub const USAGE: &str = "\
usage: halfwink-load PROTOCOL ADDRESS:PORT [--connections N] [--rate PER_SECOND [--constant]]
                     [--warmup N] [--requests N] [--seed N] [--items N]
       halfwink-load run [--warmup N] [--own-start] -- COMMAND [ARGUMENT...]
       halfwink-load mark start|stop
       halfwink-load split-cpu NUMBER
PROTOCOL is http, http-close, memcached, redis or postgres";

/// Protocol between load and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolName {
    /// HTTP/1.1 over lasting connections.
    Http,
    /// HTTP/1.1, one connection for each request.
    HttpClose,
    /// Text protocol of memcached.
    Memcached,
    /// RESP protocol of Redis.
    Redis,
    /// Simple queries of PostgreSQL.
    Postgres,
}

/// A load on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadArgs {
    /// Protocol of the server.
    pub protocol: ProtocolName,
    /// Address of the server.
    pub server: SocketAddr,
    /// Number of connections.
    pub connections: usize,
    /// Open load: requests per second.
    pub rate: Option<u64>,
    /// Open load: time between requests.
    pub gaps: Gaps,
    /// Responses before the recording starts.
    pub warmup: u64,
    /// Number of recorded responses.
    pub requests: u64,
    /// Seed of all random streams.
    pub seed: u64,
    /// Keys, or files of each size; the protocol's own number if nothing is said.
    pub items: Option<u64>,
}

/// Command of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Loads a server.
    Load(LoadArgs),
    /// Record a program, after running it a few times.
    Run {
        /// Number of unrecorded runs.
        warmup: u64,
        /// The program executes the start marker itself.
        own_start: bool,
        /// Program and its arguments.
        command: Vec<String>,
    },
    /// Execute the start marker (true) or the stop marker.
    Mark(bool),
    /// Make this CPU differ from the others, so that the emulator keeps them apart.
    SplitCpu(u64),
}

/// Reads the command line, without the program's name.
///
/// # Errors
/// One line: what is wrong.
pub fn parse(args: &[String]) -> Result<Command, String> {
    let (first, rest) = args.split_first().ok_or("a command is missing")?;
    let protocol = match first.as_str() {
        "mark" => return parse_mark(rest),
        "run" => return parse_run(rest),
        "split-cpu" => return number_of(first, rest.first()).map(Command::SplitCpu),
        "http" => ProtocolName::Http,
        "http-close" => ProtocolName::HttpClose,
        "memcached" => ProtocolName::Memcached,
        "redis" => ProtocolName::Redis,
        "postgres" => ProtocolName::Postgres,
        other => return Err(format!("`{other}` is no command")),
    };
    let (server, rest) = rest.split_first().ok_or("the server's address is missing")?;
    let server = server.parse().map_err(|_| format!("`{server}`: expected ADDRESS:PORT"))?;
    let mut load = LoadArgs {
        protocol,
        server,
        connections: 1,
        rate: None,
        gaps: Gaps::Exponential,
        warmup: 0,
        requests: u64::MAX / 2,
        seed: 1,
        items: None,
    };
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if word == "--constant" {
            load.gaps = Gaps::Constant;
            continue;
        }
        let number = number_of(word, words.next())?;
        match word.as_str() {
            "--connections" if number > 0 => load.connections = number as usize,
            "--rate" if number > 0 => load.rate = Some(number),
            "--warmup" => load.warmup = number,
            "--requests" => load.requests = number,
            "--seed" => load.seed = number,
            "--items" if number > 0 => load.items = Some(number),
            _ => return Err(format!("`{word} {number}` is no option")),
        }
    }
    Ok(Command::Load(load))
}

fn parse_mark(rest: &[String]) -> Result<Command, String> {
    match rest.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["start"] => Ok(Command::Mark(true)),
        ["stop"] => Ok(Command::Mark(false)),
        _ => Err("mark: expected start or stop".to_owned()),
    }
}

fn parse_run(rest: &[String]) -> Result<Command, String> {
    let (options, command) = match rest.iter().position(|w| w == "--") {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => return Err("run: expected `--` and a command".to_owned()),
    };
    let (mut warmup, mut own_start) = (0, false);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--warmup" => warmup = number_of(word, words.next())?,
            "--own-start" => own_start = true,
            _ => return Err(format!("run: `{word}` is no option")),
        }
    }
    if command.is_empty() {
        return Err("run: expected a command".to_owned());
    }
    Ok(Command::Run { warmup, own_start, command: command.to_vec() })
}

fn number_of(name: &str, value: Option<&String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{name}: expected a number"))?;
    value.parse().map_err(|_| format!("{name} {value}: expected a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn load_arguments_are_read() {
        let Ok(Command::Load(load)) =
            parsed("redis 192.0.2.1:6379 --connections 8 --rate 500 --constant --seed 3")
        else {
            panic!("it is right");
        };
        assert_eq!((load.protocol, load.connections), (ProtocolName::Redis, 8));
        assert_eq!(load.items, None);
        let Ok(Command::Load(many)) = parsed("http-close 192.0.2.1:80 --items 1024") else {
            panic!("it is right");
        };
        assert_eq!(many.items, Some(1024));
        assert!(parsed("redis 192.0.2.1:6379 --items 0").is_err());
        assert_eq!((load.rate, load.gaps, load.seed), (Some(500), Gaps::Constant, 3));
    }

    #[test]
    fn program_to_run_is_read() {
        let run = parsed("run --warmup 2 -- gzip -k file");
        let command = ["gzip", "-k", "file"].map(str::to_owned).to_vec();
        assert_eq!(run, Ok(Command::Run { warmup: 2, own_start: false, command }));
        let run = parsed("run --own-start -- own");
        let command = vec!["own".to_owned()];
        assert_eq!(run, Ok(Command::Run { warmup: 0, own_start: true, command }));
        assert_eq!(parsed("mark stop"), Ok(Command::Mark(false)));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for line in [
            "",
            "smtp 192.0.2.1:25",
            "http",
            "http server",
            "http 192.0.2.1:80 --rate 0",
            "http 192.0.2.1:80 --rate",
            "run gzip",
            "run --cold -- gzip",
            "run --",
            "mark",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
