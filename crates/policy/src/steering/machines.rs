//! What policies share: two machines that are woken when something is sent to them, and
//! sleep when they have nothing to do.

use halfwink_units::Time;

use super::pair::{Machine, Pair};
use super::queue::Queue;
use super::{Action, Event, Side};
use crate::Snapshot;

/// Both machines, and what is asked of them.
#[derive(Clone, Debug)]
pub(super) struct Machines {
    pair: Pair,
    queue: Queue,
}

impl Machines {
    /// Both on, without requests.
    pub(super) const NEW: Machines = Machines { pair: Pair::NEW, queue: Queue::NEW };

    /// Returns the state of a machine.
    #[inline]
    pub(super) fn of(&self, side: Side) -> &Machine {
        self.pair.of(side)
    }

    /// Returns whether a machine serves now.
    #[inline]
    pub(super) fn is_on(&self, side: Side) -> bool {
        self.of(side).is_on()
    }

    /// Takes note of what happened.
    #[inline]
    pub(super) fn note(&mut self, event: &Event) {
        self.pair.note(event);
    }

    /// A request goes to `wanted`, or to the other machine if only that can be reached; that one is
    /// woken.
    #[inline]
    pub(super) fn send(&mut self, wanted: Side) -> Side {
        let side = self.queue(wanted);
        self.wake(side);
        side
    }

    /// Like [`Machines::send`], but asleep the machine goes on sleeping.
    #[inline]
    pub(super) fn queue(&mut self, wanted: Side) -> Side {
        let side = self.pair.send(wanted);
        self.queue.push(Action::Send { side });
        side
    }

    /// Wakes a machine unless it is up.
    #[inline]
    pub(super) fn wake(&mut self, side: Side) {
        if self.pair.wake(side) {
            self.queue.push(Action::Wake { side });
        }
    }

    /// Returns whether a machine is on and has no requests.
    #[inline]
    fn is_free(&self, side: Side) -> bool {
        self.is_on(side) && self.of(side).load == 0
    }

    /// Returns whether a machine has nothing to do, and need not stand in for the other one.
    #[inline]
    fn may_rest(&self, side: Side) -> bool {
        self.is_free(side) && !self.of(side.other()).lost
    }

    /// A machine that is not wanted sleeps if it has nothing to do, and need not stand in for the
    /// other one.
    #[inline]
    pub(super) fn rest(&mut self, side: Side) {
        if self.may_rest(side) {
            self.freeze(side);
        }
    }

    /// A machine that is on sleeps, with all that it has.
    #[inline]
    pub(super) fn freeze(&mut self, side: Side) {
        if self.pair.sleep(side) {
            self.queue.push(Action::Sleep { side });
        }
    }

    /// A machine that sleeps and has nothing goes to its next deeper level.
    pub(super) fn deepen(&mut self, side: Side) {
        if self.pair.deepen(side) {
            self.queue.push(Action::Sleep { side });
        }
    }

    /// Returns the next action.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<Action> {
        self.queue.pop()
    }

    /// Loads and power states.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.pair.snapshot()
    }
}

/// A machine that sleeps once it has had nothing to do for a while.
#[derive(Clone, Debug)]
pub(super) struct Linger {
    side: Side,
    span: Time,
    stands_in: bool,
    down_at: Option<Time>,
}

impl Linger {
    /// Creates a linger of this length.
    pub(super) const fn new(side: Side, span: Time) -> Linger {
        Linger { side, span, stands_in: false, down_at: None }
    }

    /// Creates the linger of a machine that takes what is too much for the other one. It stays on
    /// while that one is lost: it serves every request then, and would wake for each.
    pub(super) const fn standing_in(side: Side, span: Time) -> Linger {
        Linger { stands_in: true, ..Linger::new(side, span) }
    }

    /// Stops the linger, as a request was sent to the machine.
    #[inline]
    pub(super) fn busy(&mut self) {
        self.down_at = None;
    }

    #[inline]
    fn may_sleep(&self, machines: &Machines) -> bool {
        match self.stands_in {
            true => machines.may_rest(self.side),
            false => machines.is_free(self.side),
        }
    }

    /// The machine may have nothing to do any more.
    #[inline]
    pub(super) fn settle(&mut self, now: Time, machines: &mut Machines) {
        if !self.may_sleep(machines) {
            return;
        }
        if self.span == Time::ZERO {
            machines.freeze(self.side);
        } else if self.span != Time::NEVER {
            self.down_at.get_or_insert(now.saturating_add(self.span));
        }
    }

    /// Lets the machine sleep if its linger has passed.
    pub(super) fn timer(&mut self, now: Time, machines: &mut Machines) {
        if self.down_at.is_some_and(|at| at <= now) {
            self.down_at = None;
            if self.may_sleep(machines) {
                machines.freeze(self.side);
            }
        }
    }

    /// Returns the time at which it goes down unless a request is sent to it.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        self.down_at
    }
}
