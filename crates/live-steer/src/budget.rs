//! File descriptors: how many this process may have, who may need them, and errors that say only
//! that there are none left.

use std::io;

use super::config::{Config, Machine};
use super::ranges::Wrong;

/// The process's own: standard streams, log, metrics, announcements, files that a reload reads,
/// commands of machines' power.
/// Assumption: none of them needs more at one time.
const OWN: u64 = 48;
/// A thread's: listener, runtime (epoll and its bell), a client that is told that it is one too
/// many.
const OF_A_THREAD: u64 = 6;

/// Returns whether an error is this machine's lack of descriptors or memory, and so says nothing
/// about the peer.
#[must_use]
pub fn is_ours(error: &io::Error) -> bool {
    let ours = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| ours.contains(&code))
}

/// The soft and the hard limit of descriptors.
fn limits() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes a limit, to a variable that outlives the call.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0).then_some(limit)
}

/// Returns the limit up to which this process may raise its descriptors.
#[must_use]
pub fn most() -> u64 {
    limits().map_or(u64::MAX, |limit| limit.rlim_max)
}

/// Raises this process's soft limit to what a description needs, if it is lower. Never beyond the
/// hard limit: what does not fit there has been refused.
pub fn raise(config: &Config) {
    let Some(mut limit) = limits() else { return };
    let needed = needed(config).min(limit.rlim_max);
    if limit.rlim_cur < needed {
        limit.rlim_cur = needed;
        // SAFETY: the kernel reads the limit. If it refuses, connections come to wait.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// Connections to a machine: one for each request in service, and those that each thread keeps;
/// none of them ever had more than that in service.
fn of_machine(machine: &Machine, config: &Config) -> u64 {
    let workers = machine.workers as u64;
    workers + config.threads as u64 * workers.min(config.limits.pool as u64)
}

fn own(config: &Config) -> u64 {
    OWN + OF_A_THREAD * config.threads as u64
}

fn of_machines(config: &Config) -> u64 {
    config.machines().map(|machine| of_machine(machine, config)).sum()
}

fn needed(config: &Config) -> u64 {
    config.limits.connections as u64 + of_machines(config) + own(config)
}

/// Checks whether all connections that a description allows fit in `most` descriptors.
///
/// # Errors
///
/// The key that asks for too many, with all numbers.
pub fn check(config: &Config, most: u64) -> Result<(), Wrong> {
    let (machines, own) = (of_machines(config), own(config));
    if needed(config) <= most {
        return Ok(());
    }
    let whose = format!(
        "this process may have {most} descriptors (RLIMIT_NOFILE), connections to the machines \
         take up to {machines}, the proxy itself {own}"
    );
    let left = most.saturating_sub(machines + own);
    if left > 0 {
        let found = config.limits.connections;
        let message = format!("found {found}, expected at most {left}: {whose}");
        return Err(("limits.connections".to_owned(), message));
    }
    // The machine that takes most of them.
    let largest = config.sides().max_by_key(|&side| of_machine(config.machine(side), config));
    let (key, workers) = largest.map_or((String::new(), 0), |side| {
        (format!("{}.workers", config.key(side)), config.machine(side).workers)
    });
    Err((key, format!("found {workers}, expected fewer: {whose}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_engine::Input;
    use std::path::Path;

    fn config(more: &str) -> Config {
        let text = format!(
            "schema = 1\nlisten = \"127.0.0.1:0\"\nthreads = 2\n[small]\naddress = \
             \"127.0.0.1:1\"\nworkers = 2\n[big]\naddress = \"127.0.0.1:2\"\n{more}"
        );
        Config::parse(&Input::new("s.toml", text), Path::new("")).unwrap()
    }

    #[test]
    fn what_fits_is_counted_to_the_last_descriptor() {
        // Small: two in service, two kept by each thread. Big: ten, and three by each thread.
        let config = config("workers = 10\n[limits]\nconnections = 1000\npool = 3\n");
        assert_eq!(needed(&config), 1000 + (2 + 2 * 2) + (10 + 2 * 3) + 48 + 2 * 6);
        assert_eq!(check(&config, needed(&config)), Ok(()));
        let (key, why) = check(&config, needed(&config) - 1).unwrap_err();
        assert_eq!(key, "limits.connections");
        assert_eq!(
            why,
            "found 1000, expected at most 999: this process may have 1081 descriptors \
             (RLIMIT_NOFILE), connections to the machines take up to 22, the proxy itself 60"
        );
        let (key, why) = check(&config, 82).unwrap_err();
        assert_eq!(key, "big.workers");
        assert!(why.starts_with("found 10, expected fewer: "), "{why}");
    }

    #[test]
    fn a_lack_of_descriptors_is_nobody_elses() {
        for (code, ours) in [
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::ECONNREFUSED, false),
            (libc::EHOSTUNREACH, false),
            (libc::ETIMEDOUT, false),
        ] {
            assert_eq!(is_ours(&io::Error::from_raw_os_error(code)), ours, "{code}");
        }
    }
}
