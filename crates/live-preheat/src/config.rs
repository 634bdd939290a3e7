//! Description of a preheating daemon: which lines it loads, for whom, and who announces requests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use halfwink_engine::{Input, InputError};
use serde::{Deserialize, Serialize};

/// Description of a preheating daemon.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of this format: 1.
    pub schema: u32,
    /// Port of the service whose lines are loaded.
    pub port: u16,
    /// File with the set of lines to load.
    pub set: PathBuf,
    /// File in which servers report that load the preload library; made if it does not exist.
    pub shared: PathBuf,
    /// File of 16 bytes, a secret shared with those who announce requests.
    pub key: PathBuf,
    /// Address for announcements (UDP).
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// CPU of the server; the first that is allowed if none is given.
    pub cpu: Option<u32>,
    /// Takes a handshake for an announcement of a request that follows after this time, in
    /// microseconds.
    pub syn_us: Option<f64>,
    /// Period of regular loads, announced or not, in milliseconds.
    pub every_ms: Option<f64>,
    /// Spins instead of sleeping, to begin some microseconds earlier.
    #[serde(default)]
    pub awake: bool,
}

/// Keys that only a restart can change: all but `set`.
pub const FIXED: [&str; 8] =
    ["port", "shared", "key", "listen", "cpu", "syn_us", "every_ms", "awake"];

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9476))
}

impl Config {
    /// Parses a description whose paths start at `folder`.
    ///
    /// # Errors
    /// The file, the line, the value found, and what was expected.
    pub fn parse(input: &Input, folder: &Path) -> Result<Config, InputError> {
        let mut config: Config = input.parse()?;
        config.check().map_err(|(key, message)| input.error_at_key(key, &message))?;
        for path in [&mut config.set, &mut config.shared, &mut config.key] {
            *path = folder.join(&*path);
        }
        Ok(config)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        let expected = |key, found: &dyn std::fmt::Display, expected: &str| {
            Err((key, format!("found {found}, expected {expected}")))
        };
        if self.schema != 1 {
            return expected("schema", &self.schema, "1");
        }
        if self.port == 0 {
            return expected("port", &self.port, "1 to 65535");
        }
        for (key, value, most) in [("syn_us", self.syn_us, 1e4), ("every_ms", self.every_ms, 1e6)] {
            if let Some(found) = value.filter(|found| !(*found > 0.0 && *found <= most)) {
                return expected(key, &found, &format!("above 0, at most {most}"));
            }
        }
        Ok(())
    }

    /// Returns the time between a handshake and its request, if handshakes are announcements.
    #[must_use]
    pub fn syn(&self) -> Option<Duration> {
        self.syn_us.map(|us| Duration::from_secs_f64(us * 1e-6))
    }

    /// Returns the period of regular loads, if there are any.
    #[must_use]
    pub fn every(&self) -> Option<Duration> {
        self.every_ms.map(|ms| Duration::from_secs_f64(ms * 1e-3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str =
        "schema = 1\nport = 80\nset = \"a.hws\"\nshared = \"/run/heat\"\nkey = \"key\"\n";

    fn parse(text: &str) -> Result<Config, InputError> {
        Config::parse(&Input::new("p.toml", text), Path::new("/etc/halfwink"))
    }

    #[test]
    fn shortest_description_gets_defaults() {
        let config = parse(SHORT).unwrap();
        assert_eq!((config.set.as_path(), config.port), (Path::new("/etc/halfwink/a.hws"), 80));
        assert_eq!(config.shared, Path::new("/run/heat"));
        assert_eq!(config.listen.to_string(), "127.0.0.1:9476");
        assert!(config.syn().is_none() && config.every().is_none() && !config.awake);
        let more = parse(&format!("{SHORT}syn_us = 200\nevery_ms = 2\n")).unwrap();
        assert_eq!(more.syn(), Some(Duration::from_micros(200)));
        assert_eq!(more.every(), Some(Duration::from_millis(2)));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (from, to, expected) in [
            ("schema = 1", "schema = 2", "p.toml:1: schema: found 2, expected 1"),
            ("port = 80", "port = 0", "p.toml:2: port: found 0, expected 1 to 65535"),
            ("port = 80", "port = 80000", "p.toml:2: "),
            ("key = ", "kye = ", "p.toml:5: "),
            ("port = 80", "port = 80\nsyn_us = 0", "p.toml:3: syn_us: found 0, expected above 0"),
            ("port = 80", "port = 80\nevery_ms = nan", "p.toml:3: every_ms: found NaN"),
            ("port = 80", "port = 80\nlisten = \"here\"", "p.toml:3: "),
        ] {
            let error = parse(&SHORT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
