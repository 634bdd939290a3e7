//! DPDK's queue power management in pause mode: `l3fwd-power --pmd-mgmt=pause`.
//!
//! Follows `clb_pause` of DPDK's `lib/power/rte_power_pmd_mgmt.c`: after 512 empty polls in a row
//! each further one ends in a pause of 1 us, until packets come. It never sleeps.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::polls::EmptyPolls;
use super::{Action, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// `emptypoll_max` by default.
const EMPTY_POLLS: u32 = 512;
/// `pause_duration` by default.
const PAUSE: Time = Time::ns(1_000);

/// Pauses between empty polls.
#[derive(Clone, Debug)]
pub struct L3fwdPause {
    cores: Vec<EmptyPolls>,
    pending: Option<Action>,
}

impl L3fwdPause {
    /// For so many cores.
    #[must_use]
    pub fn new(cores: u8) -> L3fwdPause {
        L3fwdPause { cores: vec![EmptyPolls::default(); usize::from(cores)], pending: None }
    }
}

impl Policy for L3fwdPause {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match *event {
            Event::Poll { core, taken, .. } if taken > 0 => self.cores[usize::from(core)].found(),
            Event::Poll { .. } => {}
            Event::Empty { core } => {
                let polls = &mut self.cores[usize::from(core)];
                let rest = if polls.empty() <= EMPTY_POLLS {
                    polls.until(EMPTY_POLLS + 1)
                } else {
                    Rest::Pause { span: PAUSE }
                };
                self.pending = Some(Action::Rest { core, rest });
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

impl Scaling for L3fwdPause {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }

    fn is_apart(&self) -> bool {
        true
    }
}
