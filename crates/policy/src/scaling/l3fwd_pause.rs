//! DPDK's queue power management in pause mode: `l3fwd-power --pmd-mgmt=pause`.
//!
//! Follows `clb_pause` of DPDK's `lib/power/rte_power_pmd_mgmt.c`: after 512 empty polls in a row
//! each further one ends in a pause of 1 us, until packets come. It never sleeps.

use halfwink_units::Time;

use super::apart::{Apart, Resting};
use super::polls::EmptyPolls;
use super::Rest;

/// Default of `emptypoll_max`.
const EMPTY_POLLS: u32 = 512;
/// Default of `pause_duration`.
const PAUSE: Time = Time::ns(1_000);

/// Pauses between empty polls.
pub type L3fwdPause = Apart<Lcore>;

/// A core of l3fwd-power.
#[derive(Clone, Debug, Default)]
pub struct Lcore(EmptyPolls);

impl Apart<Lcore> {
    /// Creates the policy for `cores` cores.
    #[must_use]
    pub fn new(cores: u8) -> L3fwdPause {
        Apart::alike(&Lcore::default(), cores, ())
    }
}

impl Resting for Lcore {
    type Parameters = ();

    fn polled(&mut self, _now: Time, taken: u32, (): &()) {
        self.0.polled(taken);
    }

    fn rest(&mut self, _now: Time, (): &()) -> Rest {
        if self.0.empty() <= EMPTY_POLLS {
            self.0.until(EMPTY_POLLS + 1)
        } else {
            Rest::Pause { span: PAUSE }
        }
    }
}
