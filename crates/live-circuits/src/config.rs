//! Descriptions of the nodes of a fabric: of its switch, of a host, or of all of them in one
//! process.

use std::path::{Path, PathBuf};

use halfwink_engine::{Input, InputError};
use halfwink_policy::circuits::host::Scheme;
use halfwink_policy::circuits::sync::MOST_HOSTS;
use serde::{Deserialize, Serialize};

use crate::port::LONGEST;

/// Schedule of a description that names none.
const DEFAULT_POLICY: &str = "round-robin";

/// Part that a process has in a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The circuit switch between the hosts.
    Switch,
    /// A host's side of its wire.
    Host,
    /// All nodes, each in a network namespace of its own.
    Fabric,
}

/// Description of a node, or of a whole fabric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Config {
    /// Description of a switch.
    Switch(SwitchConfig),
    /// Description of a host.
    Host(HostConfig),
    /// Description of a fabric, which names those of its nodes.
    Fabric(FabricConfig),
}

/// Description of a switch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Version of this format: 1.
    pub schema: u32,
    /// Role of the process, here [`Role::Switch`].
    pub role: Role,
    /// Network namespace to run in, by its name for `ip netns`; the own one if none is given.
    pub namespace: Option<String>,
    /// Interfaces of the wires, by host.
    pub interfaces: Vec<String>,
    /// Schedule of circuits, with parameters.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// Length of a slot with its night, in microseconds.
    pub slot_us: f64,
    /// Length of a night, in microseconds.
    pub night_us: f64,
    /// Rate of a wire, in bytes per microsecond.
    pub bytes_per_us: u32,
    /// Asks for real-time priority.
    #[serde(default = "default_realtime")]
    pub realtime: bool,
    /// Omits slots when late, instead of delaying all that follow: for hosts that send by the
    /// clock. Slots must have one length.
    #[serde(default)]
    pub keeps_time: bool,
}

/// Description of a host.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Version of this format: 1.
    pub schema: u32,
    /// Role of the process, here [`Role::Host`].
    pub role: Role,
    /// Network namespace to run in, by its name for `ip netns`; the own one if none is given.
    pub namespace: Option<String>,
    /// Number of the host, from 0.
    pub host: u16,
    /// Hosts of the switch.
    pub hosts: u16,
    /// The interface towards the switch.
    pub interface: String,
    /// The TAP device of its programs, which is there.
    pub device: String,
    /// Rate of a wire, in bytes per microsecond.
    pub bytes_per_us: u32,
    /// Scheme that limits frames: `naive`, `aging` or `pacing`.
    #[serde(default = "default_tokens")]
    pub tokens: String,
    /// Time before a day's end at which the last frame must have been sent, in microseconds.
    #[serde(default = "default_margin_us")]
    pub margin_us: f64,
    /// Largest backlog of the wire with pacing, in bytes.
    #[serde(default = "default_backlog_bytes")]
    pub backlog_bytes: u32,
    /// Capacity of the queue for one host, in bytes.
    #[serde(default = "default_queue_bytes")]
    pub queue_bytes: u64,
    /// Time before a day for which it spins instead of sleeping, in microseconds.
    #[serde(default = "default_spin_us")]
    pub spin_us: f64,
    /// Share of its time for which it spins, at most.
    #[serde(default = "default_spin_share")]
    pub spin_share: f64,
    /// Asks for real-time priority.
    #[serde(default = "default_realtime")]
    pub realtime: bool,
    /// Sends datagrams to all others, in frames of so many bytes; none without it.
    pub load_frame_bytes: Option<u16>,
    /// Interval of the load's checks, in microseconds.
    #[serde(default = "default_load_every_us")]
    pub load_every_us: f64,
}

/// Mechanism that releases the frames of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shaping {
    /// Our shaper, as in a host of its own.
    #[default]
    Tokens,
    /// The kernel's gates (IEEE 802.1Qbv), by the clock alone.
    Taprio,
}

/// Description of a fabric whose nodes run in one process.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FabricConfig {
    /// Version of this format: 1.
    pub schema: u32,
    /// Role of the process, here [`Role::Fabric`].
    pub role: Role,
    /// Descriptions of the nodes: of the switch, then of the hosts in the order of their numbers.
    pub nodes: Vec<PathBuf>,
    /// Mechanism that releases frames.
    #[serde(default)]
    pub shaping: Shaping,
    /// Congestion control of TCP connections between all hosts; no connections without it.
    pub streams: Option<String>,
    /// Time from the begin of the traffic until counting begins, in milliseconds.
    #[serde(default)]
    pub warm_up_ms: u64,
}

fn default_policy() -> String {
    DEFAULT_POLICY.to_owned()
}

const fn default_realtime() -> bool {
    true
}

fn default_tokens() -> String {
    Scheme::Pacing.name().to_owned()
}

const fn default_margin_us() -> f64 {
    // Days of 123.5 us are used for 100 us (Strong 2013, Sec 4.5.1).
    23.5
}

const fn default_backlog_bytes() -> u32 {
    // A network card sends in batches above 80 KB (Strong 2013, Sec 4.5.1).
    80_000
}

const fn default_queue_bytes() -> u64 {
    400_000
}

const fn default_spin_us() -> f64 {
    60.0
}

const fn default_spin_share() -> f64 {
    0.05
}

const fn default_load_every_us() -> f64 {
    500.0
}

/// Key and message of a wrong value.
type Wrong = (&'static str, String);

/// Refuses a value that is not what is expected of its key.
fn expect(
    is_well: bool,
    key: &'static str,
    found: &dyn std::fmt::Display,
    expected: &str,
) -> Result<(), Wrong> {
    is_well.then_some(()).ok_or_else(|| (key, format!("found {found}, expected {expected}")))
}

/// Checks what all roles have.
fn check_schema(schema: u32) -> Result<(), Wrong> {
    expect(schema == 1, "schema", &schema, "1")
}

fn check_rate(bytes_per_us: u32) -> Result<(), Wrong> {
    // 100 Gb/s: the switch counts the time of a byte in whole picoseconds, here 80.
    expect((1..=12_500).contains(&bytes_per_us), "bytes_per_us", &bytes_per_us, "1 to 12500")
}

impl Config {
    /// Parses a description whose paths start at `folder`.
    ///
    /// # Errors
    /// The file, the line, the value found, and what was expected.
    pub fn parse(input: &Input, folder: &Path) -> Result<Config, InputError> {
        #[derive(Deserialize)]
        struct Head {
            role: Role,
        }
        let (config, checked) = match input.parse::<Head>()?.role {
            Role::Switch => {
                let config: SwitchConfig = input.parse()?;
                let checked = config.check();
                (Config::Switch(config), checked)
            }
            Role::Host => {
                let config: HostConfig = input.parse()?;
                let checked = config.check();
                (Config::Host(config), checked)
            }
            Role::Fabric => {
                let mut config: FabricConfig = input.parse()?;
                let checked = config.check();
                config.nodes = config.nodes.iter().map(|path| folder.join(path)).collect();
                (Config::Fabric(config), checked)
            }
        };
        checked.map_err(|(key, message)| input.error_at_key(key, &message))?;
        Ok(config)
    }
}

impl SwitchConfig {
    fn check(&self) -> Result<(), Wrong> {
        check_schema(self.schema)?;
        let hosts = self.interfaces.len();
        let range = format!("2 to {MOST_HOSTS}");
        let is_well = (2..=usize::from(MOST_HOSTS)).contains(&hosts);
        expect(is_well, "interfaces", &format!("{hosts} interfaces"), &range)?;
        // The shortest day that the switch plays is 1 us, and a night has to fit beside it.
        expect((2.0..=1e9).contains(&self.slot_us), "slot_us", &self.slot_us, "2 to 1e9")?;
        let is_well = self.night_us > 0.0 && self.night_us < self.slot_us;
        let range = format!("above 0, below the {} of slot_us", self.slot_us);
        expect(is_well, "night_us", &self.night_us, &range)?;
        check_rate(self.bytes_per_us)
    }
}

impl HostConfig {
    fn check(&self) -> Result<(), Wrong> {
        check_schema(self.schema)?;
        let range = format!("2 to {MOST_HOSTS}");
        expect((2..=MOST_HOSTS).contains(&self.hosts), "hosts", &self.hosts, &range)?;
        let range = format!("0 to {}", self.hosts - 1);
        expect(self.host < self.hosts, "host", &self.host, &range)?;
        check_rate(self.bytes_per_us)?;
        let names = Scheme::ALL.map(Scheme::name).join(", ");
        let is_known = Scheme::named(&self.tokens).is_some();
        expect(is_known, "tokens", &self.tokens, &format!("one of {names}"))?;
        for (key, value, most) in [
            ("margin_us", self.margin_us, 1e9),
            ("spin_us", self.spin_us, 1e9),
            ("spin_share", self.spin_share, 1.0),
        ] {
            expect((0.0..=most).contains(&value), key, &value, &format!("0 to {most}"))?;
        }
        let every_us = self.load_every_us;
        expect((1.0..=1e9).contains(&every_us), "load_every_us", &every_us, "1 to 1e9")?;
        // The stamp of a datagram takes 16 bytes behind 42 bytes of headers.
        let frame = self.load_frame_bytes.unwrap_or(64);
        let is_well = (64..=LONGEST).contains(&usize::from(frame));
        expect(is_well, "load_frame_bytes", &frame, &format!("64 to {LONGEST}"))
    }
}

impl FabricConfig {
    fn check(&self) -> Result<(), Wrong> {
        check_schema(self.schema)?;
        let nodes = self.nodes.len();
        let is_well = (3..=usize::from(MOST_HOSTS) + 1).contains(&nodes);
        let range = format!("a switch and 2 to {MOST_HOSTS} hosts");
        expect(is_well, "nodes", &format!("{nodes} files"), &range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "schema = 1\nrole = \"switch\"\ninterfaces = [\"a\", \"b\"]\n\
                          slot_us = 2000\nnight_us = 200\nbytes_per_us = 62\n";
    const HOST: &str = "schema = 1\nrole = \"host\"\nhost = 1\nhosts = 2\n\
                        interface = \"up0\"\ndevice = \"circ0\"\nbytes_per_us = 62\n";

    fn parse(text: &str) -> Result<Config, String> {
        let parsed = Config::parse(&Input::new("c.toml", text), Path::new("/etc/halfwink"));
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn short_descriptions_have_the_defaults_of_the_command() {
        let Config::Switch(switch) = parse(SWITCH).unwrap() else { panic!("expected a switch") };
        assert_eq!((switch.policy.as_str(), switch.realtime), ("round-robin", true));
        let Config::Host(host) = parse(HOST).unwrap() else { panic!("expected a host") };
        assert_eq!((host.tokens.as_str(), host.margin_us, host.spin_us), ("pacing", 23.5, 60.0));
        let text = "schema = 1\nrole = \"fabric\"\nnodes = [\"s.toml\", \"a.toml\", \"b.toml\"]\n";
        let Config::Fabric(fabric) = parse(text).unwrap() else { panic!("expected a fabric") };
        assert_eq!(fabric.nodes[0], Path::new("/etc/halfwink/s.toml"));
        assert_eq!(fabric.shaping, Shaping::Tokens);
    }

    #[test]
    fn wrong_value_is_refused_with_its_line() {
        for (text, before, after, said) in [
            (SWITCH, "schema = 1", "schema = 2", "1: schema: found 2, expected 1"),
            (SWITCH, "\"switch\"", "\"swich\"", "2: unknown variant `swich`"),
            (SWITCH, "slot_us", "slot_s", "4: unknown field `slot_s`"),
            (SWITCH, ", \"b\"", "", "3: interfaces: found 1 interfaces, expected 2 to 64"),
            (SWITCH, "= 200\n", "= 2000\n", "5: night_us: found 2000, expected above 0, below"),
            (SWITCH, "= 62", "= 0", "6: bytes_per_us: found 0, expected 1 to 12500"),
            (HOST, "host = 1", "host = 2", "3: host: found 2, expected 0 to 1"),
            (HOST, "hosts = 2", "hosts = 1", "4: hosts: found 1, expected 2 to 64"),
            (HOST, "62", "62\ntokens = \"a\"", "8: tokens: found a, expected one of naive, aging"),
            (HOST, "62", "62\nmargin_us = -1", "8: margin_us: found -1, expected 0 to 1000000000"),
            (HOST, "62", "62\nload_frame_bytes = 9015", "8: load_frame_bytes: found 9015, expec"),
            (HOST, "62", "62\nspin_share = nan", "8: spin_share: found NaN, expected 0 to 1"),
        ] {
            assert!(text.contains(before), "{before}");
            let error = parse(&text.replacen(before, after, 1)).unwrap_err();
            assert!(error.starts_with(&format!("c.toml:{said}")), "{error}");
        }
    }
}
