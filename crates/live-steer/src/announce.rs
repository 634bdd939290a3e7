//! Tells a preheating daemon that a request goes to its machine, before it does.
//!
//! A proxy knows of a request before the machine does: that is one of the places from which
//! announcements come (Gottschlag 2016, Sec 4.1.3 has the network's arbiter). It is one datagram
//! that nobody answers; one that cannot be sent is counted and forgotten.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use halfwink_policy::preheat::announce::{encode, Announcement, Key, Mode, BYTES};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

/// Daemon that is notified of requests to a machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Announce {
    /// Address of the daemon: `ADDRESS:PORT`.
    pub to: SocketAddr,
    /// File with the 16 bytes that both know; relative to the description.
    pub key: PathBuf,
    /// Port that the daemon serves, by which requests are announced.
    pub port: u16,
    /// Number of this proxy, if several announce to one daemon.
    #[serde(default = "one")]
    pub source: u32,
    /// Time from the announcement until the request arrives, in microseconds.
    #[serde(default)]
    pub lead_us: u32,
}

const fn one() -> u32 {
    1
}

/// Longest lead of an announcement, in microseconds.
pub(crate) const LONGEST_LEAD_US: u64 = 10_000;

/// Sends announcements of one machine's requests.
#[derive(Debug)]
pub struct Announcer {
    socket: UdpSocket,
    key: Key,
    /// Path of the key file.
    pub(crate) path: PathBuf,
    announce: Announce,
    sequence: AtomicU64,
    /// Number of announcements that could not be sent.
    failed: AtomicU64,
}

impl Announcer {
    /// Reads the key, opens a socket.
    ///
    /// # Errors
    /// The part of the description that is wrong, and how.
    pub(crate) fn open(
        announce: &Announce,
        folder: &Path,
    ) -> Result<Announcer, (&'static str, String)> {
        let path = folder.join(&announce.key);
        let key = std::fs::read(&path).map_err(|e| ("key", format!("{}: {e}", path.display())))?;
        let found = key.len();
        let key = key.try_into().map_err(|_| {
            ("key", format!("{}: found {found} bytes, expected 16", path.display()))
        })?;
        let any: IpAddr = match announce.to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let open = || {
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(announce.to)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = open().map_err(|e: std::io::Error| ("to", format!("{}: {e}", announce.to)))?;
        // Above what an earlier run of this proxy sent, as long as the clock did not step back by
        // more than it stood still: the daemon takes no number twice.
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Announcer {
            socket,
            key: Key(key),
            path,
            announce: announce.clone(),
            sequence: AtomicU64::new(start.as_nanos() as u64),
            failed: AtomicU64::new(0),
        })
    }

    /// A request is about to go to the machine.
    pub(crate) fn tell(&self) {
        let announcement = Announcement {
            port: self.announce.port,
            source: self.announce.source,
            sequence: self.sequence.fetch_add(1, Ordering::Relaxed),
            lead: Time::ns(1000 * u64::from(self.announce.lead_us)),
            mode: Mode::Announce,
        };
        let sent = self.socket.send(&encode(&announcement, &self.key));
        if !matches!(sent, Ok(BYTES)) {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of announcements that could not be sent, as no daemon listens there.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_policy::preheat::announce::{Receiver, ReceiverParameters};

    #[test]
    fn a_daemon_hears_each_announcement_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), [7; 16]).unwrap();
        let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
        let announce = Announce {
            to: daemon.local_addr().unwrap(),
            key: "key".into(),
            port: 80,
            source: 3,
            lead_us: 250,
        };
        let announcer = Announcer::open(&announce, folder.path()).unwrap();
        let mut receiver = Receiver::new(Key([7; 16]), ReceiverParameters::default());
        let mut sequences = Vec::new();
        for n in 1..=3 {
            announcer.tell();
            let mut bytes = [0; 64];
            let length = daemon.recv(&mut bytes).unwrap();
            let heard = receiver.hear(Time::ns(n), &bytes[..length]).unwrap();
            assert_eq!((heard.port, heard.source, heard.lead), (80, 3, Time::ns(250_000)));
            assert!(receiver.hear(Time::ns(n), &bytes[..length]).is_err(), "heard twice");
            sequences.push(heard.sequence);
        }
        assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
        assert_eq!(announcer.failed(), 0);
        // A proxy that was started again goes on above.
        drop(announcer);
        Announcer::open(&announce, folder.path()).unwrap().tell();
        let mut bytes = [0; 64];
        let length = daemon.recv(&mut bytes).unwrap();
        assert!(receiver.hear(Time::ns(9), &bytes[..length]).unwrap().sequence > sequences[2]);
    }

    #[test]
    fn keys_that_are_none_are_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("short"), [7; 15]).unwrap();
        let open = |key: &str| {
            let to = "127.0.0.1:9".parse().unwrap();
            let announce = Announce { to, key: key.into(), port: 80, source: 1, lead_us: 0 };
            Announcer::open(&announce, folder.path()).unwrap_err()
        };
        assert!(open("short").1.ends_with("found 15 bytes, expected 16"), "{:?}", open("short"));
        assert_eq!(open("none").0, "key");
    }
}
