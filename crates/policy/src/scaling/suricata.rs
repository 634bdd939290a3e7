//! Suricata's capture loop on DPDK with interrupts: few empty polls, then sleep until an interrupt.
//!
//! Follows `RXPacketCountHeuristic` of Suricata's `src/source-dpdk.c`: ten empty polls in a row are
//! repeated at once; the next one waits for the queue's interrupt, 500 ms at most. (Its delay of
//! 1 us between the two is never reached: both thresholds are ten.)

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::polls::EmptyPolls;
use super::{Action, Depth, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// `MIN_ZERO_POLL_COUNT`.
const EMPTY_POLLS: u32 = 10;
/// `MAX_EPOLL_TIMEOUT_MS`.
const TIMEOUT: Time = Time::ns(500_000_000);

/// Sleeps soon.
#[derive(Clone, Debug)]
pub struct Suricata {
    depth: Depth,
    cores: Vec<EmptyPolls>,
    pending: Option<Action>,
}

impl Suricata {
    /// For so many cores, whose idle state the operating system chooses (assumption: this one).
    #[must_use]
    pub fn new(cores: u8, depth: Depth) -> Suricata {
        Suricata { depth, cores: vec![EmptyPolls::default(); usize::from(cores)], pending: None }
    }
}

impl Policy for Suricata {
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
                    Rest::HaltFor { span: TIMEOUT, depth: self.depth }
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

impl Scaling for Suricata {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }

    fn is_apart(&self) -> bool {
        true
    }
}
