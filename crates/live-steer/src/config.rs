//! What a user writes to describe a steering proxy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use halfwink_engine::{Input, InputError};
use halfwink_live::program::config::{exposed, read};
use halfwink_policy::steering::{Rest, Side};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use super::access::AccessLog;
use super::announce::{Announce, Announcer, LONGEST_LEAD_US};
use super::budget;
use super::power::Power;

/// A steering proxy, as described in a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of the format: 1.
    pub schema: u32,
    /// Address that it listens on: `ADDRESS:PORT`.
    pub listen: std::net::SocketAddr,
    /// Protocol that it carries.
    #[serde(default)]
    pub mode: Mode,
    /// Threads, each with connections, timers and a pool of its own; the kernel spreads
    /// connections over them.
    #[serde(default = "default_threads")]
    pub threads: usize,
    /// Name of the steering policy.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// The pair of the library whose watts the virtual power meter takes, and whose values
    /// policies take. Without one, energy is not reported.
    pub machine: Option<String>,
    /// Workload of that machine that the requests resemble, for policies that need service times
    /// (default: `readfile`).
    pub workload: Option<String>,
    /// Values of that machine to set: path and value.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Access log: a line for each request.
    pub access_log: Option<AccessLog>,
    /// Certificate and key; without, it speaks in clear text.
    pub tls: Option<Tls>,
    /// Description of the small machine.
    pub small: Machine,
    /// Description of the big machine.
    pub big: Machine,
    /// Health checks of the machines.
    #[serde(default)]
    pub health: Health,
    /// Limits on clients and machines.
    #[serde(default)]
    pub limits: Limits,
    /// Header fields that describe clients to machines.
    #[serde(default)]
    pub headers: Headers,
    /// Announcers of requests to the small and to the big machine.
    #[serde(skip)]
    pub announcers: [Option<Arc<Announcer>>; 2],
}

/// Protocol that a proxy carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// HTTP/1.1 and HTTP/2; a request is a request.
    #[default]
    Http,
    /// Bytes; a connection is a request.
    Tcp,
}

/// Files in PEM; relative to the description.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate, with its chain.
    pub cert: PathBuf,
    /// File with the private key.
    pub key: PathBuf,
}

/// A machine: a server, and how it is put to sleep.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Address of the machine: `ADDRESS:PORT`, or `unix:PATH`.
    pub address: Address,
    /// Requests in service, at most.
    #[serde(default = "default_workers")]
    pub workers: usize,
    /// Requests that wait for a worker, or for the machine to wake, at most.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// Mechanism by which it sleeps.
    #[serde(default)]
    pub power: Power,
    /// A wake-up that takes longer has failed, in milliseconds.
    #[serde(default = "default_wake_timeout_ms")]
    pub wake_timeout_ms: u64,
    /// Least time awake between two sleeps, in milliseconds.
    #[serde(default)]
    pub least_awake_ms: u64,
    /// Sleeps in a day, at most; without it, any number.
    pub sleeps_per_day: Option<u32>,
    /// Daemon that is notified of each request before it is sent: a preheating daemon.
    pub announce: Option<Announce>,
}

/// Address of a machine's server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// An address of TCP.
    Tcp(std::net::SocketAddr),
    /// A socket of this machine.
    Unix(PathBuf),
}

impl Machine {
    /// Returns its bounds: requests in service, requests that wait, and how often it sleeps.
    pub(super) fn bounds(&self) -> (usize, usize, Rest) {
        let least_awake = Time(self.least_awake_ms * 1_000_000_000);
        (self.workers, self.queue, Rest { least_awake, per_day: self.sleeps_per_day })
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(path.into()));
        }
        text.parse().map(Address::Tcp).map_err(|_| {
            format!(
                "found address {text}, expected ADDRESS:PORT such as 127.0.0.1:8081, or unix:PATH"
            )
        })
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Health checks of the machines. A sleeping machine is not checked.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// Asked for by GET: below 400 is well. Without, a connection is enough.
    pub path: Option<String>,
    /// Between two checks, in milliseconds; 0: only requests tell.
    pub interval_ms: u64,
    /// A check that takes longer has failed, in milliseconds.
    pub timeout_ms: u64,
    /// Number of consecutive successful health checks after which a machine counts as up.
    pub rise: u32,
    /// Number of consecutive failed checks or connections after which a machine counts as lost.
    pub fall: u32,
}

impl Default for Health {
    fn default() -> Health {
        Health { path: None, interval_ms: 1000, timeout_ms: 1000, rise: 1, fall: 2 }
    }
}

/// Limits on clients and machines. Times are in milliseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest number of client connections.
    pub connections: usize,
    /// Largest number of connections of one client: an IPv4 address, or a /64 network of IPv6.
    pub client_connections: usize,
    /// Memory for bodies before they are steered, and for answers that clients have not taken.
    pub memory_bytes: usize,
    /// Part of it that one client may have.
    pub client_memory_bytes: usize,
    /// Bytes of one answer that wait for the client, so that the machine is free for others.
    pub answer_bytes: usize,
    /// Rate below which a client is dropped, in bytes/s: for bodies that it sends, with a slack of
    /// `body_timeout_ms`, and for answers that it takes, with one of `response_timeout_ms`.
    pub client_bytes_per_s: u64,
    /// Time for which the requests of a client may keep machines waiting for it while others wait
    /// for those machines. A client that takes 1 MiB/s spends none of it.
    pub hold_ms: u64,
    /// Request line and header fields together.
    pub header_bytes: usize,
    /// Largest number of header fields.
    pub header_fields: usize,
    /// Longest request target.
    pub target_bytes: usize,
    /// Body of a request.
    pub body_bytes: u64,
    /// Bytes of a body that are read before the request is steered: a slow client holds no worker.
    pub buffer_bytes: usize,
    /// Timeout from the first byte of a header to its last.
    pub header_timeout_ms: u64,
    /// A connection without requests.
    pub idle_timeout_ms: u64,
    /// Slack of a client that sends a body.
    pub body_timeout_ms: u64,
    /// Between two pieces of a response, from a machine that is awake; and the slack of a client
    /// that takes an answer.
    pub response_timeout_ms: u64,
    /// Timeout of a connection to a machine.
    pub connect_timeout_ms: u64,
    /// Timeout in a queue.
    pub queue_timeout_ms: u64,
    /// Further attempts of one request.
    pub retries: u32,
    /// Idle connections kept to each machine, by each thread.
    pub pool: usize,
    /// Streams of one HTTP/2 connection.
    pub streams: u32,
    /// At the end, for requests under way.
    pub drain_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 10_000,
            client_connections: 1000,
            memory_bytes: 256 << 20,
            client_memory_bytes: 32 << 20,
            answer_bytes: 8 << 20,
            client_bytes_per_s: 1024,
            hold_ms: 500,
            header_bytes: 32 << 10,
            header_fields: 100,
            target_bytes: 8 << 10,
            body_bytes: 1 << 30,
            buffer_bytes: 64 << 10,
            header_timeout_ms: 10_000,
            idle_timeout_ms: 60_000,
            body_timeout_ms: 10_000,
            response_timeout_ms: 30_000,
            connect_timeout_ms: 1_000,
            queue_timeout_ms: 30_000,
            retries: 2,
            pool: 64,
            streams: 128,
            drain_ms: 10_000,
        }
    }
}

/// Header fields that describe clients to machines.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Headers {
    /// Adds `Via`, both ways.
    pub via: bool,
    /// `X-Forwarded-For`, `-Proto`, `-Host` in place of what the client says.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239), likewise.
    pub forwarded: bool,
    /// Clients are proxies whose word is taken: theirs are kept, and added to.
    pub trust: bool,
}

impl Default for Headers {
    fn default() -> Headers {
        Headers { via: true, x_forwarded: true, forwarded: false, trust: false }
    }
}

fn default_policy() -> String {
    "hybrid".to_owned()
}

const fn default_threads() -> usize {
    1
}

const fn default_workers() -> usize {
    4
}

const fn default_queue() -> usize {
    1024
}

const fn default_wake_timeout_ms() -> u64 {
    10_000
}

/// Converts from milliseconds.
pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Keys that only a restart can change: sockets and threads are made at the start.
pub(super) const FIXED: [&str; 4] = ["listen", "mode", "threads", "tls"];

type Wrong = (&'static str, String);

impl Config {
    /// Returns the description of a machine.
    pub fn machine(&self, side: Side) -> &Machine {
        if side == Side::Small {
            &self.small
        } else {
            &self.big
        }
    }

    /// Reads a description, for this machine: it may have a descriptor for each connection.
    ///
    /// # Errors
    /// The file, the line and what was expected.
    pub fn read(path: &Path) -> Result<Config, InputError> {
        let input = read(path)?;
        let config = Config::parse(&input, path.parent().unwrap_or(Path::new("")))?;
        budget::check(&config, budget::most())
            .map_err(|(key, message)| input.error_at_key(key, &message))?;
        if let Some(log) = &config.access_log {
            log.check().map_err(|message| input.error_at_key("access_log.file", &message))?;
        }
        Ok(config)
    }

    /// Reads a description from a text; files that it names are relative to `folder`.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(input: &Input, folder: &Path) -> Result<Config, InputError> {
        let mut config: Config = input.parse()?;
        config.check().map_err(|(key, message)| input.error_at_key(key, &message))?;
        if let Some(tls) = &mut config.tls {
            tls.cert = folder.join(&tls.cert);
            tls.key = folder.join(&tls.key);
        }
        if let Some(log) = &mut config.access_log {
            if log.file.as_os_str() != "-" {
                log.file = folder.join(&log.file);
            }
        }
        for (at, machine) in [("small", &config.small), ("big", &config.big)].iter().enumerate() {
            let (name, Machine { announce: Some(announce), .. }) = machine else { continue };
            let announcer = Announcer::open(announce, folder).map_err(|(key, message)| {
                input.error_at_key(&format!("{name}.announce.{key}"), &message)
            })?;
            config.announcers[at] = Some(Arc::new(announcer));
        }
        Ok(config)
    }

    /// Lines about keys that others than their owner may read.
    pub(super) fn exposed(&self) -> Vec<String> {
        let tls = self.tls.iter().map(|tls| tls.key.as_path());
        let announcers = self.announcers.iter().flatten().map(|one| one.path.as_path());
        tls.chain(announcers).filter_map(exposed).collect()
    }

    fn check(&self) -> Result<(), Wrong> {
        within("schema", u64::from(self.schema), 1, 1)?;
        within("threads", self.threads as u64, 1, 256)?;
        let of_http = [("tls", self.tls.is_some()), ("access_log", self.access_log.is_some())];
        if let Some((key, _)) = of_http.iter().find(|(_, is_there)| *is_there) {
            if self.mode == Mode::Tcp {
                return Err((key, "found with mode tcp, expected only with mode http".to_owned()));
            }
        }
        if self.small.address == self.big.address {
            let message = format!("found {} twice, expected two servers", self.big.address);
            return Err(("big.address", message));
        }
        if self.machine.is_none() {
            let message = "found without `machine`, of which it is a part".to_owned();
            if self.workload.is_some() {
                return Err(("workload", message));
            }
            if !self.set.is_empty() {
                return Err(("set", message));
            }
        }
        self.check_machines()?;
        let health = &self.health;
        within("health.rise", u64::from(health.rise), 1, 1000)?;
        within("health.fall", u64::from(health.fall), 1, 1000)?;
        within("health.interval_ms", health.interval_ms, 0, HOUR_MS)?;
        within("health.timeout_ms", health.timeout_ms, 1, HOUR_MS)?;
        let plain = |path: &String| {
            path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic()) && path.len() < 1024
        };
        match &health.path {
            Some(path) if !plain(path) => {
                Err(("health.path", format!("found {path:?}, expected a path such as /health")))
            }
            _ => self.limits.check(),
        }
    }

    fn check_machines(&self) -> Result<(), Wrong> {
        for (machine, [workers, queue, wake, awake, sleeps, power, port, lead]) in
            [(&self.small, SMALL_KEYS), (&self.big, BIG_KEYS)]
        {
            within(workers, machine.workers as u64, 1, 4096)?;
            within(queue, machine.queue as u64, 0, 1 << 20)?;
            within(wake, machine.wake_timeout_ms, 1, HOUR_MS)?;
            within(awake, machine.least_awake_ms, 0, 24 * HOUR_MS)?;
            within(sleeps, u64::from(machine.sleeps_per_day.unwrap_or(1)), 1, 86_400)?;
            machine.power.check().map_err(|message| (power, message))?;
            if let Some(announce) = &machine.announce {
                within(port, u64::from(announce.port), 1, u64::from(u16::MAX))?;
                within(lead, u64::from(announce.lead_us), 0, LONGEST_LEAD_US)?;
            }
        }
        Ok(())
    }
}

const HOUR_MS: u64 = 3_600_000;
const SMALL_KEYS: [&str; 8] = [
    "small.workers",
    "small.queue",
    "small.wake_timeout_ms",
    "small.least_awake_ms",
    "small.sleeps_per_day",
    "small.power",
    "small.announce.port",
    "small.announce.lead_us",
];
const BIG_KEYS: [&str; 8] = [
    "big.workers",
    "big.queue",
    "big.wake_timeout_ms",
    "big.least_awake_ms",
    "big.sleeps_per_day",
    "big.power",
    "big.announce.port",
    "big.announce.lead_us",
];

fn within(key: &'static str, found: u64, least: u64, most: u64) -> Result<(), Wrong> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let expected = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    Err((key, format!("found {found}, expected {expected}")))
}

impl Limits {
    fn check(&self) -> Result<(), Wrong> {
        within("limits.connections", self.connections as u64, 1, 1 << 20)?;
        within("limits.client_connections", self.client_connections as u64, 1, 1 << 20)?;
        within("limits.memory_bytes", self.memory_bytes as u64, 1 << 20, 1 << 40)?;
        let (own, all) = (self.client_memory_bytes as u64, self.memory_bytes as u64);
        within("limits.client_memory_bytes", own, 64 << 10, all)?;
        within("limits.answer_bytes", self.answer_bytes as u64, 64 << 10, own)?;
        within("limits.client_bytes_per_s", self.client_bytes_per_s, 0, 1 << 40)?;
        within("limits.hold_ms", self.hold_ms, 0, HOUR_MS)?;
        within("limits.header_bytes", self.header_bytes as u64, 256, 1 << 20)?;
        within("limits.header_fields", self.header_fields as u64, 1, MOST_FIELDS as u64)?;
        within("limits.target_bytes", self.target_bytes as u64, 16, self.header_bytes as u64)?;
        within("limits.buffer_bytes", self.buffer_bytes as u64, 0, 16 << 20)?;
        within("limits.retries", u64::from(self.retries), 0, 10)?;
        within("limits.pool", self.pool as u64, 0, 4096)?;
        within("limits.streams", u64::from(self.streams), 1, 10_000)?;
        for (key, value) in [
            ("limits.header_timeout_ms", self.header_timeout_ms),
            ("limits.idle_timeout_ms", self.idle_timeout_ms),
            ("limits.body_timeout_ms", self.body_timeout_ms),
            ("limits.response_timeout_ms", self.response_timeout_ms),
            ("limits.connect_timeout_ms", self.connect_timeout_ms),
            ("limits.queue_timeout_ms", self.queue_timeout_ms),
        ] {
            within(key, value, 1, 24 * HOUR_MS)?;
        }
        within("limits.drain_ms", self.drain_ms, 0, HOUR_MS)
    }
}

/// Header fields that a parser has room for.
pub(super) const MOST_FIELDS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str =
        "schema = 1\nlisten = \"127.0.0.1:0\"\n[small]\naddress = \"127.0.0.1:1\"\n\
                         [big]\naddress = \"unix:/run/b\"\n";

    fn parse(text: &str) -> Result<Config, InputError> {
        Config::parse(&Input::new("s.toml", text), Path::new("/etc/halfwink"))
    }

    #[test]
    fn the_shortest_description() {
        let config = parse(SHORT).unwrap();
        assert_eq!(
            (config.policy.as_str(), config.threads, config.mode),
            ("hybrid", 1, Mode::Http)
        );
        assert_eq!((config.machine, config.workload), (None, None));
        assert_eq!((config.small.workers, &config.big.power), (4, &Power::default()));
        assert_eq!(config.big.address, Address::Unix("/run/b".into()));
        assert_eq!(config.big.address.to_string(), "unix:/run/b");
        let tls = format!("{SHORT}[tls]\ncert = \"c.pem\"\nkey = \"/k.pem\"\n");
        let tls = parse(&tls).unwrap().tls.unwrap();
        assert_eq!(tls.cert, Path::new("/etc/halfwink/c.pem"));
        assert_eq!(tls.key, Path::new("/k.pem"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (from, to, expected) in [
            ("schema = 1", "schema = 2", "s.toml:1: schema: found 2, expected 1"),
            ("schema = 1", "schema = 1\nthreads = 0", "s.toml:2: threads: found 0, expected 1 to"),
            ("schema = 1", "schema = 1\nmode = \"udp\"", "s.toml:2: "),
            ("schema = 1", "schema = 1\npolcy = \"x\"", "s.toml:2: unknown field `polcy`"),
            ("127.0.0.1:1", "localhost:1", "s.toml:4: found address localhost:1"),
            ("unix:/run/b", "127.0.0.1:1", "s.toml:6: big.address: found 127.0.0.1:1 twice"),
            ("[big]", "[health]\npath = \"x y\"\n[big]", "s.toml:6: health.path: found \"x y\""),
            ("[big]", "[limits]\nretries = 99\n[big]", "s.toml:6: limits.retries: found 99"),
            ("[big]", "power = { kind = \"nap\" }\n[big]", "s.toml:5: unknown variant `nap`"),
            ("[big]", "power = { kind = \"signal\" }\n[big]", "s.toml:5: small.power: expected"),
            ("[big]", "power = { kind = \"none\", x = 1 }\n[big]", "s.toml:5: "),
            (
                "schema = 1",
                "schema = 1\nworkload = \"x\"",
                "s.toml:2: workload: found without `mach",
            ),
            ("[big]", "[set]\nx = 1\n[big]", "s.toml:5: set: found without `machine`"),
            ("[big]", "sleeps_per_day = 0\n[big]", "s.toml:5: small.sleeps_per_day: found 0"),
            ("[big]", "x = 1\n[big]", "s.toml:5: unknown field `x`"),
            ("[big]", "[health]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
            ("[big]", "[limits]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
            ("[big]", "[headers]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
            ("[big]", "[tls]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
            ("[big]", "[access_log]\nx = 1\n[big]", "s.toml:6: unknown field `x`"),
            ("[big]", "[access_log]\nfile = \"a\"\nformat = \"b\"\n[big]", "s.toml:7: unknown var"),
            (
                "schema = 1",
                "schema = 1\nmode = \"tcp\"\naccess_log = { file = \"-\" }",
                "s.toml:3: access_log: found with mode tcp",
            ),
            ("[big]", "announce = { x = 1 }\n[big]", "s.toml:5: unknown field `x`"),
        ] {
            let error = parse(&SHORT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
