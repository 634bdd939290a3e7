//! Settings, checked and made ready for look-ups.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::esp::Ipsec;
use crate::fib::{Fib, Hop};
use crate::redundancy::Redundancy;
use crate::settings::{
    AppSettings, NetFlowSettings, PortSettings, RedundancySettings, Route, Settings, SettingsError,
};
use crate::wire::Mac;

/// Smallest MTU that IPv4 and IPv6 require of a link (RFC 791; RFC 8200, 5).
const LEAST_MTU_V4: u16 = 68;
const LEAST_MTU_V6: u16 = 1280;
/// Bytes of an IP packet fit in 16 bits, and a port's number in what neighbours are found by.
pub(crate) const MOST_PORTS: usize = 1024;
/// About 2 GB of flows for each worker.
const MOST_FLOWS: usize = 1 << 24;

/// Addresses and MTU of a port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) mac: Mac,
    pub(crate) mtu: usize,
    pub(crate) v4: Vec<Ipv4Net>,
    /// Without the link-local one.
    pub(crate) v6: Vec<Ipv6Net>,
    pub(crate) link_local: Ipv6Addr,
}

/// Tables in which packets are looked up: never changed, only replaced as a whole.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) ports: Vec<Port>,
    pub(crate) fib: Fib,
    /// This router's IPv4 addresses: few, so a scan is the quickest.
    pub(crate) own_v4: Vec<u32>,
    /// IPv6 addresses of this router.
    pub(crate) own_v6: Vec<u128>,
    pub(crate) app: App,
}

/// Application that packets pass besides the forwarding table.
#[derive(Debug)]
pub(crate) enum App {
    Route,
    NetFlow(NetFlowSettings),
    Ipsec(Ipsec),
    Redundancy(Redundancy),
}

impl App {
    fn build(
        settings: &AppSettings,
        own: &[IpAddr],
        ports: &[Port],
        old: Option<&App>,
    ) -> Result<App, SettingsError> {
        Ok(match settings {
            AppSettings::Ipsec(settings) => App::Ipsec(Ipsec::build(settings, own)?),
            AppSettings::NetFlow(settings) => {
                if settings.flows > MOST_FLOWS {
                    let (found, most) = (settings.flows, MOST_FLOWS);
                    return Err(SettingsError::TooMany { what: "flows", found, most });
                }
                App::NetFlow(settings.clone())
            }
            AppSettings::Redundancy(settings) => {
                // The other end refers to packets that this decoder keeps: a new one could restore
                // none of them.
                let old = match old {
                    Some(App::Redundancy(old)) => Some(old),
                    _ => None,
                };
                let built = Redundancy::build(settings, ports.len(), old)?;
                check_peer(settings, &ports[usize::from(settings.link)])?;
                App::Redundancy(built)
            }
            AppSettings::Route => App::Route,
        })
    }
}

impl Tables {
    /// Makes settings ready. What has to outlive a reload is taken over from the tables before.
    pub(crate) fn build(
        settings: &Settings,
        old: Option<&Tables>,
    ) -> Result<Tables, SettingsError> {
        let ports = ports(&settings.ports)?;
        let mut entries = connected(&ports);
        let mut seen = HashSet::new();
        for route in &settings.routes {
            // 10.0.0.1/24 and 10.0.0.0/24 are the same route.
            let prefix = route.prefix.trunc();
            if !seen.insert(prefix) {
                return Err(SettingsError::Twice(prefix));
            }
            entries.push((prefix, hop(route, &ports, settings)?));
        }
        // Of equal prefixes the last counts: a route replaces that of a port's network, and nothing
        // replaces an own address.
        entries.extend(own(&ports));
        for neighbour in &settings.neighbours {
            port_exists("neighbour", neighbour.port, ports.len())?;
        }
        let own_v4 = ports.iter().flat_map(|p| &p.v4).map(|net| net.addr().into()).collect();
        let own_v6 = ports.iter().flat_map(|p| &p.v6).map(|net| net.addr().into()).collect();
        let own: Vec<IpAddr> =
            settings.ports.iter().flat_map(|p| &p.addresses).map(IpNet::addr).collect();
        let app = App::build(&settings.app, &own, &ports, old.map(|old| &old.app))?;
        Ok(Tables { fib: Fib::build(entries)?, ports, own_v4, own_v6, app })
    }

    /// The address of ours that answers `other` about what came in on `port`.
    pub(crate) fn v4_source(&self, port: u16, other: Ipv4Addr) -> Option<Ipv4Addr> {
        let mut all = self.ports.iter().filter_map(|port| port.v4_towards(other));
        self.ports[usize::from(port)].v4_towards(other).or_else(|| all.next())
    }

    /// Returns the source address for IPv6 packets to `other`.
    pub(crate) fn v6_source(&self, port: u16, other: Ipv6Addr) -> Option<Ipv6Addr> {
        let port = &self.ports[usize::from(port)];
        if other.is_unicast_link_local() {
            return Some(port.link_local);
        }
        let near = port.v6.iter().find(|net| net.contains(&other));
        let all = self.ports.iter().flat_map(|port| &port.v6);
        near.into_iter().chain(&port.v6).chain(all).map(Ipv6Net::addr).next()
    }
}

pub(crate) fn port_exists(what: &str, found: u16, ports: usize) -> Result<(), SettingsError> {
    if usize::from(found) < ports {
        return Ok(());
    }
    Err(SettingsError::NoPort { what: what.to_owned(), found, ports })
}

fn ports(settings: &[PortSettings]) -> Result<Vec<Port>, SettingsError> {
    if settings.is_empty() || settings.len() > MOST_PORTS {
        return Err(SettingsError::Ports(settings.len()));
    }
    let mut seen = HashSet::new();
    let mut ports = Vec::with_capacity(settings.len());
    for port in settings {
        let has_v6 = port.addresses.iter().any(|net| matches!(net, IpNet::V6(_)));
        let least = if has_v6 { LEAST_MTU_V6 } else { LEAST_MTU_V4 };
        if port.mtu < least {
            let (port, mtu) = (port.name.clone(), port.mtu);
            return Err(SettingsError::Mtu { port, mtu, least });
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for &net in &port.addresses {
            let address = net.addr();
            let wrong = |what| Err(SettingsError::Address { address, what });
            if !seen.insert(address) {
                return wrong("two ports have it");
            }
            if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
                return wrong("no port can have it");
            }
            match net {
                IpNet::V4(net) => v4.push(net),
                IpNet::V6(net) if net.addr().is_unicast_link_local() => {
                    return wrong("link-local addresses are made from the Ethernet address");
                }
                IpNet::V6(net) => v6.push(net),
            }
        }
        let link_local = link_local(port.mac);
        ports.push(Port { mac: port.mac, mtu: port.mtu.into(), v4, v6, link_local });
    }
    Ok(ports)
}

/// The link-local address made from an Ethernet address (RFC 4291, appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xfe, 0x80]);
    // A modified EUI-64 identifier has the universal/local bit inverted.
    octets[8..].copy_from_slice(&[a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    octets.into()
}

/// Routes to the networks of the ports.
fn connected(ports: &[Port]) -> Vec<(IpNet, Hop)> {
    let mut entries = Vec::new();
    for (port, settings) in (0u16..).zip(ports) {
        let hop = Hop::Link { port };
        entries.extend(settings.v4.iter().map(|net| (IpNet::V4(net.trunc()), hop)));
        entries.extend(settings.v6.iter().map(|net| (IpNet::V6(net.trunc()), hop)));
    }
    entries
}

/// The router's own addresses and its networks' broadcast addresses: last, so that they win.
fn own(ports: &[Port]) -> Vec<(IpNet, Hop)> {
    let mut entries = Vec::new();
    let v4 = || ports.iter().flat_map(|port| &port.v4);
    // A network of 31 bits has no broadcast address (RFC 3021), nor has one of 32.
    for net in v4().filter(|net| net.prefix_len() < 31) {
        // The all-zeros form is an old broadcast address (RFC 1812, 4.2.2.11).
        for address in [net.network(), net.broadcast()] {
            entries.push((IpNet::from(IpAddr::V4(address)), Hop::Broadcast));
        }
    }
    entries.extend(v4().map(|net| (IpNet::from(IpAddr::V4(net.addr())), Hop::Local)));
    let v6 = ports.iter().flat_map(|port| &port.v6);
    entries.extend(v6.map(|net| (IpNet::from(IpAddr::V6(net.addr())), Hop::Local)));
    entries
}

fn hop(route: &Route, ports: &[Port], settings: &Settings) -> Result<Hop, SettingsError> {
    let prefix = route.prefix;
    if let Some(port) = route.port {
        port_exists(&format!("route to {prefix}"), port, ports.len())?;
    }
    let Some(gateway) = route.via else {
        let nowhere = if route.silent { Hop::Blackhole } else { Hop::Unreachable };
        return Ok(route.port.map_or(nowhere, |port| Hop::Link { port }));
    };
    // Linux refuses both, too: nobody else answers there.
    let networks = || settings.ports.iter().flat_map(|port| &port.addresses);
    if networks().any(|net| net.addr() == gateway) {
        let what = "the gateway of a route is the router itself";
        return Err(SettingsError::Address { address: gateway, what });
    }
    let is_wide = |net: &IpNet| net.addr().is_ipv4() && net.prefix_len() < 31;
    if networks().any(|net| is_wide(net) && net.broadcast() == gateway) {
        let what = "the gateway of a route is a broadcast address";
        return Err(SettingsError::Address { address: gateway, what });
    }
    let mut candidates: Vec<u16> = match route.port {
        Some(port) => vec![port],
        None => (0..ports.len() as u16).collect(),
    };
    let same_family = gateway.is_ipv4() == prefix.addr().is_ipv4();
    candidates.retain(|&port| same_family && on_link(&ports[usize::from(port)], gateway));
    // A link-local gateway may be on every port's link, so that only a port says on which.
    match (candidates.first(), is_link_local(gateway) && route.port.is_none()) {
        (Some(&port), false) => Ok(Hop::Gateway { port, gateway }),
        _ => {
            let name = |port: u16| settings.ports[usize::from(port)].name.clone();
            let of = route.port.map_or("any port".to_owned(), name);
            Err(SettingsError::Gateway { prefix, gateway, of })
        }
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn on_link(port: &Port, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => port.has_v4_link(address),
        IpAddr::V6(address) => port.has_v6_link(address),
    }
}

impl Port {
    /// Returns whether the address is on one of this port's networks.
    pub(crate) fn has_v4_link(&self, address: Ipv4Addr) -> bool {
        self.v4.iter().any(|net| net.contains(&address))
    }

    /// Returns whether an IPv6 address is on one of this port's networks; every port has the
    /// link-local one.
    pub(crate) fn has_v6_link(&self, address: Ipv6Addr) -> bool {
        address.is_unicast_link_local() || self.v6.iter().any(|net| net.contains(&address))
    }

    /// Returns whether this port has the address.
    pub(crate) fn has_v6(&self, address: u128) -> bool {
        let address = Ipv6Addr::from(address);
        address == self.link_local || self.v6.iter().any(|net| net.addr() == address)
    }

    /// The address to speak from towards `other`: the one on its network, or else the first.
    pub(crate) fn v4_towards(&self, other: Ipv4Addr) -> Option<Ipv4Addr> {
        let near = self.v4.iter().find(|net| net.contains(&other));
        near.or(self.v4.first()).map(Ipv4Net::addr)
    }
}

/// The other end of the link must be on it.
fn check_peer(settings: &RedundancySettings, port: &Port) -> Result<(), SettingsError> {
    if port.has_v4_link(settings.peer) {
        return Ok(());
    }
    let what = "the other end of the link is on no network of its port";
    Err(SettingsError::Address { address: IpAddr::V4(settings.peer), what })
}
