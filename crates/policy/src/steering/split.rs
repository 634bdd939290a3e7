//! A static split: each of the first machines of an ordered set gets a fixed share of the requests,
//! whatever it has to do; the others sleep, and stand in while all of the former are lost. Other
//! policies of sets are compared with it.
//!
//! Shares are dealt out evenly: the next request goes to the machine that is furthest behind its
//! share (smooth weighted round robin, as nginx' `upstream`). Equal shares are round robin.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::pair::Machine;
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// Parameters of a static split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitParameters {
    /// Machines with their shares of requests: any weight. Those of weight 0 sleep.
    pub shares: Vec<(Side, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    side: Side,
    weight: i64,
    /// Requests that it is behind its share, times the sum of all weights.
    owed: i64,
    machine: Machine,
}

/// Policy of a static split.
#[derive(Clone, Debug)]
pub struct Split {
    shares: Vec<Share>,
    actions: VecDeque<Action>,
}

impl Split {
    /// Creates the split; machines without a share begin to sleep.
    ///
    /// # Panics
    /// If no machine has a share.
    #[must_use]
    pub fn new(parameters: &SplitParameters) -> Split {
        assert!(parameters.shares.iter().any(|share| share.1 > 0), "a share");
        let share = |&(side, weight): &(Side, u32)| Share {
            side,
            weight: weight.into(),
            owed: 0,
            machine: Machine::NEW,
        };
        let mut split = Split {
            shares: parameters.shares.iter().map(share).collect(),
            // An answer, and one change of power of each machine.
            actions: VecDeque::with_capacity(parameters.shares.len() + 1),
        };
        split.rest();
        split
    }

    /// Machines without a share sleep when they have nothing, while one with a share is there.
    fn rest(&mut self) {
        if self.shares.iter().all(|share| share.weight == 0 || share.machine.lost) {
            return;
        }
        for share in self.shares.iter_mut().filter(|share| share.weight == 0) {
            if share.machine.load == 0 && share.machine.sleep() {
                self.actions.push_back(Action::Sleep { side: share.side });
            }
        }
    }

    /// Returns the place of the machine that serves the next request.
    fn next(&mut self) -> usize {
        let serves = |share: &Share| share.weight > 0 && !share.machine.lost;
        let (mut sum, mut best) = (0, None::<usize>);
        for place in 0..self.shares.len() {
            if !serves(&self.shares[place]) {
                continue;
            }
            let share = &mut self.shares[place];
            share.owed += share.weight;
            sum += share.weight;
            if best.is_none_or(|best| self.shares[place].owed > self.shares[best].owed) {
                best = Some(place);
            }
        }
        // All with a share are lost: the first that is not, or else the first.
        let Some(best) = best else {
            return self.shares.iter().position(|share| !share.machine.lost).unwrap_or(0);
        };
        self.shares[best].owed -= sum;
        best
    }

    fn arrive(&mut self) {
        let place = self.next();
        let Share { side, machine, .. } = &mut self.shares[place];
        machine.load += 1;
        self.actions.push_back(Action::Send { side: *side });
        if !machine.lost && machine.wake() {
            self.actions.push_back(Action::Wake { side: *side });
        }
    }
}

impl Policy for Split {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        let Some(side) = event.side() else { return self.arrive() };
        if let Some(share) = self.shares.iter_mut().find(|share| share.side == side) {
            share.machine.note(event);
            if matches!(event, Event::Lost { .. } | Event::Back { .. }) {
                share.owed = 0;
            }
        }
        if !matches!(event, Event::Asleep { .. }) {
            self.rest();
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        let lost = self.shares.iter().filter(|share| share.machine.lost).count();
        vec![("machines", self.shares.len() as i64), ("lost", lost as i64)]
    }
}

impl Steering for Split {}
