//! Description of a block device: where its clients come from, what holds its bytes, who completes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use halfwink_engine::{Input, InputError};
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Delay, File, Io, Modelled, Ram};

/// Policy of a description that names none, and of one whose module fails.
pub const DEFAULT_POLICY: &str = "single-thread";

/// Description of a block device.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of this format: 1.
    pub schema: u32,
    /// Socket of the file system at which to listen.
    pub unix: Option<PathBuf>,
    /// Address at which to listen; every client that can reach it may read and write.
    pub tcp: Option<SocketAddr>,
    /// Socket for virtual machines, one after another (vhost-user-blk). No policy is asked there.
    pub vhost: Option<PathBuf>,
    /// Number of queues with `vhost`, each with a thread; 1 if none is given.
    pub queues: Option<usize>,
    /// Disk of this machine, by the kernel's ublk driver.
    pub ublk: Option<Disk>,
    /// Size of a device in memory.
    pub ram: Option<Size>,
    /// A file, or a block device, as large as it is.
    pub file: Option<PathBuf>,
    /// Interface for reads and writes of a file.
    #[serde(default)]
    pub io: Io,
    /// Bypasses the page cache for whole blocks of a file, by io_uring.
    #[serde(default)]
    pub direct: bool,
    /// Mean latency of memory as a modelled device, in microseconds.
    pub latency_us: Option<f64>,
    /// Seed of these latencies.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Rejects writes, trims and write-zeroes requests.
    #[serde(default)]
    pub read_only: bool,
    /// Name of the export.
    pub export: Option<String>,
    /// Completion policy, with parameters.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// Rest of a thread without work.
    #[serde(default = "default_rest")]
    pub rest: String,
    /// CPUs that serve, a thread each, as the kernel writes lists: `0-3,8`; all that are allowed if
    /// none is given.
    pub cpus: Option<String>,
    /// Keeps each thread to its CPU.
    #[serde(default = "default_pin")]
    pub pin: bool,
    /// Largest number of simultaneous connections; 1,000 if none is given.
    pub connections: Option<u64>,
}

/// Number of a disk of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a number below 1048576, or \"any\"")]
pub enum Disk {
    /// The number N of `/dev/ublkbN`.
    Number(u32),
    /// Any number that is free.
    Any(Free),
}

/// Any number that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Free {
    /// The only value, written as `any`.
    Any,
}

impl Disk {
    /// Returns the number, if one is given.
    #[must_use]
    pub fn number(self) -> Option<u32> {
        match self {
            Disk::Number(number) => Some(number),
            Disk::Any(_) => None,
        }
    }
}

/// Bytes, written as `4096`, `64K`, `256M` or `1G` in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct Size(u64);

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        let wrong = || {
            format!(
                "found {text:?}, expected bytes as \"4096\", \"64K\", \"256M\" or \"1G\", up to 1P"
            )
        };
        // Powers of 1,024, as QEMU and nbdkit read sizes.
        let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
        let shift = match &text[digits.len()..] {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << shift).filter(|b| (1..=1 << 50).contains(b));
        bytes.map(Size).ok_or_else(wrong)
    }
}

const fn default_seed() -> u64 {
    1
}

fn default_policy() -> String {
    DEFAULT_POLICY.to_owned()
}

fn default_rest() -> String {
    "auto".to_owned()
}

const fn default_pin() -> bool {
    true
}

/// Keys that only a restart can change: all but `connections`, `policy` and `rest`.
pub const FIXED: [&str; 15] = [
    "unix",
    "tcp",
    "vhost",
    "queues",
    "ublk",
    "ram",
    "file",
    "io",
    "direct",
    "latency_us",
    "seed",
    "read_only",
    "export",
    "cpus",
    "pin",
];

/// A key, the value found, and what was expected.
pub type Wrong = (&'static str, String);

impl Config {
    /// Parses a description whose paths start at `folder`.
    ///
    /// # Errors
    /// The file, the line, the value found, and what was expected.
    pub fn parse(input: &Input, folder: &Path) -> Result<Config, InputError> {
        let mut config: Config = input.parse()?;
        config.check().map_err(|(key, message)| input.error_at_key(key, &message))?;
        for path in [&mut config.unix, &mut config.vhost, &mut config.file].into_iter().flatten() {
            *path = folder.join(&path);
        }
        Ok(config)
    }

    fn check(&self) -> Result<(), Wrong> {
        let expected = |key, found: &dyn std::fmt::Display, expected: &str| {
            Err((key, format!("found {found}, expected {expected}")))
        };
        // Before all else: another version may mean something else by each key.
        if self.schema != 1 {
            return expected("schema", &self.schema, "1");
        }
        self.check_front()?;
        match (&self.ram, &self.file) {
            (Some(_), None) | (None, Some(_)) => {}
            (None, None) => return expected("schema", &"neither `ram` nor `file`", "one of them"),
            (Some(_), Some(_)) => return Err(("file", "expected no `ram` beside it".to_owned())),
        }
        if let Some(us) = self.latency_us {
            if !(0.1..=1e6).contains(&us) {
                return expected("latency_us", &us, "0.1 to 1000000");
            }
            if self.ram.is_none() {
                return Err(("latency_us", "expected `ram` beside it".to_owned()));
            }
        }
        // Calls have no way past the cache, so `direct` would change nothing without a word.
        if self.direct && (self.file.is_none() || self.io == Io::Sync) {
            let why = "expected `file`, and `io` that is uring or auto: calls have a cache";
            return Err(("direct", why.to_owned()));
        }
        if let Some(export) = self.export.as_ref().filter(|e| e.len() > 255 || e.contains('\0')) {
            return expected("export", &export.len(), "255 bytes at most, none of them zero");
        }
        if let Some(queues) = self.queues.filter(|queues| !(1..=64).contains(queues)) {
            return expected("queues", &queues, "1 to 64");
        }
        match self.connections {
            Some(count) if !(1..=60_000).contains(&count) => {
                expected("connections", &count, "1 to 60000")
            }
            _ => Ok(()),
        }
    }

    /// Checks that requests come in one way, and that nothing is said that it has no use for.
    fn check_front(&self) -> Result<(), Wrong> {
        let fronts = [
            ("unix", self.unix.is_some()),
            ("tcp", self.tcp.is_some()),
            ("vhost", self.vhost.is_some()),
            ("ublk", self.ublk.is_some()),
        ];
        let mut given = fronts.iter().filter(|(_, given)| *given).map(|&(key, _)| key);
        let Some(front) = given.next() else {
            return Err((
                "schema",
                "expected `unix`, `tcp`, `ublk` or `vhost` beside it".to_owned(),
            ));
        };
        if let Some(other) = given.next() {
            return Err((other, format!("expected no `{front}` beside it")));
        }
        let sockets = [("unix", &self.unix), ("vhost", &self.vhost)];
        // Linux would invent a name that no rights of a folder guard.
        let empty =
            |path: &Option<PathBuf>| path.as_ref().is_some_and(|it| it.as_os_str().is_empty());
        if let Some((key, _)) = sockets.into_iter().find(|(_, path)| empty(path)) {
            return Err((key, "found an empty path, expected that of a socket".to_owned()));
        }
        let is_net = matches!(front, "unix" | "tcp");
        // A key without effect is an error: the device would differ from what its owner reads.
        for (key, is_given, has_use) in [
            ("queues", self.queues.is_some(), front == "vhost"),
            ("export", self.export.is_some(), is_net),
            ("connections", self.connections.is_some(), is_net),
            ("latency_us", self.latency_us.is_some(), is_net),
            ("direct", self.direct, is_net),
        ] {
            if is_given && !has_use {
                return Err((key, format!("`{front}` has no use for it")));
            }
        }
        match self.ublk {
            Some(Disk::Number(number)) if number >= 1 << 20 => {
                Err(("ublk", format!("found {number}, expected a number below 1048576")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the largest number of simultaneous connections.
    #[must_use]
    pub fn most_connections(&self) -> u64 {
        self.connections.unwrap_or(1000)
    }

    /// Checks that the file that holds the bytes can be opened, and that folders of sockets exist.
    ///
    /// # Errors
    /// The key, and why not.
    pub fn verify(&self) -> Result<(), Wrong> {
        let sockets = [("unix", &self.unix), ("vhost", &self.vhost)];
        for (key, path) in sockets.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?)))
        {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                let found = folder.display();
                return Err((key, format!("found no folder {found}, expected one that is there")));
            }
        }
        let Some(path) = &self.file else { return Ok(()) };
        let size = File::size(path, self.read_only);
        size.map(drop).map_err(|e| ("file", format!("{}: {e}", path.display())))
    }

    /// Opens what holds the bytes.
    ///
    /// # Errors
    /// The machine does not have that much memory, or the file cannot be opened or is another
    /// server's.
    pub fn backend(&self) -> Result<Box<dyn Backend>, String> {
        if let Some(path) = &self.file {
            // Requests of virtual machines and of the kernel are served one by one.
            let by_calls = self.vhost.is_some() || self.ublk.is_some();
            let io = if by_calls { Io::Sync } else { self.io };
            let file = File::open_by(path, self.read_only, io, self.direct);
            return Ok(Box::new(file.map_err(|e| format!("file {}: {e}", path.display()))?));
        }
        let Size(bytes) = self.ram.unwrap_or(Size(0));
        let wrong = |e| format!("ram of {bytes} bytes: {e}");
        Ok(match self.latency_us {
            None => Box::new(Ram::new(bytes).map_err(wrong)?),
            Some(us) => {
                let delay = Delay { mean_ns: us * 1e3, seed: self.seed };
                Box::new(Modelled::new(bytes, delay).map_err(wrong)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, InputError> {
        Config::parse(&Input::new("b.toml", text), Path::new("/etc/halfwink"))
    }

    #[test]
    fn shortest_description_gets_defaults() {
        let config = parse("schema = 1\nunix = \"s\"\nram = \"64K\"\n").unwrap();
        assert_eq!(config.unix.as_deref(), Some(Path::new("/etc/halfwink/s")));
        assert_eq!((config.ram, config.io), (Some(Size(65_536)), Io::Auto));
        assert_eq!((config.policy.as_str(), config.rest.as_str()), ("single-thread", "auto"));
        assert!(config.pin && config.most_connections() == 1000);
        let number = |text: &str| parse(&format!("schema = 1\n{text}\nram = \"1G\"\n"));
        assert_eq!(number("ublk = 5").unwrap().ublk.and_then(Disk::number), Some(5));
        assert_eq!(number("ublk = \"any\"").unwrap().ublk.and_then(Disk::number), None);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            ("schema = 2\nunix = \"s\"\nram = \"1\"", "b.toml:1: schema: found 2, expected 1"),
            ("schema = 1\nram = \"1\"", "b.toml:1: schema: expected `unix`"),
            ("schema = 1\nunix = \"s\"", "b.toml:1: schema: found neither"),
            (
                "schema = 1\nunix = \"s\"\nram = \"many\"",
                "b.toml:3: found \"many\", expected bytes",
            ),
            ("schema = 1\nunix = \"s\"\nram = \"1\"\nfile = \"f\"", "b.toml:4: file: expected no"),
            ("schema = 1\nublk = \"x\"\nram = \"1\"", "b.toml:2: expected a number below 1048576"),
            ("schema = 1\nublk = 1048576\nram = \"1\"", "b.toml:2: ublk: found 1048576"),
            (
                "schema = 1\nublk = 1\nunix = \"s\"\nram = \"1\"",
                "b.toml:2: ublk: expected no `unix`",
            ),
            (
                "schema = 1\nublk = 1\nram = \"1\"\nqueues = 2",
                "b.toml:4: queues: `ublk` has no use",
            ),
            ("schema = 1\nvhost = \"s\"\nfile = \"f\"\ndirect = true", "b.toml:4: direct: `vhost`"),
            ("schema = 1\nunix = \"s\"\nram = \"1\"\ndirect = true", "b.toml:4: direct: expected"),
            ("schema = 1\nunix = \"s\"\nfile = \"f\"\nio = \"x\"", "b.toml:4: "),
            ("schema = 1\nunix = \"s\"\nfile = \"f\"\nlatency_us = 5", "b.toml:4: latency_us: exp"),
            (
                "schema = 1\nunix = \"s\"\nram = \"1\"\nlatency_us = 0",
                "b.toml:4: latency_us: found",
            ),
            ("schema = 1\nunix = \"s\"\nram = \"1\"\nconnections = 0", "b.toml:4: connections: f"),
            ("schema = 1\nunix = \"s\"\nram = \"1\"\nplicy = \"same\"", "b.toml:4: "),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn sizes_are_bytes_in_binary_units() {
        for (text, bytes) in [("1", 1), ("64K", 65_536), ("2M", 2 << 20), ("1T", 1 << 40)] {
            assert_eq!(Size::try_from(text.to_owned()), Ok(Size(bytes)));
        }
        for wrong in ["", "0", "K", "1k", "-1", "1.5G", "2000T", "99999999999999999999"] {
            assert!(Size::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
