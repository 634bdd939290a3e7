//! What a run is given, and what it counts.

use halfwink_engine::Histogram;
use halfwink_policy::circuits::host::Scheme;
use halfwink_units::Time;

use crate::hosts::Hosts;
use crate::tcp::Algorithm;
use crate::CircuitSwitch;

/// Transport of data between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams: what is lost is lost.
    Udp,
    /// Connections with congestion control.
    Tcp {
        /// Algorithm of congestion control.
        algorithm: Algorithm,
        /// Network cards segment large sends and coalesce received segments.
        offload: bool,
    },
}

/// Setting of a run.
pub struct Setting<'a> {
    /// Circuit switch of the fabric.
    pub switch: &'a CircuitSwitch,
    /// Hosts at the switch.
    pub hosts: &'a Hosts,
    /// Scheme that limits the hosts' tokens.
    pub scheme: Scheme,
    /// Transport of their data.
    pub transport: Transport,
    /// Length of the run; it is extended to the end of a slot.
    pub duration: Time,
    /// Day for which queues are sized.
    pub day: Time,
    /// Seed of all random streams.
    pub seed: u64,
}

/// Counters of packets; for TCP, of those with data.
#[derive(Debug)]
pub struct Counts {
    /// Handed to a network card.
    pub sent: u64,
    /// Number of these that were lost: on the wire while no circuit or another one was up, or by a
    /// link fault.
    pub lost: u64,
    /// Days of which a host heard only when they were over, or never.
    pub missed_days: u64,
    /// Time from the begin of a day until the receiver sees its first packet.
    pub first_arrival: Histogram,
    /// Time from the begin of a day until its first packet is handed to the card.
    pub first_handed: Histogram,
    /// Time from the handling of the day's sync frame until the first packet is handed to the card.
    pub reaction: Histogram,
    /// Time from the begin of a day until its last packet is handed to the card.
    pub handed_over: Histogram,
    /// Shortest time of a first packet in both cards.
    pub least_in_cards: Time,
    /// Longest pause of a card.
    pub longest_pause: Time,
    /// Delivered by the host that plays, for each other.
    pub(super) delivered: Vec<u64>,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            sent: 0,
            lost: 0,
            missed_days: 0,
            first_arrival: Histogram::default(),
            first_handed: Histogram::default(),
            reaction: Histogram::default(),
            handed_over: Histogram::default(),
            least_in_cards: Time::NEVER,
            longest_pause: Time::ZERO,
            delivered: vec![],
        }
    }
}

/// Time of a number of microseconds.
pub(super) fn us(us: f64) -> Time {
    Time::from_ns(1e3 * us)
}
