//! Power of a data centre whose core switches packets, or circuits (Strong 2013, Sec 4.2.2).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Servers below a tree of two levels of switches, the upper one of packets or of circuits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCentre {
    /// Groups of servers, each with its own switches (Sec 4.2.2).
    pub pods: u32,
    /// Servers of a pod.
    pub servers_per_pod: u32,
    /// Power of a server that does nothing, in watts.
    pub server_idle_w: f64,
    /// Power of a server at full use, in watts. Between, it is linear.
    pub server_busy_w: f64,
    /// Ports for each server.
    pub ports: Ports,
    /// Power of an optical port, in watts (Table 4.1).
    pub circuit_port_w: f64,
    /// Wavelengths that share an optical port.
    pub wavelengths: u32,
    /// Power of a transceiver, in watts (Table 4.1).
    pub transceiver_w: f64,
    /// Ports of packet switches by name: rates, and what a port draws at them.
    pub packet_ports: BTreeMap<String, PacketPort>,
}

/// Switch ports per server, at full bisection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// Ports of packet switches below the core.
    pub edge: f64,
    /// Ports of switches in the core.
    pub core: f64,
    /// Transceivers that a core of packet switches needs beside those of an optical one.
    pub transceivers: f64,
}

/// A port of a packet switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketPort {
    /// Rate of the port, in gigabits per second.
    pub gbps: f64,
    /// Power of the port and of its share of the chassis, in watts.
    pub w: f64,
}

/// Power for each server, with either core, in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorePower {
    /// Power with a core of packet switches.
    pub packets_w: f64,
    /// Power with a core of circuits.
    pub circuits_w: f64,
}

impl CorePower {
    /// Share that circuits save, in percent.
    #[must_use]
    pub fn saved_pct(self) -> f64 {
        100.0 * (self.packets_w - self.circuits_w) / self.packets_w
    }
}

impl DataCentre {
    /// Returns the number of servers.
    #[must_use]
    pub fn servers(&self) -> u64 {
        u64::from(self.pods) * u64::from(self.servers_per_pod)
    }

    /// Power for each server at a `utilisation` of 0 to 1, with a port for each demand.
    #[must_use]
    pub fn power(&self, port: PacketPort, utilisation: f64) -> CorePower {
        let range_w = self.server_busy_w - self.server_idle_w;
        let server_w = self.server_idle_w + utilisation * range_w;
        let below_w = server_w + self.ports.edge * port.w;
        let circuit_w = self.circuit_port_w / f64::from(self.wavelengths);
        CorePower {
            packets_w: below_w
                + self.ports.core * port.w
                // Packet switches end in electronics, so that each core port needs a transceiver;
                // light passes an optical one.
                + self.ports.transceivers * self.transceiver_w,
            circuits_w: below_w + self.ports.core * circuit_w,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{DataCentre, PacketPort, Ports};

    #[test]
    fn a_server_and_its_ports_add_up() {
        let centre = DataCentre {
            pods: 2,
            servers_per_pod: 3,
            server_idle_w: 100.0,
            server_busy_w: 250.0,
            ports: Ports { edge: 2.0, core: 1.0, transceivers: 1.0 },
            circuit_port_w: 1.6,
            wavelengths: 16,
            transceiver_w: 1.0,
            packet_ports: BTreeMap::new(),
        };
        let power = centre.power(PacketPort { gbps: 10.0, w: 14.0 }, 0.2);
        assert_eq!(power.packets_w, 130.0 + 28.0 + 14.0 + 1.0);
        assert_eq!(power.circuits_w, 130.0 + 28.0 + 0.1);
        assert!((power.saved_pct() - 100.0 * 14.9 / 173.0).abs() < 1e-12);
        assert_eq!(centre.servers(), 6);
    }
}
