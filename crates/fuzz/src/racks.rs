//! Racks for what is read about them, which draw no power.

use halfwink_fabric::flows::{RackFaults, RackPower, Racks};

/// Creates racks of servers; a byte takes a nanosecond of a server's port.
pub fn racks(count: u16, servers: u16) -> Racks {
    Racks {
        count,
        servers,
        server_gbps: 8.0,
        planes: 1,
        packet_gbps: 0.0,
        packet_below_bytes: 0.0,
        goodput: 1.0,
        hop_us: 0.0,
        frame_bytes: 0.0,
        packet_hops: 4,
        faults: RackFaults::default(),
        rank: None,
        power: RackPower {
            circuit_port_w: 0.0,
            packet_w_per_gbps: 0.0,
            transceiver_w: 0.0,
            server_w: 0.0,
        },
    }
}
