//! The forwarding table: the longest prefix that holds a destination says what to do.

mod dir24;
mod synthetic;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use crate::settings::SettingsError;
use dir24::Dir24;
pub use synthetic::synthetic_prefixes;
pub(crate) use synthetic::SplitMix;

/// Next hop of packets to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// There is no route.
    None,
    /// Drops packets on purpose, without an ICMP error.
    Blackhole,
    /// Dropped on purpose, and the sender is told.
    Unreachable,
    /// An address of this router.
    Local,
    /// A broadcast address of a network of ours.
    Broadcast,
    /// On the network of this port.
    Link {
        /// Number of the port.
        port: u16,
    },
    /// Behind a gateway on the network of this port.
    Gateway {
        /// Number of the port.
        port: u16,
        /// Address of the gateway.
        gateway: IpAddr,
    },
}

/// The table. Building it takes milliseconds, a look-up one or two loads (IPv4, DIR-24-8) or a
/// walk of a trie (IPv6).
#[derive(Debug)]
pub struct Fib {
    hops: Vec<Hop>,
    v4: Dir24,
    v6: PrefixMap<Ipv6Net, u16>,
}

impl Fib {
    /// Builds the table; of equal prefixes the last counts.
    ///
    /// # Errors
    ///
    /// More different hops, or more /24s with longer prefixes inside, than 15 bits can name.
    pub fn build(routes: impl IntoIterator<Item = (IpNet, Hop)>) -> Result<Fib, SettingsError> {
        let mut hops = vec![Hop::None];
        let mut known = HashMap::from([(Hop::None, 0usize)]);
        let (mut v4, mut v6) = (Vec::<(Ipv4Net, u16)>::new(), PrefixMap::new());
        for (prefix, hop) in routes {
            let place = *known.entry(hop).or_insert_with(|| {
                hops.push(hop);
                hops.len() - 1
            });
            let value = (place % dir24::MOST) as u16;
            match prefix.trunc() {
                IpNet::V4(prefix) => v4.push((prefix, value)),
                IpNet::V6(prefix) => drop(v6.insert(prefix, value)),
            }
        }
        let too_many = |what, found| SettingsError::TooMany { what, found, most: dir24::MOST };
        if hops.len() > dir24::MOST {
            return Err(too_many("next hops", hops.len()));
        }
        let longer = "IPv4 /24s that hold longer prefixes";
        let v4 = Dir24::build(v4).map_err(|found| too_many(longer, found))?;
        Ok(Fib { hops, v4, v6 })
    }

    /// Returns the next hop of an IPv4 address.
    #[inline]
    #[must_use]
    pub fn v4(&self, address: u32) -> Hop {
        self.hops[usize::from(self.v4.lookup(address))]
    }

    /// Returns the next hop of an IPv6 address.
    #[must_use]
    pub fn v6(&self, address: u128) -> Hop {
        // The map wants a prefix; a full one is an address.
        let Ok(address) = Ipv6Net::new(Ipv6Addr::from(address), 128) else { return Hop::None };
        self.v6.get_lpm(&address).map_or(Hop::None, |(_, &value)| self.hops[usize::from(value)])
    }

    /// Returns the next hop of an address.
    #[must_use]
    pub fn lookup(&self, address: IpAddr) -> Hop {
        match address {
            IpAddr::V4(address) => self.v4(Ipv4Addr::into(address)),
            IpAddr::V6(address) => self.v6(address.into()),
        }
    }
}

#[cfg(test)]
mod tests;
