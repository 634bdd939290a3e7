//! Racks whose servers share circuits, as they are described.

use serde::{Deserialize, Serialize};

use super::fault_spec::RackFaults;
use crate::description::{at_least, positive, wrong, DescriptionError};

/// Most racks: what waits is kept for each pair.
const MOST_RACKS: u16 = 1024;
/// Most planes: a path over circuits has fewer circuits than that.
const MOST_PLANES: u8 = 64;

/// Racks of servers, each with one port of every circuit switch. All have the same values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Racks {
    /// Number of racks.
    pub count: u16,
    /// Number of servers in each rack.
    pub servers: u16,
    /// Rate at which a server sends and receives, in gigabits per second.
    pub server_gbps: f64,
    /// Circuit switches (planes), each with a port for every rack.
    pub planes: u8,
    /// Rate at which a rack sends and receives over packet switches beside the circuits, in
    /// gigabits per second; 0 means none.
    pub packet_gbps: f64,
    /// Flows of fewer bytes take the packet switch, if there is one beside circuits.
    pub packet_below_bytes: f64,
    /// Shares of a port's rate that frames leave to what programs send.
    pub goodput: f64,
    /// Latency from one switch or server to the next, in microseconds, without a frame's time on
    /// the wire.
    pub hop_us: f64,
    /// Longest frame, in bytes: each switch has one whole before it sends it on.
    pub frame_bytes: f64,
    /// Hops of a frame over the packet switch, which may be several in layers.
    pub packet_hops: u32,
    /// Faults of the links.
    #[serde(default)]
    pub faults: RackFaults,
    /// Accelerator of a rank of a trace, where a trace has operations and no times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<Roofline>,
    /// Power of ports and switches.
    pub power: RackPower,
}

/// Highest speed of an accelerator: limited by its operations, or by its memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// Operations, in 10^12 a second.
    pub tflops: f64,
    /// Memory bandwidth, in gigabytes per second.
    pub memory_gb_per_s: f64,
}

impl Roofline {
    /// Time of so many operations on so many bytes, in seconds.
    #[must_use]
    pub fn seconds(&self, operations: f64, bytes: f64) -> f64 {
        (operations / (1e12 * self.tflops)).max(bytes / (1e9 * self.memory_gb_per_s))
    }
}

/// Power of what carries flows, in watts; modelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackPower {
    /// A port of a circuit switch.
    pub circuit_port_w: f64,
    /// A gigabit per second of a rack's rate to packet switches, all their layers together.
    pub packet_w_per_gbps: f64,
    /// A rack's transceiver of the rate of a port.
    pub transceiver_w: f64,
    /// A server that waits for the network or computes.
    pub server_w: f64,
}

impl Racks {
    /// Servers of all racks.
    #[must_use]
    pub fn all_servers(&self) -> u32 {
        u32::from(self.count) * u32::from(self.servers)
    }

    /// The rack of a server.
    #[must_use]
    pub fn rack_of(&self, server: u32) -> u16 {
        (server / u32::from(self.servers)) as u16
    }

    /// Returns the time that a path adds to the transfer of `bytes` at full rate, in microseconds:
    /// the hops, and the last frame once more in each switch.
    #[must_use]
    pub fn way_us(&self, hops: u32, bytes: f64) -> f64 {
        // Gb/s are 125 bytes in a microsecond.
        let frame_us = bytes.min(self.frame_bytes) / (125.0 * self.server_gbps);
        f64::from(hops) * self.hop_us + f64::from(hops.saturating_sub(1)) * frame_us
    }

    pub(crate) fn check(&self, usable_ports: u32) -> Result<(), DescriptionError> {
        let count = u32::from(self.count);
        let most = usable_ports.min(u32::from(MOST_RACKS));
        if count < 2 || count > most {
            let message = format!("found {count}, expected 2 to {most}");
            return Err(wrong("racks.count", message));
        }
        at_least("racks.servers", f64::from(self.servers), 1.0)?;
        if !(1..=MOST_PLANES).contains(&self.planes) {
            let message = format!("found {}, expected 1 to {MOST_PLANES}", self.planes);
            return Err(wrong("racks.planes", message));
        }
        positive("racks.server_gbps", self.server_gbps)?;
        at_least("racks.packet_gbps", self.packet_gbps, 0.0)?;
        at_least("racks.packet_below_bytes", self.packet_below_bytes, 0.0)?;
        positive("racks.goodput", self.goodput)?;
        if self.goodput > 1.0 {
            return Err(wrong(
                "racks.goodput",
                format!("found {}, expected up to 1", self.goodput),
            ));
        }
        at_least("racks.hop_us", self.hop_us, 0.0)?;
        at_least("racks.frame_bytes", self.frame_bytes, 0.0)?;
        self.faults.check()?;
        if let Some(rank) = &self.rank {
            positive("racks.rank.tflops", rank.tflops)?;
            positive("racks.rank.memory_gb_per_s", rank.memory_gb_per_s)?;
        }
        at_least("racks.power.circuit_port_w", self.power.circuit_port_w, 0.0)?;
        at_least("racks.power.packet_w_per_gbps", self.power.packet_w_per_gbps, 0.0)?;
        at_least("racks.power.transceiver_w", self.power.transceiver_w, 0.0)?;
        at_least("racks.power.server_w", self.power.server_w, 0.0)
    }
}
