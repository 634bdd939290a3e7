//! Suricata's capture loop on DPDK with interrupts: few empty polls, then sleep until an interrupt.
//!
//! Follows `RXPacketCountHeuristic` of Suricata's `src/source-dpdk.c`: ten empty polls in a row are
//! repeated at once; the next one waits for the queue's interrupt, 500 ms at most. (Its delay of
//! 1 us between the two is never reached: both thresholds are ten.)

use halfwink_units::Time;

use super::apart::{Apart, Resting};
use super::polls::EmptyPolls;
use super::{Depth, Rest};

/// Value of `MIN_ZERO_POLL_COUNT`.
const EMPTY_POLLS: u32 = 10;
/// Value of `MAX_EPOLL_TIMEOUT_MS`.
const TIMEOUT: Time = Time::ns(500_000_000);

/// Policy that sleeps after a few empty polls.
pub type Suricata = Apart<Worker>;

/// A worker of Suricata.
#[derive(Clone, Debug, Default)]
pub struct Worker(EmptyPolls);

impl Apart<Worker> {
    /// Creates the policy for `cores` cores, whose idle state the operating system chooses
    /// (assumption: this one).
    #[must_use]
    pub fn new(cores: u8, depth: Depth) -> Suricata {
        Apart::alike(&Worker::default(), cores, depth)
    }
}

impl Resting for Worker {
    type Parameters = Depth;

    fn polled(&mut self, _now: Time, taken: u32, _depth: &Depth) {
        self.0.polled(taken);
    }

    fn rest(&mut self, _now: Time, &depth: &Depth) -> Rest {
        if self.0.empty() <= EMPTY_POLLS {
            self.0.until(EMPTY_POLLS + 1)
        } else {
            Rest::HaltFor { span: TIMEOUT, depth }
        }
    }
}
