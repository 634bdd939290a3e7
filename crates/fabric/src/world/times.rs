//! Descriptions as times.

use halfwink_units::Time;

use super::setting::{us, Setting, Transport};

/// Durations with which slots are played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    wire_ps_per_byte: f64,
    /// Delay of a packet of size zero, and of each further byte.
    transmit: (f64, f64),
    receive: (f64, f64),
    pub(super) dequeue: Time,
    /// Backlog that a card may hold, as time on the wire.
    pub(super) batch_backlog: Time,
    pub(super) batch_share: f64,
    pub(super) batch_us: [f64; 2],
    pub(super) fill_bytes_per_ps: f64,
    pub(super) queue_bytes: f64,
    /// Processor time of a packet, sent or received.
    pub(super) work: Time,
}

impl Times {
    pub(super) fn of(setting: &Setting) -> Times {
        let (switch, hosts) = (setting.switch, setting.hosts);
        let card = &hosts.card;
        // Gb/s are 1e-3 bit/ps.
        let bytes_per_ps = switch.port_gbps * 1e-3 / 8.0;
        let both = card.transmit_us + card.receive_us;
        let in_card = |full: f64| {
            let least = if both > 0.0 { card.least_us * full / both } else { 0.0 };
            (1e6 * least, 1e6 * (full - least) / f64::from(card.full_bytes))
        };
        let frame = f64::from(hosts.frame_bytes);
        let tcp = match setting.transport {
            Transport::Udp => None,
            Transport::Tcp { offload, .. } => Some(offload),
        };
        let packet_us = hosts.packet_us(switch.wire_us(frame), tcp);
        Times {
            wire_ps_per_byte: 1.0 / bytes_per_ps,
            transmit: in_card(card.transmit_us),
            receive: in_card(card.receive_us),
            dequeue: us(hosts.dequeue_us),
            batch_backlog: us(switch.wire_us(f64::from(card.batch_bytes))),
            batch_share: card.batch_share,
            batch_us: card.batch_us,
            fill_bytes_per_ps: frame / (1e6 * packet_us) / f64::from(hosts.count - 1),
            queue_bytes: hosts.queue_days * bytes_per_ps * setting.day.0 as f64,
            // Only both together are known.
            work: us(packet_us / 2.0),
        }
    }

    pub(super) fn wire(&self, bytes: u32) -> Time {
        Time((self.wire_ps_per_byte * f64::from(bytes)).round() as u64)
    }

    pub(super) fn transmit(&self, bytes: u32) -> Time {
        Time((self.transmit.0 + self.transmit.1 * f64::from(bytes)).round() as u64)
    }

    pub(super) fn receive(&self, bytes: u32) -> Time {
        Time((self.receive.0 + self.receive.1 * f64::from(bytes)).round() as u64)
    }
}
