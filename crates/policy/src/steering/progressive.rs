//! An ordered set of machines of which as many are active as the requests need: the next one is
//! woken when more requests are in the system than the active ones hold, and the last one is
//! released when the others have held them all for a while.
//!
//! ```text
//!   order:    first ─ second ─ third ┊ fourth ─ fifth
//!             └───── active ───────┘ ┊ └ released: drain, then sleep
//!   requests > what the active ones hold:              the mark moves right
//!   requests + spare fit in all but the last, linger:  the mark moves left
//! ```
//!
//! A request goes to the first active machine that is on and not full; if all are full, to the one
//! with the lowest load for what it holds. A machine that wakes gets requests once it is on, so
//! that none waits for a wake-up while another machine could serve it.
//!
//! After AutoScale: Gandhi, Harchol-Balter, Raghunathan, Kozuch, "AutoScale: Dynamic, Robust
//! Capacity Management for Multi-Tier Data Centers" (ACM TOCS 30(4), 2012), quoted from memory of
//! its rules: requests are packed on the first servers of an order, which a server leaves only
//! after a time without need. Deviations: capacity follows the requests in the system at once, not
//! an inferred number of servers; the machines may be of several kinds; the least time awake, the
//! hysteresis and the budget of sleeps are an operator's, not the paper's.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::pair::Machine;
use super::rest::{Budget, Rest};
use super::{Action, Event, Side, Steering};
use crate::{Policy, Snapshot};

/// A machine of the set, as the policy knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the machine in events and actions.
    pub side: Side,
    /// Requests that it should have at most; 1 or more.
    pub holds: u32,
}

/// Parameters of progressive activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressiveParameters {
    /// Machines in the order of their activation.
    pub members: Vec<Member>,
    /// The first so many machines are always active.
    pub least_on: u32,
    /// Requests for which the machines before the last active one must have room left when it is
    /// released: the hysteresis.
    pub spare: u32,
    /// Time for which they must have had it.
    pub linger: Time,
    /// Bounds on how often each machine sleeps.
    pub rest: Rest,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    member: Member,
    machine: Machine,
    awake_since: Time,
    budget: Budget,
}

impl Place {
    /// Returns the number of requests that it holds; none while it is lost.
    fn holds(&self) -> u64 {
        if self.machine.lost {
            0
        } else {
            self.member.holds.into()
        }
    }
}

/// Policy of progressive activation.
#[derive(Clone, Debug)]
pub struct Progressive {
    places: Vec<Place>,
    parameters: ProgressiveParameters,
    /// The first so many machines are active.
    active: usize,
    /// Time since which the last active machine has not been needed.
    quiet: Option<Time>,
    /// Earliest time at which a released machine, kept on by its bounds, may sleep.
    release: Option<Time>,
    actions: VecDeque<Action>,
}

impl Progressive {
    /// Starts with the machines active that always are; the others sleep.
    ///
    /// # Panics
    /// If there are no machines, or one holds no requests.
    #[must_use]
    pub fn new(parameters: ProgressiveParameters) -> Progressive {
        let members = &parameters.members;
        assert!(!members.is_empty() && members.iter().all(|m| m.holds > 0), "machines that hold");
        let place = |&member: &Member| Place {
            member,
            machine: Machine::NEW,
            awake_since: Time::ZERO,
            budget: Budget::default(),
        };
        let mut policy = Progressive {
            places: members.iter().map(place).collect(),
            active: members.len().min(parameters.least_on as usize),
            quiet: None,
            release: None,
            // An answer, and one change of power of each machine.
            actions: VecDeque::with_capacity(members.len() + 1),
            parameters,
        };
        for place in &mut policy.places[policy.active..] {
            if place.machine.sleep() {
                policy.actions.push_back(Action::Sleep { side: place.member.side });
            }
        }
        policy
    }

    /// Returns the requests in the system; those of a lost machine come anew.
    fn load(&self) -> u64 {
        let reachable = self.places.iter().filter(|place| !place.machine.lost);
        reachable.map(|place| u64::from(place.machine.load)).sum()
    }

    /// Activates machines until they hold so many requests.
    fn activate(&mut self, needed: u64) {
        let mut held: u64 = self.places[..self.active].iter().map(Place::holds).sum();
        while held < needed && self.active < self.places.len() {
            let place = &mut self.places[self.active];
            held += place.holds();
            self.active += 1;
            self.quiet = None;
            if !place.machine.lost && place.machine.wake() {
                self.actions.push_back(Action::Wake { side: place.member.side });
            }
        }
    }

    fn arrive(&mut self) {
        self.activate(self.load() + 1);
        let place = self.choose();
        let found = &mut self.places[place];
        found.machine.load += 1;
        let side = found.member.side;
        self.actions.push_back(Action::Send { side });
        // One that goes down, or sleeps, with no other machine left.
        if !found.machine.lost && found.machine.wake() {
            self.actions.push_back(Action::Wake { side });
        }
    }

    /// Returns the machine that serves a request which arrives now.
    fn choose(&self) -> usize {
        let active = &self.places[..self.active];
        let has_room =
            |place: &Place| place.machine.is_on() && place.machine.load < place.member.holds;
        if let Some(first) = active.iter().position(has_room) {
            return first;
        }
        // On before waking, reachable before lost, then the lowest load for what it holds.
        let mut best = 0;
        for place in 1..self.active {
            let (one, other) = (&active[place], &active[best]);
            let class = |p: &Place| (p.machine.lost, !p.machine.is_on());
            // Loads for capacities are compared by products, which are exact and need no division.
            let fill =
                |p: &Place, by: &Place| u64::from(p.machine.load) * u64::from(by.member.holds);
            let is_better = class(one) < class(other)
                || (class(one) == class(other) && fill(one, other) < fill(other, one));
            if is_better {
                best = place;
            }
        }
        best
    }

    /// Returns whether the requests fit in the machines before the last active one.
    fn is_last_spare(&self) -> bool {
        let Some(last) = self.active.checked_sub(1) else { return false };
        if last < self.parameters.least_on as usize {
            return false;
        }
        let held: u64 = self.places[..last].iter().map(Place::holds).sum();
        let load = self.load();
        if load == 0 {
            // The first machine of a set without one that is always on, or the one that stands in
            // for those that are, but lost.
            return held > 0 || self.parameters.least_on == 0;
        }
        load + u64::from(self.parameters.spare) <= held
    }

    /// Releases machines that are not needed; released ones sleep once they are empty.
    fn settle(&mut self, now: Time) {
        loop {
            if !self.is_last_spare() {
                self.quiet = None;
                break;
            }
            let since = *self.quiet.get_or_insert(now);
            if now < since.saturating_add(self.parameters.linger) {
                break;
            }
            // The next one has to be spare for a `linger` of its own, so machines are released one
            // by one.
            self.active -= 1;
            self.quiet = None;
        }
        self.release = None;
        for found in &mut self.places[self.active..] {
            if !found.machine.is_on() || found.machine.load > 0 {
                continue;
            }
            let earliest = self.parameters.rest.earliest(found.awake_since, found.budget);
            if earliest <= now {
                self.parameters.rest.take(&mut found.budget, now);
                found.machine.sleep();
                self.actions.push_back(Action::Sleep { side: found.member.side });
            } else {
                self.release = Some(self.release.map_or(earliest, |at| at.min(earliest)));
            }
        }
    }

    fn note(&mut self, now: Time, event: &Event) {
        let Some(side) = event.side() else { return };
        let known = self.places.iter_mut().find(|place| place.member.side == side);
        let Some(place) = known else { return };
        place.machine.note(event);
        if matches!(event, Event::Awake { .. } | Event::Back { .. }) {
            place.awake_since = now;
        }
    }
}

impl Policy for Progressive {
    type Event = Event;
    type Action = Action;

    #[inline]
    fn on_event(&mut self, now: Time, event: &Event) {
        self.note(now, event);
        match event {
            Event::Arrive => self.arrive(),
            Event::Asleep { .. } => return,
            _ => {}
        }
        self.settle(now);
    }

    fn on_timer(&mut self, now: Time) {
        self.settle(now);
    }

    #[inline]
    fn next_timer(&self) -> Option<Time> {
        let quiet = self.quiet.map(|since| since.saturating_add(self.parameters.linger));
        match (quiet, self.release) {
            (Some(quiet), Some(release)) => Some(quiet.min(release)),
            (quiet, release) => quiet.or(release),
        }
        // A `linger` without end gives a time that never comes, which is no timer.
        .filter(|&at| at != Time::NEVER)
    }

    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        let on = self.places.iter().filter(|place| place.machine.is_on()).count();
        vec![("active", self.active as i64), ("on", on as i64), ("load", self.load() as i64)]
    }
}

impl Steering for Progressive {}
