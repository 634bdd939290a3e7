//! grout's micro-sleep: a router on DPDK whose workers sleep a little longer each time they find
//! nothing.
//!
//! Follows `gr_datapath_loop` of grout's `modules/infra/datapath/main_loop.c` and
//! `link_event_cb` of `modules/infra/control/port.c`: 256 walks of the packet graph without a
//! packet end in a sleep, 1 us the first time and 1 us more each further time, up to what the
//! receive ring can hold of the smallest frames at line rate. Packets start it over.

use halfwink_units::Time;

use super::apart::{Apart, Resting};
use super::polls::EmptyPolls;
use super::{Depth, Rest};

/// Value of `HOUSEKEEPING_INTERVAL`.
pub(super) const WINDOW: u32 = 256;
/// The longest sleep of all.
const LONGEST_US: u32 = 1_000;
/// Smallest frame and gap, in bits.
const FRAME_BITS: u32 = (64 + 20) * 8;

/// Parameters of grout's sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroutParameters {
    /// Cores that forward, each with a queue of its own.
    pub cores: u8,
    /// Longest sleep, in microseconds; none if zero.
    pub longest_us: u32,
    /// Idle state of a sleeping core; the operating system chooses it.
    pub depth: Depth,
}

impl GroutParameters {
    /// Longest sleep with rings of so many descriptors on links of so many Mb/s: `queue_buffer_us`.
    #[must_use]
    pub const fn longest_us(ring: u32, link_mbps: u32) -> u32 {
        match link_mbps / FRAME_BITS {
            0 => 0,
            packets_per_us if ring / packets_per_us > LONGEST_US => LONGEST_US,
            packets_per_us => ring / packets_per_us,
        }
    }
}

/// The sleeps of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ramp {
    polls: EmptyPolls,
    sleep_us: u32,
}

impl Ramp {
    pub(super) fn found(&mut self) {
        *self = Ramp::default();
    }

    /// A poll found nothing; whether that fills a window without packets.
    pub(super) fn empty(&mut self, p: &GroutParameters) -> (Rest, bool) {
        if self.polls.empty() < WINDOW {
            return (self.polls.until(WINDOW), false);
        }
        self.polls.restart();
        if p.longest_us == 0 {
            return (self.polls.until(WINDOW), true);
        }
        self.sleep_us = (self.sleep_us + 1).min(p.longest_us);
        let span = Time::ns(1_000 * u64::from(self.sleep_us));
        (Rest::Sleep { span, depth: p.depth }, true)
    }
}

/// All workers take part for ever.
pub type Grout = Apart<Ramp>;

impl Apart<Ramp> {
    /// Starts with every worker at the foot of its ramp.
    #[must_use]
    pub fn new(parameters: GroutParameters) -> Grout {
        Apart::alike(&Ramp::default(), parameters.cores, parameters)
    }
}

impl Resting for Ramp {
    type Parameters = GroutParameters;

    fn polled(&mut self, _now: Time, taken: u32, _p: &GroutParameters) {
        if taken > 0 {
            self.found();
        }
    }

    fn rest(&mut self, _now: Time, p: &GroutParameters) -> Rest {
        self.empty(p).0
    }
}
