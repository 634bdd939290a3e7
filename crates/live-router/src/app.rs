//! The application of a router, as described.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use halfwink_dataplane::{
    AeadKey, AppSettings, Direction, ExportFormat, IpsecSettings, Lifetime, NetFlowSettings,
    RedundancySettings, SecurityAssociation,
};
use halfwink_live::program::config::plain;
use halfwink_units::Time;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::keeper::Keeper;
use super::keys::{self, Keys, Table, Tunnel};
use super::loader::Sources;

/// Application that packets pass besides routing.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum App {
    /// Only routes packets. (Without its brackets serde would accept any key.)
    Route {},
    /// Flows are counted and told to a collector.
    Netflow(Netflow),
    /// ESP tunnels with AES-GCM.
    Ipsec(Ipsec),
    /// Bytes that were sent before are left out on one link.
    Redundancy(Redundancy),
}

/// Settings of flow export, see [`NetFlowSettings`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Netflow {
    /// Address that datagrams are sent to: `127.0.0.1:4739`. It is reached through the kernel, not
    /// the router.
    pub collector: SocketAddr,
    /// `netflow-5`, `netflow-9` or `ipfix`.
    #[serde(default)]
    pub format: Format,
    /// Flows that a worker can hold.
    pub flows: Option<usize>,
    /// A flow is told at least so often, in seconds.
    pub active_s: Option<f64>,
    /// A flow that is silent for so long has ended, in seconds.
    pub inactive_s: Option<f64>,
    /// Templates are sent again so often, in seconds.
    pub templates_s: Option<f64>,
    /// Observation domain of the first worker.
    #[serde(default)]
    pub domain: u32,
}

/// Format of flow exports.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Format of NetFlow version 5.
    #[serde(rename = "netflow-5")]
    NetFlow5,
    /// Format of NetFlow version 9.
    #[serde(rename = "netflow-9")]
    NetFlow9,
    /// Format of IPFIX.
    #[default]
    Ipfix,
}

/// Settings of IPsec, see [`IpsecSettings`].
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ipsec {
    /// Associations that encrypt.
    #[serde(default)]
    pub outbound: Vec<Association>,
    /// Associations that decrypt.
    #[serde(default)]
    pub inbound: Vec<Association>,
    /// Source of the keys: `given`, for those in the two lists above, or `kernel`.
    #[serde(default)]
    pub keys: Keys,
    /// Tunnels whose associations are the kernel's.
    #[serde(default)]
    pub tunnel: Vec<Tunnel>,
    /// Folder of the records of sequence numbers; relative to the description. Without:
    /// `$STATE_DIRECTORY/esp`, `$XDG_STATE_HOME/halfwink/esp` or `~/.local/state/halfwink/esp`.
    pub state: Option<PathBuf>,
}

/// A security association, see [`SecurityAssociation`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Association {
    /// Security parameter index in the packets.
    pub spi: u32,
    /// Address of this router.
    pub local: IpAddr,
    /// Address of the other end.
    pub peer: IpAddr,
    /// Key and salt in hexadecimal, as `ip xfrm` takes them: 20 or 36 bytes.
    pub key: String,
    /// Sequence numbers of 64 bits.
    #[serde(default)]
    pub esn: bool,
    /// Networks behind the other end.
    #[serde(default)]
    pub selectors: Vec<IpNet>,
}

/// Settings of redundancy elimination, see [`RedundancySettings`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Redundancy {
    /// The interface of the link.
    pub link: String,
    /// The other end's address on it.
    pub peer: Ipv4Addr,
    /// Secret number, equal at both ends.
    pub key: u64,
    /// Mebibytes of packets that each worker's encoder keeps.
    pub encoder_mib: Option<usize>,
    /// Mebibytes of packets that the decoder keeps.
    pub decoder_mib: Option<usize>,
    /// One of 2^n windows is remembered.
    pub sample_bits: Option<u8>,
}

impl Default for App {
    fn default() -> App {
        App::Route {}
    }
}

impl App {
    /// Returns whether its description holds keys: then the file is a secret.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        match self {
            App::Ipsec(app) => !(app.outbound.is_empty() && app.inbound.is_empty()),
            App::Redundancy(_) => true,
            _ => false,
        }
    }

    /// Settings of the dataplane; `ports` are the interfaces by number. Numbers of associations
    /// are the keeper's.
    pub(super) fn settings(
        &self,
        ports: &[&str],
        sources: &Sources,
        table: &mut Table,
    ) -> Result<AppSettings, String> {
        Ok(match self {
            App::Route {} => AppSettings::Route,
            App::Netflow(app) => AppSettings::NetFlow(app.settings(sources.start_unix_ns)?),
            App::Ipsec(app) => AppSettings::Ipsec(app.settings(&sources.keeper, table)?),
            App::Redundancy(app) => AppSettings::Redundancy(app.settings(ports)?),
        })
    }

    /// Returns whether its keys are the kernel's.
    pub(super) fn follows_kernel(&self) -> bool {
        matches!(self, App::Ipsec(app) if app.keys == Keys::Kernel)
    }

    /// The socket of the collector of flows, if there is one.
    pub(super) fn collector(&self) -> Result<Option<UdpSocket>, String> {
        let App::Netflow(Netflow { collector, .. }) = self else { return Ok(None) };
        // A socket of another family could not connect to it.
        let any: IpAddr = match collector {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let open = || -> std::io::Result<UdpSocket> {
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(collector)?;
            // A collector that is not there must not hold up packets.
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        open().map(Some).map_err(|e| format!("app: collector {collector}: {e}"))
    }
}

impl Netflow {
    fn settings(&self, start_unix_ns: u64) -> Result<NetFlowSettings, String> {
        let given = NetFlowSettings::default();
        let time = |name: &str, seconds: Option<f64>, or: Time| match seconds {
            None => Ok(or),
            Some(s) if (0.1..=86_400.0).contains(&s) => Ok(Time::from_ns(s * 1e9)),
            Some(s) => Err(format!("app.{name}: found {s}, expected 0.1 to 86400 seconds")),
        };
        let flows = self.flows.unwrap_or(given.flows);
        // A set of the flow table has eight places, and the data plane allows 2^24 flows.
        if !(8..=1 << 24).contains(&flows) {
            return Err(format!("app.flows: found {flows}, expected 8 to {}", 1 << 24));
        }
        Ok(NetFlowSettings {
            format: match self.format {
                Format::NetFlow5 => ExportFormat::V5,
                Format::NetFlow9 => ExportFormat::V9,
                Format::Ipfix => ExportFormat::Ipfix,
            },
            flows,
            active: time("active_s", self.active_s, given.active)?,
            inactive: time("inactive_s", self.inactive_s, given.inactive)?,
            templates: time("templates_s", self.templates_s, given.templates)?,
            start_unix_ns,
            domain: self.domain,
        })
    }
}

impl Ipsec {
    /// Mistakes; `own`: the router's addresses.
    pub(super) fn check(&self, own: &[IpAddr]) -> Result<(), (&'static str, String)> {
        let given = match self.outbound.is_empty() {
            true => "app.inbound",
            false => "app.outbound",
        };
        match self.keys {
            Keys::Given if !self.tunnel.is_empty() => Err((
                "app.tunnel",
                "found [[app.tunnel]], expected `keys = \"kernel\"` beside it".to_owned(),
            )),
            Keys::Kernel if !(self.outbound.is_empty() && self.inbound.is_empty()) => Err((
                given,
                format!("found [[{given}]], expected [[app.tunnel]]: keys are the kernel's"),
            )),
            Keys::Kernel if self.tunnel.is_empty() => Err((
                "app.keys",
                "found \"kernel\" and no [[app.tunnel]], expected one at least".to_owned(),
            )),
            Keys::Kernel => keys::check(&self.tunnel, own).map_err(|why| ("app.tunnel", why)),
            Keys::Given => Ok(()),
        }
    }

    fn settings(&self, keeper: &Keeper, table: &mut Table) -> Result<IpsecSettings, String> {
        // Without associations no record is written, so that no folder is needed.
        if self.outbound.is_empty() && self.inbound.is_empty() && self.tunnel.is_empty() {
            return Ok(IpsecSettings::default());
        }
        let folder = match &self.state {
            Some(folder) => folder.clone(),
            None => state_folder(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
                .ok_or(
                "app.state: expected a folder for records, since $HOME is not set either",
            )?,
        };
        if self.keys == Keys::Kernel {
            let mut numbering = |direction, (spi, esn): (u32, bool), key: &AeadKey| {
                keeper.numbers(&folder, direction, (spi, esn), key)
            };
            let (settings, lines) = table.settings(&self.tunnel, &mut numbering);
            lines.iter().for_each(|line| halfwink_live::say!("halfwink: {}", plain(line)));
            return Ok(settings);
        }
        let all = |given: &[Association], way| -> Result<Vec<_>, String> {
            given.iter().map(|sa| sa.settings(way, &folder, keeper)).collect()
        };
        Ok(IpsecSettings {
            outbound: all(&self.outbound, Direction::Outbound)?,
            inbound: all(&self.inbound, Direction::Inbound)?,
            ..IpsecSettings::default()
        })
    }
}

impl Association {
    fn settings(
        &self,
        direction: Direction,
        folder: &Path,
        keeper: &Keeper,
    ) -> Result<SecurityAssociation, String> {
        let key = AeadKey::from_hex(&self.key).ok_or_else(|| {
            // The key itself stays out of messages.
            format!("app: key of SPI {:#x}: expected 20 or 36 bytes in hexadecimal", self.spi)
        })?;
        // A key must never see a nonce twice (RFC 4106, section 9): the keeper goes on where this
        // key was, over reloads and restarts.
        let numbers = keeper.numbers(folder, direction, (self.spi, self.esn), &key);
        Ok(SecurityAssociation {
            spi: self.spi,
            local: self.local,
            peer: self.peer,
            numbers: numbers.map_err(|e| format!("app: SPI {:#x}: {e}", self.spi))?,
            key,
            esn: self.esn,
            selectors: self.selectors.clone(),
            lifetime: Lifetime::default(),
        })
    }
}

/// Returns the default folder of records: the service manager's, otherwise the user's own.
fn state_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(given) = variable("STATE_DIRECTORY") {
        // systemd.exec(5): several folders are joined by colons.
        let first = given.as_bytes().split(|&byte| byte == b':').next().unwrap_or_default();
        return Some(Path::new(OsStr::from_bytes(first)).join("esp"));
    }
    // The XDG base directory specification has relative paths ignored.
    let own = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = own.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    own.map(|folder| folder.join("halfwink/esp"))
}

impl Redundancy {
    fn settings(&self, ports: &[&str]) -> Result<RedundancySettings, String> {
        let given = RedundancySettings::default();
        let link = ports.iter().position(|port| *port == self.link).ok_or_else(|| {
            format!("app.link: found {}, expected one of {}", self.link, ports.join(", "))
        })?;
        let bytes = |name: &str, mib: Option<usize>, or: usize| match mib {
            None => Ok(or),
            Some(n) if (1..=4096).contains(&n) => Ok(n << 20),
            Some(n) => Err(format!("app.{name}: found {n}, expected 1 to 4096 MiB")),
        };
        Ok(RedundancySettings {
            link: link as u16,
            peer: self.peer,
            encoder_bytes: bytes("encoder_mib", self.encoder_mib, given.encoder_bytes)?,
            decoder_bytes: bytes("decoder_mib", self.decoder_mib, given.decoder_bytes)?,
            sample_bits: self.sample_bits.unwrap_or(given.sample_bits),
            key: self.key,
            ..given
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_where_the_service_manager_or_the_user_keeps_state() {
        let folder = |set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
            state_folder(value).map(|path| path.display().to_string()).unwrap_or_default()
        };
        let home = ("HOME", "/h");
        assert_eq!(folder(&[home]), "/h/.local/state/halfwink/esp");
        assert_eq!(folder(&[home, ("XDG_STATE_HOME", "/x")]), "/x/halfwink/esp");
        assert_eq!(folder(&[home, ("XDG_STATE_HOME", "x")]), "/h/.local/state/halfwink/esp");
        assert_eq!(folder(&[home, ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")]), "/var/lib/a/esp");
        assert_eq!(folder(&[]), "");
    }
}
