//! Hosts that use circuits by turns, as they are described.

use serde::{Deserialize, Serialize};

use crate::description::{at_least, positive, wrong, DescriptionError};

/// Ordinary servers behind an optical switch (Strong 2013, Sec 4.4.2). All have the same values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// How many.
    pub count: u16,
    /// Largest frame with all headers, in bytes.
    pub frame_bytes: u32,
    /// What a host can put into its queues for all others together, in gigabits per second.
    pub send_gbps: f64,
    /// What a queue holds, in days at the rate of a port.
    pub queue_days: f64,
    /// From the begin of a night or day until the host has heard of it, in microseconds: least and
    /// most.
    pub sync_us: [f64; 2],
    /// From there until the first packet is with the network card, in microseconds.
    pub first_packet_us: [f64; 2],
    /// From one packet to the next, in microseconds of the processor.
    pub dequeue_us: f64,
    /// How long before the end of a day a host stops, in microseconds.
    pub margin_us: f64,
    /// Whether the last packet of a day may take more tokens than are left.
    pub overdraws: bool,
    /// Days in which the first packet is late, as a share.
    pub late_share: f64,
    /// By how much, in microseconds: least and most.
    pub late_us: [f64; 2],
    /// Their network cards.
    pub card: Card,
    /// What comes between them and news of the switch.
    pub stalls: Stalls,
    /// What draws power beside the servers.
    pub power: Power,
}

/// A network card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// How long a packet is in it before it is sent, in microseconds.
    pub transmit_us: f64,
    /// How long it is in the receiver's before software sees it, in microseconds.
    pub receive_us: f64,
    /// How much may wait before it may enter its batch mode, in bytes.
    pub batch_bytes: u32,
    /// Packets beyond that which make it enter, as a share.
    pub batch_share: f64,
    /// How long it then pauses, in microseconds: least and most.
    pub batch_us: [f64; 2],
}

/// Times in which a host handles no sync frames; they are then handled all at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// Frames that meet a long one, as a share.
    pub long_share: f64,
    /// Its length, in microseconds: least and most.
    pub long_us: [f64; 2],
    /// Frames that meet a short one, as a share.
    pub short_share: f64,
    /// Its length, in microseconds: least and most.
    pub short_us: [f64; 2],
}

/// Power of what carries packets, in watts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// A port of the optical switch.
    pub circuit_port_w: f64,
    /// A port of a packet switch of the same rate.
    pub packet_port_w: f64,
    /// A host's transceiver.
    pub transceiver_w: f64,
}

impl Hosts {
    pub(crate) fn check(&self, usable_ports: u32) -> Result<(), DescriptionError> {
        let count = u32::from(self.count);
        if count < 2 || count > usable_ports {
            let message = format!("found {count}, expected 2 to {usable_ports}, the usable ports");
            return Err(wrong("hosts.count", message));
        }
        at_least("hosts.frame_bytes", f64::from(self.frame_bytes), 64.0)?;
        positive("hosts.send_gbps", self.send_gbps)?;
        positive("hosts.queue_days", self.queue_days)?;
        positive("hosts.dequeue_us", self.dequeue_us)?;
        at_least("hosts.margin_us", self.margin_us, 0.0)?;
        at_least("hosts.card.transmit_us", self.card.transmit_us, 0.0)?;
        at_least("hosts.card.receive_us", self.card.receive_us, 0.0)?;
        let ranges = [
            ("hosts.sync_us", self.sync_us),
            ("hosts.first_packet_us", self.first_packet_us),
            ("hosts.late_us", self.late_us),
            ("hosts.card.batch_us", self.card.batch_us),
            ("hosts.stalls.long_us", self.stalls.long_us),
            ("hosts.stalls.short_us", self.stalls.short_us),
        ];
        for (name, [least, most]) in ranges {
            at_least(name, least, 0.0)?;
            at_least(name, most, least)?;
        }
        let shares = [
            ("hosts.late_share", self.late_share),
            ("hosts.card.batch_share", self.card.batch_share),
            ("hosts.stalls.long_share", self.stalls.long_share),
            ("hosts.stalls.short_share", self.stalls.short_share),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(wrong(name, format!("found {share}, expected 0 to 1")));
            }
        }
        at_least("hosts.power.circuit_port_w", self.power.circuit_port_w, 0.0)?;
        at_least("hosts.power.packet_port_w", self.power.packet_port_w, 0.0)?;
        at_least("hosts.power.transceiver_w", self.power.transceiver_w, 0.0)
    }
}
