//! What every steering policy keeps of its two machines.

use alloc::vec;

use super::{Event, Side};
use crate::Snapshot;

/// A machine's power state, as far as a policy can know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    /// Serves.
    On,
    /// Was asked to sleep.
    GoingDown,
    /// Sleeps.
    Asleep,
    /// Was asked to wake.
    Waking,
}

/// One machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Its power state.
    pub(super) power: Power,
    /// Requests that were sent there and are not finished, queued or in service.
    pub(super) load: u32,
    /// It cannot be reached.
    pub(super) lost: bool,
}

impl Machine {
    const NEW: Machine = Machine { power: Power::On, load: 0, lost: false };

    /// Whether it serves, or will without being asked.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.power, Power::On | Power::Waking)
    }
}

/// Both machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair([Machine; 2]);

impl Pair {
    /// Both on, without requests.
    pub(super) const NEW: Pair = Pair([Machine::NEW; 2]);

    /// A machine.
    #[inline]
    pub(super) fn of(&self, side: Side) -> &Machine {
        &self.0[side as usize]
    }

    #[inline]
    fn of_mut(&mut self, side: Side) -> &mut Machine {
        &mut self.0[side as usize]
    }

    /// Takes note of what happened.
    #[inline]
    pub(super) fn note(&mut self, event: &Event) {
        match *event {
            Event::Arrive => {}
            Event::Finish { side, .. } => {
                let machine = self.of_mut(side);
                machine.load = machine.load.saturating_sub(1);
            }
            Event::Awake { side } => self.of_mut(side).power = Power::On,
            Event::Asleep { side } => self.of_mut(side).power = Power::Asleep,
            Event::Lost { side } => self.of_mut(side).lost = true,
            Event::Back { side } => {
                let machine = self.of_mut(side);
                machine.lost = false;
                machine.power = Power::On;
            }
        }
    }

    /// A request goes to `wanted`, or to the other machine if only that can be reached: which one.
    #[inline]
    pub(super) fn send(&mut self, wanted: Side) -> Side {
        let reachable = !self.of(wanted).lost || self.of(wanted.other()).lost;
        let side = if reachable { wanted } else { wanted.other() };
        self.of_mut(side).load += 1;
        side
    }

    /// If it is not up, it will be asked to wake: whether it must be.
    #[inline]
    pub(super) fn wake(&mut self, side: Side) -> bool {
        let machine = self.of_mut(side);
        let must = !machine.is_up();
        if must {
            machine.power = Power::Waking;
        }
        must
    }

    /// If it is on, it will be asked to sleep: whether it must be. One that wakes is let finish.
    #[inline]
    pub(super) fn sleep(&mut self, side: Side) -> bool {
        let machine = self.of_mut(side);
        let must = machine.power == Power::On && !machine.lost;
        if must {
            machine.power = Power::GoingDown;
        }
        must
    }

    /// Loads and power states, for a policy's snapshot.
    pub(super) fn snapshot(&self) -> Snapshot {
        let [small, big] = &self.0;
        vec![
            ("small_load", small.load.into()),
            ("big_load", big.load.into()),
            ("small_up", small.is_up().into()),
            ("big_up", big.is_up().into()),
        ]
    }
}
