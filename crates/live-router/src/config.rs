//! What a user writes to describe a router.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use halfwink_dataplane::{
    routes, AppSettings, PortSettings, Route, Settings, Shared, StaticNeighbour,
};
use halfwink_engine::{Input, InputError};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::app::App;
use super::interface::Interface;
use super::keys::Table;
use super::loader::Sources;
use super::pool::MTU;
use super::port::Io;
use halfwink_live::descriptor::mac;

/// Policy of a description that names none, and of one whose module fails.
pub const DEFAULT_POLICY: &str = "power-save-in-order";

/// A router, as described in a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of the format: 1.
    pub schema: u32,
    /// Name of the scaling policy.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// Place where packets are forwarded.
    #[serde(default)]
    pub forward: Forward,
    /// Workers, each with a queue and a thread; in the kernel, CPUs.
    #[serde(default = "default_workers")]
    pub workers: u8,
    /// CPUs of the workers, in turn; without, the kernel places them.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Frames that a worker takes at a time.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// Once it has had frames, the receiver sleeps for so many microseconds before it lets itself
    /// be woken by the next: fewer wake-ups, and that much more latency. As a network card's
    /// interrupt moderation.
    #[serde(default)]
    pub moderation_us: f64,
    /// Frames that a queue holds.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// The router of the library whose watts the virtual power meter takes, and whose values
    /// policies take.
    #[serde(default = "default_machine")]
    pub machine: String,
    /// Values of it to set: path and value.
    #[serde(default)]
    pub set: std::collections::BTreeMap<String, toml::Value>,
    /// File of routes, in the manner of `ip route`; relative to the description.
    pub routes: Option<PathBuf>,
    /// Interfaces of the router.
    pub port: Vec<Port>,
    /// Neighbours whose addresses are known.
    #[serde(default)]
    pub neighbour: Vec<Neighbour>,
    /// Application that packets pass.
    #[serde(default)]
    pub app: App,
}

/// Place where packets are forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forward {
    /// Threads of this process, between sockets.
    #[default]
    UserSpace,
    /// Programs in the kernel, before its stack; routes, neighbours and addresses are the kernel's.
    Xdp,
    /// The kernel's stack, spread over CPUs by receive packet steering.
    Rps,
    /// The first of `xdp` and `rps` that the machine allows.
    Auto,
}

/// Description of an interface.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Name of the interface.
    pub interface: String,
    /// Interface to the kernel for its frames.
    #[serde(default)]
    pub io: Io,
    /// Queues to use, at most; without, all that it has.
    pub queues: Option<u32>,
    /// The router's addresses there, with their networks.
    #[serde(default)]
    pub addresses: Vec<IpNet>,
}

/// A neighbour that need not be asked for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// Name of the interface.
    pub interface: String,
    /// Address of the neighbour.
    pub address: IpAddr,
    /// Ethernet address of the neighbour: `02:00:00:00:00:01`.
    pub mac: String,
}

fn default_policy() -> String {
    DEFAULT_POLICY.to_owned()
}

fn default_machine() -> String {
    "westmere".to_owned()
}

const fn default_workers() -> u8 {
    2
}

const fn default_batch() -> usize {
    8
}

const fn default_queue() -> usize {
    1024
}

/// Keys that only a restart can change: sockets, queues, threads, and the modelled router.
pub(super) const FIXED: [&str; 16] = [
    "forward",
    "workers",
    "cpus",
    "batch",
    "moderation_us",
    "queue",
    "machine",
    "set",
    "set.",
    "port",
    "port.interface",
    "port.io",
    "port.queues",
    "app.collector",
    "app.state",
    "app.keys",
];

/// Number from which on CPUs cannot forward in the kernel: a frame names its CPU in seven bits.
pub(super) const CPUS: u32 = 128;

/// Most frames of a ring of a CPU in the kernel (`CPUMAP` takes no more).
const MOST_RING: usize = 16_384;

/// Most bytes of a file of routes: the whole table of the Internet is a twentieth of it.
const MOST_ROUTES: u64 = 1 << 30;

impl Config {
    /// Reads a description from a text; files that it names are relative to `folder`.
    ///
    /// # Errors
    /// The file, the line, the value found, and what was expected.
    pub fn parse(input: &Input, folder: &Path) -> Result<Config, InputError> {
        let mut config: Config = input.parse()?;
        // Before paths are joined to the folder: errors show them as they were written.
        config.check().map_err(|(key, message)| input.error_at_key(key, &message))?;
        config.routes = config.routes.map(|path| folder.join(path));
        if let App::Ipsec(app) = &mut config.app {
            app.state = app.state.take().map(|path| folder.join(path));
        }
        Ok(config)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |key, found: &dyn std::fmt::Display, expected: &str| {
            Err((key, format!("found {found}, expected {expected}")))
        };
        if self.schema != 1 {
            return wrong("schema", &self.schema, "1");
        }
        if !(1..=64).contains(&self.workers) {
            return wrong("workers", &self.workers, "1 to 64");
        }
        if !(1..=256).contains(&self.batch) {
            return wrong("batch", &self.batch, "1 to 256");
        }
        if !(0.0..=10_000.0).contains(&self.moderation_us) {
            return wrong("moderation_us", &self.moderation_us, "0 to 10000");
        }
        if !(64..=65_536).contains(&self.queue) {
            return wrong("queue", &self.queue, "64 to 65536");
        }
        if self.port.is_empty() || self.port.len() > 32 {
            return wrong("port", &self.port.len(), "1 to 32 of [[port]]");
        }
        // Two ports of one interface would take each other's frames.
        for (n, port) in self.port.iter().enumerate() {
            if self.port[..n].iter().any(|other| other.interface == port.interface) {
                return wrong("port", &port.interface, "each interface once");
            }
            // IFNAMSIZ, with the zero behind the name.
            if !(1..16).contains(&port.interface.len()) {
                return wrong("port", &port.interface, "an interface's name of 1 to 15 bytes");
            }
            for (k, network) in port.addresses.iter().enumerate() {
                let address = network.addr();
                if address.is_loopback() || address.is_multicast() || address.is_unspecified() {
                    return wrong("port", &network, "an address that a host may have");
                }
                let others = self.port[..n].iter().flat_map(|other| &other.addresses);
                if others.chain(&port.addresses[..k]).any(|other| other.addr() == address) {
                    return wrong("port", &address, "each address once");
                }
            }
        }
        for neighbour in &self.neighbour {
            if mac(&neighbour.mac).is_none() {
                return wrong("neighbour", &neighbour.mac, "a MAC such as 02:00:00:00:00:01");
            }
            self.port_number(&neighbour.interface)?;
        }
        // Before the application: its own checks would name keys that must not be there at all.
        if self.forward != Forward::UserSpace {
            self.check_kernel()?;
        }
        if let App::Ipsec(app) = &self.app {
            let own = self.port.iter().flat_map(|port| &port.addresses);
            app.check(&own.map(IpNet::addr).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Refuses the keys of user space. Each would be silently without effect otherwise.
    ///
    /// # Errors
    /// The key, the value found, and what was expected.
    fn check_kernel(&self) -> Result<(), (&'static str, String)> {
        let kernels = |key, found: &str| {
            let expected = "expected none where the kernel forwards, which has its own";
            Err((key, format!("found {found}, {expected}")))
        };
        if let Some(path) = &self.routes {
            return kernels("routes", &path.display().to_string());
        }
        if let Some(neighbour) = self.neighbour.first() {
            return kernels("neighbour", &neighbour.address.to_string());
        }
        for port in &self.port {
            if let Some(address) = port.addresses.first() {
                return kernels("port", &format!("addresses with {address}"));
            }
            if port.io != Io::Auto || port.queues.is_some() {
                let found = format!("found io or queues of {}", port.interface);
                return Err((
                    "port",
                    format!("{found}, expected neither where the kernel forwards"),
                ));
            }
        }
        // Applications need the whole packet, which the kernel's programs never copy to user space.
        if !matches!(self.app, App::Route {}) {
            let expected = "expected kind = \"route\" where the kernel forwards";
            return Err(("app", format!("found another application, {expected}")));
        }
        if self.moderation_us > 0.0 {
            let found = self.moderation_us;
            let expected = "expected 0 where the kernel forwards";
            return Err(("moderation_us", format!("found {found}, {expected}")));
        }
        for (n, &cpu) in self.cpus.iter().enumerate() {
            if cpu >= CPUS {
                let expected = format!("expected below {CPUS} where the kernel forwards");
                return Err(("cpus", format!("found {cpu}, {expected}")));
            }
            // The frames of a CPU with two cores would count for both.
            if self.cpus[..n].contains(&cpu) {
                return Err(("cpus", format!("found {cpu} twice, expected each CPU once")));
            }
        }
        if self.queue > MOST_RING {
            let found = self.queue;
            let expected = format!("expected 64 to {MOST_RING} where the kernel forwards");
            return Err(("queue", format!("found {found}, {expected}")));
        }
        Ok(())
    }

    fn port_number(&self, interface: &str) -> Result<u16, (&'static str, String)> {
        let found = self.port.iter().position(|port| port.interface == interface);
        found.map(|n| n as u16).ok_or_else(|| {
            ("neighbour", format!("found interface {interface}, expected one of [[port]]"))
        })
    }

    /// Checks addresses and routes as a router would take them, whatever its interfaces are.
    ///
    /// # Errors
    /// The key, and what is wrong.
    pub fn verify(&self) -> Result<(), (&'static str, String)> {
        let of_port = |port: &Port| PortSettings {
            name: port.interface.clone(),
            addresses: port.addresses.clone(),
            ..PortSettings::default()
        };
        let ports: Vec<PortSettings> = self.port.iter().map(of_port).collect();
        let routes = self.read_routes(&ports).map_err(|why| ("routes", why))?;
        let key = if self.routes.is_some() { "routes" } else { "port" };
        let settings = Settings { ports, routes, ..Settings::default() };
        Shared::new(settings).map(drop).map_err(|why| (key, why.to_string()))
    }

    fn read_routes(&self, ports: &[PortSettings]) -> Result<Vec<Route>, String> {
        let Some(path) = &self.routes else { return Ok(Vec::new()) };
        let name = path.display();
        let text = halfwink_inputs::read_string(path, MOST_ROUTES).map_err(|e| e.to_string())?;
        routes::parse(&text, ports).map_err(|e| format!("{name}: {e}"))
    }

    /// Settings of the dataplane, with what the kernel says of the interfaces, and with numbers of
    /// associations as they were kept.
    ///
    /// # Errors
    /// The file, the line and what was expected.
    pub(super) fn settings(
        &self,
        interfaces: &[Interface],
        sources: &Sources,
        table: &mut Table,
    ) -> Result<Settings, String> {
        let ports: Vec<PortSettings> = self
            .port
            .iter()
            .zip(interfaces)
            .map(|(port, interface)| PortSettings {
                name: port.interface.clone(),
                mac: interface.mac,
                // Longer frames do not fit into a chunk, whatever the interface carries.
                mtu: interface.mtu.min(MTU),
                addresses: port.addresses.clone(),
            })
            .collect();
        let routes = self.read_routes(&ports)?;
        let neighbours = self
            .neighbour
            .iter()
            .filter_map(|n| {
                let port = self.port_number(&n.interface).ok()?;
                Some(StaticNeighbour { port, address: n.address, mac: mac(&n.mac)? })
            })
            .collect();
        let app = self.app_settings(sources, table)?;
        Ok(Settings { ports, routes, neighbours, app })
    }

    /// The part of them that is the application's.
    ///
    /// # Errors
    /// As [`Config::settings`].
    pub(super) fn app_settings(
        &self,
        sources: &Sources,
        table: &mut Table,
    ) -> Result<AppSettings, String> {
        let names: Vec<&str> = self.port.iter().map(|port| port.interface.as_str()).collect();
        self.app.settings(&names, sources, table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, InputError> {
        Config::parse(&Input::new("r.toml", text), Path::new("/etc/halfwink"))
    }

    const SHORT: &str = "schema = 1\n[[port]]\ninterface = \"a\"\naddresses = [\"10.0.0.1/24\"]\n";

    #[test]
    fn shortest_description_gets_defaults() {
        let config = parse(SHORT).unwrap();
        assert_eq!(
            (config.policy.as_str(), config.workers, config.batch),
            ("power-save-in-order", 2, 8)
        );
        assert_eq!(config.port[0].io, Io::Auto);
        let more = parse(&SHORT.replacen('\n', "\nroutes = \"r.txt\"\n", 1)).unwrap();
        assert_eq!(more.routes.unwrap(), Path::new("/etc/halfwink/r.txt"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (from, to, expected) in [
            ("schema = 1", "schema = 2", "r.toml:1: schema: found 2, expected 1"),
            ("schema = 1\n", "schema = 1\nworkers = 0\n", "r.toml:2: workers: found 0"),
            ("schema = 1\n", "schema = 1\nwrokers = 1\n", "r.toml:2: "),
            ("10.0.0.1/24", "10.0.0.1/33", "r.toml:4: "),
            ("[[port]]", "[[prot]]", "r.toml"),
            ("interface = \"a\"", "interface = \"a\"\nio = \"dpdk\"", "r.toml:4: "),
        ] {
            let error = parse(&SHORT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let twice = format!("{SHORT}[[port]]\ninterface = \"a\"\n");
        assert!(parse(&twice).unwrap_err().to_string().contains("each interface once"));
    }

    #[test]
    fn keys_that_no_table_knows_are_refused() {
        let neighbour = "[[neighbour]]\ninterface = \"a\"\naddress = \"10.0.0.2\"\n";
        let redundancy =
            "[app]\nkind = \"redundancy\"\nlink = \"a\"\npeer = \"10.0.0.2\"\nkey = 1\n";
        for table in [
            "",
            neighbour,
            "[app]\nkind = \"route\"\n",
            "[app]\nkind = \"netflow\"\ncollector = \"10.0.0.9:2055\"\n",
            "[app]\nkind = \"ipsec\"\n",
            "[app]\nkind = \"ipsec\"\n[[app.outbound]]\n",
            redundancy,
        ] {
            let error = parse(&format!("{SHORT}{table}foo = 1\n")).err().map(|e| e.to_string());
            assert!(error.as_ref().is_some_and(|e| e.contains("`foo`")), "{table}: {error:?}");
        }
        assert!(parse(&format!("{SHORT}[app]\nkind = \"route\"\n")).is_ok());
    }

    #[test]
    fn keys_are_given_or_the_kernels() {
        let ipsec = |lines: &str| {
            let text = format!("{SHORT}[app]\nkind = \"ipsec\"\n{lines}");
            parse(&text).map(|config| config.app.has_keys()).map_err(|e| e.to_string())
        };
        let tunnel = "[[app.tunnel]]\nlocal = \"10.0.0.1\"\npeer = \"10.0.0.2\"\n";
        assert_eq!(ipsec(&format!("keys = \"kernel\"\n{tunnel}")), Ok(false));
        let said = |lines: &str| ipsec(lines).unwrap_err();
        assert!(said(tunnel).contains("expected `keys = \"kernel\"`"), "{}", said(tunnel));
        assert!(said("keys = \"kernel\"\n").contains("expected one at least"));
        assert!(said("keys = \"daemon\"\n").contains("`given` or `kernel`"));
        let key = format!("key = \"{}\"\n", "0".repeat(40));
        let ends = "spi = 9\nlocal = \"10.0.0.1\"\npeer = \"10.0.0.2\"\n";
        let both = format!("keys = \"kernel\"\n{tunnel}[[app.inbound]]\n{ends}{key}");
        assert!(said(&both).contains("found [[app.inbound]]"), "{}", said(&both));
        let far = tunnel.replace("10.0.0.1", "10.0.9.1");
        let far = said(&format!("keys = \"kernel\"\n{far}"));
        assert!(
            far.starts_with("r.toml:8: app.tunnel: ") && far.contains("of a [[port]]"),
            "{far}"
        );
    }

    #[test]
    fn what_holds_keys_is_a_secret() {
        let has_keys = |table: &str| parse(&format!("{SHORT}{table}")).unwrap().app.has_keys();
        let key = format!("\"0x{}aabbccdd\"", "0123456789abcdef".repeat(2));
        let ends = "spi = 9\nlocal = \"10.0.0.1\"\npeer = \"10.0.0.2\"\nselectors = []\n";
        assert!(has_keys(&format!(
            "[app]\nkind = \"ipsec\"\n[[app.inbound]]\nkey = {key}\n{ends}"
        )));
        assert!(!has_keys("") && !has_keys("[app]\nkind = \"ipsec\"\n"));
    }

    #[test]
    fn mac_address_is_read_or_refused() {
        assert_eq!(mac("02:00:00:00:00:0a"), Some([2, 0, 0, 0, 0, 10]));
        for bad in ["", "02", "02:00:00:00:00:zz", "02:00:00:00:00:01:02", "200:0:0:0:0:0"] {
            assert_eq!(mac(bad), None, "{bad}");
        }
    }
}
