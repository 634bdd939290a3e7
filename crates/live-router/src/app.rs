//! The application of a router, as described.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::SystemTime;

use halfwink_dataplane::{
    AeadKey, AppSettings, ExportFormat, IpsecSettings, NetFlowSettings, RedundancySettings,
    SecurityAssociation,
};
use halfwink_units::Time;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// What is done with packets beside routing them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum App {
    /// Nothing.
    #[default]
    Route,
    /// Flows are counted and told to a collector.
    Netflow(Netflow),
    /// ESP tunnels with AES-GCM.
    Ipsec(Ipsec),
    /// Bytes that were sent before are left out on one link.
    Redundancy(Redundancy),
}

/// See [`NetFlowSettings`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Netflow {
    /// Where datagrams go: `127.0.0.1:4739`. It is reached through the kernel, not the router.
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

/// How flows are told.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// NetFlow version 5.
    #[serde(rename = "netflow-5")]
    NetFlow5,
    /// NetFlow version 9.
    #[serde(rename = "netflow-9")]
    NetFlow9,
    /// IPFIX.
    #[default]
    Ipfix,
}

/// See [`IpsecSettings`].
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ipsec {
    /// What is encrypted.
    #[serde(default)]
    pub outbound: Vec<Association>,
    /// What is decrypted.
    #[serde(default)]
    pub inbound: Vec<Association>,
}

/// See [`SecurityAssociation`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Association {
    /// Its number in the packets.
    pub spi: u32,
    /// This router's address.
    pub local: IpAddr,
    /// The other end's.
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

/// See [`RedundancySettings`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Redundancy {
    /// The interface of the link.
    pub link: String,
    /// The other end's address on it.
    pub peer: Ipv4Addr,
    /// The same number at both ends, and nobody else's business.
    pub key: u64,
    /// Mebibytes of packets that each worker's encoder keeps.
    pub encoder_mib: Option<usize>,
    /// Mebibytes of packets that the decoder keeps.
    pub decoder_mib: Option<usize>,
    /// One of 2^n windows is remembered.
    pub sample_bits: Option<u8>,
}

impl App {
    /// Settings of the dataplane; `ports` are the interfaces by number.
    pub(super) fn settings(
        &self,
        ports: &[&str],
        start_unix_ns: u64,
    ) -> Result<AppSettings, String> {
        Ok(match self {
            App::Route => AppSettings::Route,
            App::Netflow(app) => AppSettings::NetFlow(app.settings(start_unix_ns)?),
            App::Ipsec(app) => AppSettings::Ipsec(IpsecSettings {
                outbound: associations(&app.outbound)?,
                inbound: associations(&app.inbound)?,
                // Not the start: a key that one reload drops and the next brings back is new again.
                first_iv: unix_ns()?,
            }),
            App::Redundancy(app) => AppSettings::Redundancy(app.settings(ports)?),
        })
    }

    /// The socket of the collector of flows, if there is one.
    pub(super) fn collector(&self) -> Result<Option<UdpSocket>, String> {
        let App::Netflow(Netflow { collector, .. }) = self else { return Ok(None) };
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

/// Wall-clock time in nanoseconds since 1970.
fn unix_ns() -> Result<u64, String> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.map_err(|_| "app: the clock is before 1970, expected the time of day")?;
    u64::try_from(since.as_nanos()).map_err(|_| "app: the clock is beyond 2554".to_owned())
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

fn associations(given: &[Association]) -> Result<Vec<SecurityAssociation>, String> {
    let one = |sa: &Association| {
        let key = AeadKey::from_hex(&sa.key).ok_or_else(|| {
            // The key itself stays out of messages.
            format!("app: key of SPI {:#x}: expected 20 or 36 bytes in hexadecimal", sa.spi)
        })?;
        Ok(SecurityAssociation {
            spi: sa.spi,
            local: sa.local,
            peer: sa.peer,
            key,
            esn: sa.esn,
            selectors: sa.selectors.clone(),
        })
    };
    given.iter().map(one).collect()
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
