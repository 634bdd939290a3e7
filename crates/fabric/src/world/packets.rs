//! The same hosts over a packet switch: nobody waits for a turn.

use super::books::packet_books;
use super::{Counts, Run, Setting, Transport, WorldError};
use crate::faults::FaultCounts;
use crate::hosts::Hosts;
use crate::world::sync::Gaps;
use crate::CircuitSwitch;

/// Returns the rate at which a host sends and receives over a packet switch, in gigabits per
/// second: limited by its processor and by its wire.
#[must_use]
pub fn packet_gbps(switch: &CircuitSwitch, hosts: &Hosts, transport: Transport) -> f64 {
    let tcp = match transport {
        Transport::Udp => None,
        Transport::Tcp { offload, .. } => Some(offload),
    };
    let frame = f64::from(hosts.frame_bytes);
    let of_processor = 8e-3 * frame / hosts.packet_us(switch.wire_us(frame), tcp);
    of_processor.min(switch.port_gbps)
}

/// Plays traffic from all to all over a packet switch that every host loads as it can: each packet
/// arrives (Strong 2013, Fig 4.18, EPS-UDP and EPS-TCP). In closed form, since nothing disturbs it:
/// processors are slower than wires, so that nothing waits in the switch.
///
/// # Errors
/// If its books do not balance, or something would go wrong: in closed form nothing does.
pub fn play_packets(setting: &Setting) -> Result<Run, WorldError> {
    let hosts = setting.hosts;
    if hosts.faults.any() {
        return Err(WorldError::NoFaults);
    }
    let (count, duration) = (u64::from(hosts.count), setting.duration);
    let gbps = packet_gbps(setting.switch, hosts, setting.transport);
    let bits = gbps * 1e9 * duration.as_s();
    let of_pair = (bits / f64::from(hosts.frame_bytes) / 8.0 / (count - 1) as f64) as u64;
    // The diagonal of a square matrix in one row.
    let is_self = |n: u64| n.is_multiple_of(count + 1);
    let delivered = (0..count * count).map(|n| if is_self(n) { 0 } else { of_pair }).collect();
    let counts = Counts { sent: of_pair * count * (count - 1), ..Counts::default() };
    let (books, gaps) = (packet_books(setting, duration)?, Gaps::default());
    let faults = FaultCounts::default();
    Ok(Run { duration, slots: 0, up: duration, counts, gaps, faults, delivered, tcp: None, books })
}
