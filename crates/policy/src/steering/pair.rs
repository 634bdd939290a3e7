//! What every steering policy keeps of its two machines.

use alloc::vec;

use super::{Event, Side};
use crate::Snapshot;

/// A machine's power state, as far as a policy can know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    /// The machine serves.
    On,
    /// Was asked to sleep.
    GoingDown,
    /// The machine sleeps.
    Asleep,
    /// Was asked to wake.
    Waking,
}

/// State of one machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Power state of the machine.
    pub(super) power: Power,
    /// Requests that were sent there and are not finished, queued or in service.
    pub(super) load: u32,
    /// Whether it cannot be reached.
    pub(super) lost: bool,
}

impl Machine {
    pub(super) const NEW: Machine = Machine { power: Power::On, load: 0, lost: false };

    /// Takes note of what happened to it.
    #[inline]
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::Arrive => {}
            Event::Finish { .. } => self.load = self.load.saturating_sub(1),
            Event::Awake { .. } => self.power = Power::On,
            Event::Asleep { .. } => self.power = Power::Asleep,
            Event::Lost { .. } => self.lost = true,
            Event::Back { .. } => {
                self.lost = false;
                self.power = Power::On;
            }
        }
    }

    /// Returns whether it serves, or will without a request to wake.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.power, Power::On | Power::Waking)
    }

    /// Returns whether it serves now.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.power == Power::On && !self.lost
    }

    /// Marks it as waking if it is not up; returns whether it has to be asked.
    #[inline]
    pub(super) fn wake(&mut self) -> bool {
        let must = !self.is_up();
        if must {
            self.power = Power::Waking;
        }
        must
    }

    /// Marks it as going down if it is on; returns whether it has to be asked. A machine that wakes
    /// is left to finish.
    #[inline]
    pub(super) fn sleep(&mut self) -> bool {
        let must = self.is_on();
        if must {
            self.power = Power::GoingDown;
        }
        must
    }
}

/// State of both machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair([Machine; 2]);

impl Pair {
    /// Both on, without requests.
    pub(super) const NEW: Pair = Pair([Machine::NEW; 2]);

    /// Returns the state of a machine.
    #[inline]
    pub(super) fn of(&self, side: Side) -> &Machine {
        &self.0[side.index_in_pair()]
    }

    #[inline]
    fn of_mut(&mut self, side: Side) -> &mut Machine {
        &mut self.0[side.index_in_pair()]
    }

    /// Takes note of what happened.
    #[inline]
    pub(super) fn note(&mut self, event: &Event) {
        if let Some(side) = event.side() {
            self.of_mut(side).note(event);
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

    /// Marks a machine as waking if it is not up; returns whether it has to be asked.
    #[inline]
    pub(super) fn wake(&mut self, side: Side) -> bool {
        self.of_mut(side).wake()
    }

    /// Marks a machine as going down if it is on; returns whether it has to be asked. A machine
    /// that wakes is left to finish.
    #[inline]
    pub(super) fn sleep(&mut self, side: Side) -> bool {
        self.of_mut(side).sleep()
    }

    /// Marks a machine that sleeps and has nothing as going down; returns whether it has to be
    /// asked.
    pub(super) fn deepen(&mut self, side: Side) -> bool {
        let machine = self.of_mut(side);
        let must = machine.power == Power::Asleep && machine.load == 0 && !machine.lost;
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
