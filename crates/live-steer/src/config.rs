//! What a user writes to describe a steering proxy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use halfwink_engine::{Input, InputError};
use halfwink_live::program::child::can_run;
use halfwink_live::program::config::exposed;
use halfwink_policy::steering::{Rest, Side, LEVELS};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use super::access::AccessLog;
use super::address::Address;
use super::announce::{Announce, Announcer, LONGEST_LEAD_US};
use super::budget;
use super::limits::Limits;
use super::power::Power;
use super::ranges::{within, wrong, Wrong, HOUR_MS};

/// Policy of a description that names none, and of one whose module fails.
pub const DEFAULT_POLICY: &str = "hybrid";

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
    /// The pair or set of the library whose watts the virtual power meter takes, and whose values
    /// policies take. Without one, energy is not reported.
    pub machine: Option<String>,
    /// Workload of that machine that the requests resemble, for policies that need service times
    /// (default: `readfile`, or the first one that the
    /// machine has).
    pub workload: Option<String>,
    /// Values of that machine to set: path and value.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Access log: a line for each request.
    pub access_log: Option<AccessLog>,
    /// Certificate and key; without, it speaks in clear text.
    pub tls: Option<Tls>,
    /// The small machine of a pair.
    pub small: Option<Machine>,
    /// The big machine of a pair.
    pub big: Option<Machine>,
    /// Machines of a set that is no pair, in the order of their activation.
    #[serde(default)]
    pub machines: Vec<Machine>,
    /// Health checks of the machines.
    #[serde(default)]
    pub health: Health,
    /// Limits on clients and machines.
    #[serde(default)]
    pub limits: Limits,
    /// Header fields that describe clients to machines.
    #[serde(default)]
    pub headers: Headers,
    /// Announcers of requests to each machine.
    #[serde(skip)]
    pub announcers: Vec<Option<Arc<Announcer>>>,
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
    /// Name in reports, metrics and logs, for a machine of a set; those of a pair are `small` and
    /// `big`.
    pub name: Option<String>,
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
    /// Mechanisms of deeper levels of sleep, each reached from the one before. A machine wakes by
    /// the mechanism of the level at which it is.
    #[serde(default)]
    pub levels: Vec<Power>,
    /// A wake-up that takes longer has failed, in milliseconds.
    #[serde(default = "default_wake_timeout_ms")]
    pub wake_timeout_ms: u64,
    /// Least time awake between two sleeps, in milliseconds.
    #[serde(default)]
    pub least_awake_ms: u64,
    /// Sleeps in a day, at most; without it, any number.
    pub sleeps_per_day: Option<u32>,
    /// Program and arguments that are run before each sleep: unless it succeeds, the machine stays
    /// on, and is asked about again later.
    #[serde(default)]
    pub may_sleep: Vec<String>,
    /// Name of a group of machines that wake together and sleep together, such as those of one
    /// chassis.
    pub group: Option<String>,
    /// Time until `may_sleep` is run again, in milliseconds.
    #[serde(default = "default_ask_again_ms")]
    pub ask_again_ms: u64,
    /// Time between two queries of its power state, which another program may change, in
    /// milliseconds; 0: only changes by the proxy are known.
    #[serde(default = "default_power_query_ms")]
    pub power_query_ms: u64,
    /// Daemon that is notified of each request before it is sent: a preheating daemon.
    pub announce: Option<Announce>,
}

impl Machine {
    /// Returns the bounds on how often it sleeps.
    pub(super) fn rest(&self) -> Rest {
        // Picoseconds. `check` allows one day, so that this cannot overflow.
        let least_awake = Time(self.least_awake_ms * 1_000_000_000);
        Rest { least_awake, per_day: self.sleeps_per_day }
    }

    /// Returns the number of levels of sleep, 1 or more.
    #[must_use]
    pub fn count_levels(&self) -> usize {
        1 + self.levels.len()
    }

    /// Returns the mechanism of a level of sleep, from 0; of the deepest one beyond it.
    pub(super) fn power_at(&self, level: usize) -> &Power {
        let deeper = level.min(self.levels.len()).checked_sub(1);
        deeper.map_or(&self.power, |place| &self.levels[place])
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
    DEFAULT_POLICY.to_owned()
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

const fn default_ask_again_ms() -> u64 {
    1_000
}

const fn default_power_query_ms() -> u64 {
    10_000
}

/// Converts from milliseconds.
pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Keys that only a restart can change: sockets and threads are made at the start.
pub(super) const FIXED: [&str; 4] = ["listen", "mode", "threads", "tls"];

/// The largest number of machines of a set: a word has a bit for each, which wakes its keeper.
pub const MOST_MACHINES: usize = 64;

/// The largest number of characters of a machine's name.
const LONGEST_NAME: usize = 32;

impl Config {
    /// Returns whether it describes a small and a big machine.
    #[must_use]
    pub fn is_pair(&self) -> bool {
        self.machines.is_empty()
    }

    /// Returns the machines in the order of their activation: the small one of a pair first.
    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.small.iter().chain(&self.big).chain(&self.machines)
    }

    /// Returns the machines as policies name them, in their order.
    pub fn sides(&self) -> impl Iterator<Item = Side> + use<> {
        let is_pair = self.is_pair();
        // `check_set` allows 64 machines: a place fits in a byte.
        let side = move |place| if is_pair { Side::BOTH[place] } else { Side::Place(place as u8) };
        (0..self.machines().count()).map(side)
    }

    /// Returns the description of a machine.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn machine(&self, side: Side) -> &Machine {
        match (&self.small, &self.big) {
            (Some(small), Some(big)) => [small, big][side.index()],
            _ => &self.machines[side.index()],
        }
    }

    /// Returns the name of a machine in reports, metrics and logs.
    pub fn name(&self, side: Side) -> &str {
        match side {
            Side::Small => "small",
            Side::Big => "big",
            // `check_set` demands a name of each machine of a set.
            Side::Place(_) => self.machine(side).name.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the number of the group in which a machine is: the place of its first machine.
    pub(super) fn group(&self, side: Side) -> Option<u8> {
        let group = self.machine(side).group.as_ref()?;
        self.machines().position(|machine| machine.group.as_ref() == Some(group)).map(|at| at as u8)
    }

    /// Returns where a machine stands in the description: `big`, or `machines.2`.
    pub(super) fn key(&self, side: Side) -> String {
        match side {
            Side::Place(place) => format!("machines.{place}"),
            _ => self.name(side).to_owned(),
        }
    }

    /// Parses a description for this machine: it may have a descriptor for each connection, and
    /// runs the programs that the description names.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_here(input: &Input, folder: &Path) -> Result<Config, InputError> {
        let config = Config::parse(input, folder)?;
        budget::check(&config, budget::most())
            .map_err(|(key, message)| input.error_at_key(&key, &message))?;
        config
            .ways()
            .try_for_each(|(key, power)| power.check_parts().map_err(|message| (key, message)))
            .and_then(|()| config.check_askers())
            .map_err(|(key, message): Wrong| input.error_at_key(&key, &message))?;
        if let Some(log) = &config.access_log {
            log.check().map_err(|message| input.error_at_key("access_log.file", &message))?;
        }
        Ok(config)
    }

    /// Returns the ways in which machines sleep, at all levels, with their keys.
    fn ways(&self) -> impl Iterator<Item = (String, &Power)> {
        self.sides().flat_map(|side| {
            let (key, machine) = (self.key(side), self.machine(side));
            let levels = machine.levels.iter().enumerate();
            let at = key.clone();
            let deeper = move |(place, level)| (format!("{at}.levels.{place}"), level);
            std::iter::once((format!("{key}.power"), &machine.power)).chain(levels.map(deeper))
        })
    }

    /// Checks that the programs which machines are asked about can be run.
    fn check_askers(&self) -> Result<(), Wrong> {
        for side in self.sides() {
            match self.machine(side).may_sleep.first() {
                Some(program) if !can_run(program) => {
                    let message = format!("found {program}, expected a program that can be run");
                    return wrong(&format!("{}.may_sleep", self.key(side)), message);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that the interfaces of its machines' power answer.
    ///
    /// # Errors
    /// The machine's line in the text that it was read from, and why its power state is not known.
    pub fn verify(&self, input: &Input) -> Result<(), InputError> {
        let at = |key: &str, why: &dyn std::fmt::Display| input.error_at_key(key, &why.to_string());
        if let Some(tls) = &self.tls {
            crate::tls::acceptor(tls).map_err(|why| at("tls", &why))?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| at("machines", &e))?;
        self.ways().try_for_each(|(key, power)| {
            runtime.block_on(power.verify()).map_err(|why| at(&key, &why))
        })
    }

    /// Reads a description from a text; files that it names are relative to `folder`.
    ///
    /// # Errors
    /// The file, the line, the value found, and what was expected.
    pub fn parse(input: &Input, folder: &Path) -> Result<Config, InputError> {
        let mut config: Config = input.parse()?;
        config.check().map_err(|(key, message)| input.error_at_key(&key, &message))?;
        if let Some(tls) = &mut config.tls {
            tls.cert = folder.join(&tls.cert);
            tls.key = folder.join(&tls.key);
        }
        if let Some(log) = &mut config.access_log {
            // That is standard output, and no file of the folder.
            if log.file.as_os_str() != "-" {
                log.file = folder.join(&log.file);
            }
        }
        let Config { small, big, machines, .. } = &mut config;
        for machine in small.iter_mut().chain(big).chain(machines) {
            machine.power.set_folder(folder);
            machine.levels.iter_mut().for_each(|level| level.set_folder(folder));
        }
        let open = |side| {
            let Some(announce) = &config.machine(side).announce else { return Ok(None) };
            let announcer = Announcer::open(announce, folder).map_err(|(key, message)| {
                input.error_at_key(&format!("{}.announce.{key}", config.key(side)), &message)
            })?;
            Ok(Some(Arc::new(announcer)))
        };
        config.announcers = config.sides().map(open).collect::<Result<_, InputError>>()?;
        Ok(config)
    }

    /// Lines about keys that others than their owner may read.
    pub(super) fn exposed(&self) -> Vec<String> {
        let tls = self.tls.iter().map(|tls| tls.key.as_path());
        let announcers = self.announcers.iter().flatten().map(|one| one.path.as_path());
        let secrets: Vec<_> = self.ways().filter_map(|(_, power)| power.secret()).collect();
        tls.chain(announcers).chain(secrets).filter_map(exposed).collect()
    }

    fn check(&self) -> Result<(), Wrong> {
        within("schema", u64::from(self.schema), 1, 1)?;
        within("threads", self.threads as u64, 1, 256)?;
        if self.mode == Mode::Tcp && self.tls.is_some() {
            return wrong("tls", "found with mode tcp, expected only with mode http");
        }
        if self.machine.is_none() {
            let message = "found without `machine`, of which it is a part";
            if self.workload.is_some() {
                return wrong("workload", message);
            }
            if !self.set.is_empty() {
                return wrong("set", message);
            }
        }
        // Before all that uses `machine`, which panics where half of a pair is missing.
        self.check_set()?;
        self.sides().try_for_each(|side| self.machine(side).check(&self.key(side)))?;
        let health = &self.health;
        within("health.rise", u64::from(health.rise), 1, 1000)?;
        within("health.fall", u64::from(health.fall), 1, 1000)?;
        within("health.interval_ms", health.interval_ms, 0, HOUR_MS)?;
        within("health.timeout_ms", health.timeout_ms, 1, HOUR_MS)?;
        // The path becomes a part of a request line, which a blank or a line end would break.
        let plain = |path: &String| {
            path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic()) && path.len() < 1024
        };
        match &health.path {
            Some(path) if !plain(path) => {
                wrong("health.path", format!("found {path:?}, expected a path such as /health"))
            }
            _ => self.limits.check(),
        }
    }

    /// Checks that there is a pair or a set, and that no two of its machines are one.
    fn check_set(&self) -> Result<(), Wrong> {
        match (&self.small, &self.big) {
            (None, None) if self.machines.is_empty() => {
                return wrong(
                    "machines",
                    "found none, expected [small] and [big], or [[machines]]",
                );
            }
            (None, Some(_)) => return wrong("big", "found without [small], expected both"),
            (Some(_), None) => return wrong("small", "found without [big], expected both"),
            (Some(_), Some(_)) if !self.machines.is_empty() => {
                return wrong(
                    "machines",
                    "found with [small] and [big], expected one or the other",
                );
            }
            _ => {}
        }
        within("machines", self.machines.len() as u64, 0, MOST_MACHINES as u64)?;
        for side in self.sides() {
            let (key, machine) = (self.key(side), self.machine(side));
            // Earlier ones alone, so that the error names the second of two.
            let before = || self.machines().take(side.index());
            if before().any(|other| other.address == machine.address) {
                let message = format!("found {} twice, expected two servers", machine.address);
                return wrong(&format!("{key}.address"), message);
            }
            let at = format!("{key}.name");
            match &machine.name {
                None if self.is_pair() => {}
                Some(_) if self.is_pair() => {
                    return wrong(&at, "expected none: the machines of a pair have their names");
                }
                None => return wrong(&key, "expected a `name`"),
                Some(name) => {
                    check_name(&at, name)?;
                    if before().any(|other| other.name.as_ref() == Some(name)) {
                        return wrong(&at, format!("found {name} twice, expected two names"));
                    }
                }
            }
            self.check_group(&format!("{key}.group"), machine)?;
        }
        Ok(())
    }

    /// Checks the group of a machine, if it is in one, whose key is `at`.
    fn check_group(&self, at: &str, machine: &Machine) -> Result<(), Wrong> {
        let Some(group) = &machine.group else { return Ok(()) };
        check_name(at, group)?;
        if self.machines().filter(|other| other.group.as_ref() == Some(group)).count() < 2 {
            return wrong(at, format!("found {group} once, expected two machines of it, or more"));
        }
        // A policy takes each machine to a deeper level by itself.
        if !machine.levels.is_empty() {
            return wrong(at, "found with `levels`, expected one or the other");
        }
        Ok(())
    }
}

impl Machine {
    /// Checks the values of a machine whose keys begin with `at`.
    fn check(&self, at: &str) -> Result<(), Wrong> {
        let within = |key, found, least, most| within(&format!("{at}.{key}"), found, least, most);
        within("workers", self.workers as u64, 1, 4096)?;
        within("queue", self.queue as u64, 0, 1 << 20)?;
        within("wake_timeout_ms", self.wake_timeout_ms, 1, HOUR_MS)?;
        within("least_awake_ms", self.least_awake_ms, 0, 24 * HOUR_MS)?;
        within("sleeps_per_day", u64::from(self.sleeps_per_day.unwrap_or(1)), 1, 86_400)?;
        within("ask_again_ms", self.ask_again_ms, 1, HOUR_MS)?;
        within("power_query_ms", self.power_query_ms, 0, 24 * HOUR_MS)?;
        self.power.check().map_err(|message| (format!("{at}.power"), message))?;
        within("levels", self.levels.len() as u64, 0, LEVELS as u64 - 1)?;
        for (place, level) in self.levels.iter().enumerate() {
            let key = format!("{at}.levels.{place}");
            if *level == Power::default() {
                return wrong(&key, "found kind none, expected one that sends it deeper");
            }
            level.check().map_err(|message| (key, message))?;
        }
        if let Some(announce) = &self.announce {
            within("announce.port", u64::from(announce.port), 1, u64::from(u16::MAX))?;
            within("announce.lead_us", u64::from(announce.lead_us), 0, LONGEST_LEAD_US)?;
        }
        Ok(())
    }
}

/// Checks that a name can stand in a label of a metric, and in a line of a log, as it is.
fn check_name(at: &str, name: &str) -> Result<(), Wrong> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    if (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    let expected = "letters, digits, `.`, `-` and `_`";
    wrong(at, format!("found {name:?}, expected 1 to {LONGEST_NAME} {expected}"))
}
