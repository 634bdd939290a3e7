//! Who is behind which Ethernet address.

use std::collections::HashMap;
use std::net::IpAddr;

use halfwink_units::Time;

use crate::settings::StaticNeighbour;
use crate::wire::Mac;

/// A neighbour: the port it is behind, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) port: u16,
    /// IPv4 addresses as ::ffff:a.b.c.d, which no IPv6 neighbour has.
    pub(crate) address: u128,
}

impl Key {
    pub(crate) fn new(port: u16, address: IpAddr) -> Key {
        match address {
            IpAddr::V4(address) => Key::v4(port, address.into()),
            IpAddr::V6(address) => Key { port, address: address.into() },
        }
    }

    pub(crate) fn v4(port: u16, address: u32) -> Key {
        Key { port, address: 0xffff_0000_0000 | u128::from(address) }
    }
}

/// All neighbours of a router.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    table: HashMap<Key, Mac>,
}

impl Neighbours {
    pub(crate) fn set_static(&mut self, neighbours: &[StaticNeighbour]) {
        self.table = neighbours.iter().map(|n| (Key::new(n.port, n.address), n.mac)).collect();
    }

    pub(crate) fn lookup(&mut self, _now: Time, key: Key) -> Option<Mac> {
        self.table.get(&key).copied()
    }
}
