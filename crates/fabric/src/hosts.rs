//! Hosts that use circuits by turns, as they are described.

use serde::{Deserialize, Serialize};

use crate::description::{at_least, positive, wrong, DescriptionError};
use crate::faults::Faults;

/// Ordinary servers behind an optical switch (Strong 2013, Sec 4.4.2). All have the same values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// Number of hosts.
    pub count: u16,
    /// Largest frame with all headers, in bytes.
    pub frame_bytes: u32,
    /// Capacity of a queue, in days at the rate of a port.
    pub queue_days: f64,
    /// Delay from the begin of a night or day until the host handles its sync frame, in
    /// microseconds: least and most.
    pub sync_us: [f64; 2],
    /// Delay from there until the first packet reaches the network card, in microseconds.
    pub first_packet_us: [f64; 2],
    /// Processor time from one packet to the next, in microseconds.
    pub dequeue_us: f64,
    /// Time before the end of a day at which a host stops sending, in microseconds.
    pub margin_us: f64,
    /// Allows the last packet of a day to use more tokens than are left.
    pub overdraws: bool,
    /// Days in which the first packet is late, as a share.
    pub late_share: f64,
    /// Length of such a delay, in microseconds: least and most.
    pub late_us: [f64; 2],
    /// Processor time of packets.
    pub processor: Processor,
    /// Parameters of the hosts' TCP.
    pub tcp: Tcp,
    /// Network cards of the hosts.
    pub card: Card,
    /// Stalls that delay sync frames.
    pub stalls: Stalls,
    /// Faults injected into the hosts.
    #[serde(default)]
    pub faults: Faults,
    /// Power of network components; servers are not included.
    pub power: Power,
}

/// Work for each packet that a host sends and each that it receives, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Time for a packet sent and one received, beside their time on the wire, in microseconds.
    pub packet_us: f64,
    /// More for each other host that it has to do with, in microseconds.
    pub peer_us: f64,
    /// More for a segment of TCP with what acknowledges it, in microseconds.
    pub tcp_us: f64,
    /// Largest segment where network cards cut segments and join them, in bytes.
    pub offload_bytes: u32,
    /// Queues sync frames behind packets that arrived before.
    pub sync_waits: bool,
}

/// Parameters of TCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// First window, and what a receiver takes, in days at the rate of a port.
    pub window_days: f64,
    /// Segments in order for each acknowledgement.
    pub segments_per_ack: u32,
    /// Longest time until a segment is acknowledged, in milliseconds.
    pub delayed_ms: f64,
    /// Shortest time beyond a round trip until the timer fires, in milliseconds.
    pub least_timeout_ms: f64,
    /// Size of an acknowledgement, in bytes.
    pub ack_bytes: u32,
    /// Queue length from which segments are marked for DCTCP, in days at the rate of a port.
    pub mark_days: f64,
}

/// Parameters of a network card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Delay of a packet of `full_bytes` in the sender's card, in microseconds.
    pub transmit_us: f64,
    /// Delay in the receiver's card before software sees the packet, in microseconds.
    pub receive_us: f64,
    /// Both together for a packet of no size, in microseconds; in between they grow with size.
    pub least_us: f64,
    /// The size for which both are given, in bytes.
    pub full_bytes: u32,
    /// Backlog from which the card may enter its batch mode, in bytes.
    pub batch_bytes: u32,
    /// Packets beyond that which make it enter, as a share.
    pub batch_share: f64,
    /// Length of the pause that follows, in microseconds: least and most.
    pub batch_us: [f64; 2],
}

/// Times in which a host handles no sync frames; they are then handled all at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// Frames that meet a long one, as a share.
    pub long_share: f64,
    /// Length of a long stall, in microseconds: least and most.
    pub long_us: [f64; 2],
    /// Frames that meet a short one, as a share.
    pub short_share: f64,
    /// Length of a short stall, in microseconds: least and most.
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
    /// Power of a host's transceiver.
    pub transceiver_w: f64,
}

impl Hosts {
    /// Work for a packet sent and one received, in microseconds. Over TCP `offload` says whether
    /// cards cut and join segments.
    #[must_use]
    pub fn packet_us(&self, wire_us: f64, tcp: Option<bool>) -> f64 {
        let work = &self.processor;
        let plain = wire_us + work.packet_us + work.peer_us * f64::from(self.count - 1);
        let share = f64::from(self.frame_bytes) / f64::from(work.offload_bytes);
        plain
            + match tcp {
                None => 0.0,
                Some(false) => work.tcp_us,
                // With offload the work is for each large segment, of which a frame is this share.
                Some(true) => work.tcp_us * share.min(1.0),
            }
    }

    fn check_transport(&self) -> Result<(), DescriptionError> {
        let (work, tcp) = (&self.processor, &self.tcp);
        at_least("hosts.processor.packet_us", work.packet_us, 0.0)?;
        at_least("hosts.processor.peer_us", work.peer_us, 0.0)?;
        at_least("hosts.processor.tcp_us", work.tcp_us, 0.0)?;
        at_least("hosts.processor.offload_bytes", f64::from(work.offload_bytes), 64.0)?;
        positive("hosts.tcp.window_days", tcp.window_days)?;
        at_least("hosts.tcp.segments_per_ack", f64::from(tcp.segments_per_ack), 1.0)?;
        positive("hosts.tcp.delayed_ms", tcp.delayed_ms)?;
        positive("hosts.tcp.least_timeout_ms", tcp.least_timeout_ms)?;
        at_least("hosts.tcp.ack_bytes", f64::from(tcp.ack_bytes), 40.0)?;
        positive("hosts.tcp.mark_days", tcp.mark_days)?;
        at_least("hosts.card.full_bytes", f64::from(self.card.full_bytes), 64.0)?;
        let both = self.card.transmit_us + self.card.receive_us;
        if !(0.0..=both).contains(&self.card.least_us) {
            let message = format!("found {}, expected 0 to {both}", self.card.least_us);
            return Err(wrong("hosts.card.least_us", message));
        }
        Ok(())
    }

    pub(crate) fn check(&self, usable_ports: u32) -> Result<(), DescriptionError> {
        let count = u32::from(self.count);
        if count < 2 || count > usable_ports {
            let message = format!("found {count}, expected 2 to {usable_ports}, the usable ports");
            return Err(wrong("hosts.count", message));
        }
        at_least("hosts.frame_bytes", f64::from(self.frame_bytes), 64.0)?;
        positive("hosts.queue_days", self.queue_days)?;
        positive("hosts.dequeue_us", self.dequeue_us)?;
        at_least("hosts.margin_us", self.margin_us, 0.0)?;
        at_least("hosts.card.transmit_us", self.card.transmit_us, 0.0)?;
        at_least("hosts.card.receive_us", self.card.receive_us, 0.0)?;
        self.check_transport()?;
        self.faults.check()?;
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
