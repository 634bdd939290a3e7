//! Arbitrary files of flows and coflows: what is read is possible between the racks it is read for,
//! and what is wrong is told with a line of the file.

use halfwink_fabric::flows::files::{read_coflows, read_flows};
use halfwink_fabric::flows::{RackPower, Racks};

fn racks() -> Racks {
    Racks {
        count: 5,
        servers: 3,
        server_gbps: 10.0,
        planes: 2,
        packet_gbps: 0.0,
        packet_below_bytes: 0.0,
        goodput: 1.0,
        hop_us: 0.5,
        frame_bytes: 1500.0,
        packet_hops: 4,
        power: RackPower {
            circuit_port_w: 0.0,
            packet_w_per_gbps: 0.0,
            transceiver_w: 0.0,
            server_w: 0.0,
        },
    }
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    let racks = racks();
    for read in [read_flows(text, &racks), read_coflows(text, &racks)] {
        match read {
            Ok(traffic) => {
                assert!(!traffic.flows().is_empty());
                for flow in traffic.flows() {
                    assert!(flow.from < 15 && flow.to < 15 && flow.from != flow.to);
                    assert!(flow.bytes >= 1.0 && flow.bytes <= 1e15);
                }
            }
            Err(error) => assert!((1..=text.lines().count().max(1)).contains(&error.line)),
        }
    }
}
