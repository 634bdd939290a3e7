//! What a router is told: ports, routes, neighbours and what it does to packets besides.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use halfwink_units::Time;
use ipnet::IpNet;

use crate::esp::{Lifetime, Numbers};
use crate::wire::Mac;

/// All that a router is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Ports of the router; elsewhere a port is its place in this list.
    pub ports: Vec<PortSettings>,
    /// Routes, besides those to the networks of its own addresses.
    pub routes: Vec<Route>,
    /// Neighbours that are never asked for.
    pub neighbours: Vec<StaticNeighbour>,
    /// Application that packets pass besides forwarding.
    pub app: AppSettings,
}

/// Settings of an Ethernet port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// The name that routes files use.
    pub name: String,
    /// Ethernet address of the port.
    pub mac: Mac,
    /// The longest IP packet that it sends, in bytes.
    pub mtu: u16,
    /// Addresses of the port, with the lengths of their networks. A link-local IPv6 address is made
    /// from `mac` besides (RFC 4291, appendix A).
    pub addresses: Vec<IpNet>,
}

impl Default for PortSettings {
    fn default() -> PortSettings {
        // An Ethernet frame carries 1500 bytes.
        PortSettings { name: String::new(), mac: [0; 6], mtu: 1500, addresses: Vec::new() }
    }
}

/// One route. With neither gateway nor port packets are dropped, and their senders told so unless
/// it is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination prefix of the route.
    pub prefix: IpNet,
    /// The gateway, on a network of one of the ports.
    pub via: Option<IpAddr>,
    /// The port; with a gateway it may be left out.
    pub port: Option<u16>,
    /// Makes the route a black hole, as in the kernel: it sends no error. Only without gateway and
    /// port.
    pub silent: bool,
}

/// A neighbour whose Ethernet address is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// The port it is behind.
    pub port: u16,
    /// Address of the neighbour.
    pub address: IpAddr,
    /// Ethernet address of the neighbour.
    pub mac: Mac,
}

/// Application that packets pass besides forwarding: the four of Niccolini 2012, 4.5.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AppSettings {
    /// Only forwards packets.
    #[default]
    Route,
    /// Counts flows and exports them.
    NetFlow(NetFlowSettings),
    /// Encrypts what leaves for a peer's networks, decrypts what comes from it.
    Ipsec(IpsecSettings),
    /// Removes, on one link, bytes that have been sent before.
    Redundancy(RedundancySettings),
}

/// Format of flow exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// NetFlow version 5: IPv4 only.
    V5,
    /// NetFlow version 9 (RFC 3954).
    V9,
    /// IPFIX, by RFC 7011.
    #[default]
    Ipfix,
}

/// Settings of the NetFlow application.
#[derive(Clone, Debug, PartialEq)]
pub struct NetFlowSettings {
    /// The format of the datagrams.
    pub format: ExportFormat,
    /// Flows that one worker can hold; rounded up to a power of two, at least 8.
    pub flows: usize,
    /// A flow is exported this long after its first packet, and counted anew.
    pub active: Time,
    /// A flow is exported when no packet has come for this long.
    pub inactive: Time,
    /// Templates are sent again this often (v9, IPFIX).
    pub templates: Time,
    /// Wall-clock time at the router's start, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Observation domain (IPFIX), source (v9) or engine (v5); a worker's number is added, since
    /// each worker counts its own sequence.
    pub domain: u32,
}

impl Default for NetFlowSettings {
    /// The time-outs are those of Cisco's routers: 30 minutes and 15 s.
    fn default() -> NetFlowSettings {
        NetFlowSettings {
            format: ExportFormat::Ipfix,
            flows: 65_536,
            active: Time::ns(1_800_000_000_000),
            inactive: Time::ns(15_000_000_000),
            templates: Time::ns(60_000_000_000),
            start_unix_ns: 0,
            domain: 0,
        }
    }
}

/// A key of AES-GCM with its salt, as `rfc4106(gcm(aes))` takes it (RFC 4106, 8.1).
#[derive(Clone, PartialEq, Eq)]
pub struct AeadKey {
    key: Vec<u8>,
    salt: [u8; 4],
}

impl AeadKey {
    /// Creates a key of 128 or 256 bits and a salt of 32 from 20 or 36 bytes. Returns `None` for
    /// other lengths.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<AeadKey> {
        // The salt comes last (RFC 4106, section 8.1), as the kernel's `rfc4106(gcm(aes))` has it.
        let (key, salt) = bytes.split_last_chunk::<4>()?;
        // RFC 4106, section 8.1, also has keys of 192 bits, which `ring` does not offer.
        matches!(key.len(), 16 | 32).then(|| AeadKey { key: key.to_vec(), salt: *salt })
    }

    /// Parses key and salt in hexadecimal, with or without `0x`.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<AeadKey> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        // `from_str_radix` takes a sign, too, and pairs are cut by bytes.
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_hex || !digits.len().is_multiple_of(2) {
            return None;
        }
        let pairs = (0..digits.len()).step_by(2);
        let bytes = pairs.map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok());
        AeadKey::new(&bytes.collect::<Option<Vec<u8>>>()?)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn salt(&self) -> [u8; 4] {
        self.salt
    }
}

impl fmt::Debug for AeadKey {
    /// Keys stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AeadKey({} bits)", self.key.len() * 8)
    }
}

/// One direction of an ESP tunnel (RFC 4303, AES-GCM of RFC 4106 with a tag of 16 bytes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityAssociation {
    /// Security parameter index in the packets; at least 256.
    pub spi: u32,
    /// Address of this router.
    pub local: IpAddr,
    /// The other end's address, of the same family.
    pub peer: IpAddr,
    /// Key and salt. Two associations must never share both (RFC 4106, 9).
    pub key: AeadKey,
    /// Sequence numbers of 64 bits (RFC 4303, 2.2.1).
    pub esn: bool,
    /// The inner packets: outbound by destination, the first association whose prefix holds it is
    /// taken; inbound by source. Empty: all (outbound: all but the peer itself).
    pub selectors: Vec<IpNet>,
    /// Sequence numbers of the association. An AES-GCM key must never see a nonce twice (RFC 4106,
    /// 9), so that numbers go on where they were for as long as the key is used: over reloads as
    /// the same handle, over restarts by a record ([`Numbers::after`]).
    pub numbers: Numbers,
    /// Limit of the data that it may carry.
    pub lifetime: Lifetime,
}

/// A tunnel without an outbound association, as between the end of one and the beginning of the
/// next: what would enter it is dropped, since it must not leave in the clear (RFC 4301, 5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedTunnel {
    /// Place of the outbound association before which this tunnel comes, after all earlier ones.
    pub before: usize,
    /// Address of the other end.
    pub peer: IpAddr,
    /// Selectors, as [`SecurityAssociation::selectors`].
    pub selectors: Vec<IpNet>,
}

/// Settings of the IPsec application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpsecSettings {
    /// Associations by which this router encrypts.
    pub outbound: Vec<SecurityAssociation>,
    /// Associations by which this router decrypts.
    pub inbound: Vec<SecurityAssociation>,
    /// Tunnels that it has no key for now, in order.
    pub closed: Vec<ClosedTunnel>,
    /// Shares the associations with the kernel beside it. Packets for the router's UDP ports 500
    /// and 4500 are then left to the daemon there, without an error. Packets in the clear from a
    /// tunnel's networks are dropped (RFC 4301, 5.2): a kernel that has also decrypted a packet
    /// hands it to packet sockets a second time.
    pub kernel: bool,
}

/// Settings of the redundancy elimination application: both ends of one link do this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedundancySettings {
    /// The port of the link.
    pub link: u16,
    /// The other end's IPv4 address on the link; it is told what could not be restored.
    pub peer: Ipv4Addr,
    /// Bytes of packets that each worker's encoder keeps.
    pub encoder_bytes: usize,
    /// Bytes of packets that the decoder keeps: at least those of all workers of the other end.
    pub decoder_bytes: usize,
    /// One of 2^n windows is remembered.
    pub sample_bits: u8,
    /// The IP protocol number of encoded packets; 253 and 254 are for experiments (RFC 3692).
    pub protocol: u8,
    /// Seed of the hash that names packets; it is equal at both ends, and secret.
    pub key: u64,
}

impl Default for RedundancySettings {
    fn default() -> RedundancySettings {
        RedundancySettings {
            link: 0,
            peer: Ipv4Addr::UNSPECIFIED,
            encoder_bytes: 8 << 20,
            // Room for the encoders of eight workers at the other end.
            decoder_bytes: 64 << 20,
            sample_bits: 5,
            protocol: 253,
            key: 0,
        }
    }
}

/// Settings that contradict themselves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Too few or too many ports.
    #[error("{0} ports, expected 1 to 1024")]
    Ports(usize),
    /// A port that does not exist.
    #[error("{what}: port {found} does not exist, there are {ports}")]
    NoPort {
        /// Element that names the port.
        what: String,
        /// Number of the port.
        found: u16,
        /// Number of ports that exist.
        ports: usize,
    },
    /// An MTU below what IP allows.
    #[error("port {port}: an MTU of {mtu} bytes, expected at least {least}")]
    Mtu {
        /// Name of the port.
        port: String,
        /// MTU that was found.
        mtu: u16,
        /// Smallest MTU that IP allows.
        least: u16,
    },
    /// An address that no interface can have, or that two have.
    #[error("{address}: {what}")]
    Address {
        /// Address in question.
        address: IpAddr,
        /// Description of the error.
        what: &'static str,
    },
    /// Two routes for one prefix.
    #[error("two routes to {0}")]
    Twice(IpNet),
    /// A gateway on no network of ours.
    #[error("route to {prefix}: gateway {gateway} is on no network of {of}")]
    Gateway {
        /// Prefix of the route.
        prefix: IpNet,
        /// Gateway of the route.
        gateway: IpAddr,
        /// The port, or "any port".
        of: String,
    },
    /// More than the table holds.
    #[error("{found} {what}, expected at most {most}")]
    TooMany {
        /// Name of the elements that are too many, in the plural.
        what: &'static str,
        /// Number that was found.
        found: usize,
        /// Largest number that is allowed.
        most: usize,
    },
    /// An association that cannot work.
    #[error("SPI {spi:#x}: {what}")]
    Association {
        /// Security parameter index of the association.
        spi: u32,
        /// Description of the error.
        what: &'static str,
    },
    /// A value out of range.
    #[error("{what}: found {found}, expected {expected}")]
    Value {
        /// Name of the setting.
        what: &'static str,
        /// Value that was found.
        found: u64,
        /// Range that is allowed.
        expected: &'static str,
    },
}
