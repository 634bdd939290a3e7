//! The circuits that are needed most, chosen anew before each day (Strong 2013, ch. 5: "every 100
//! us or less").
//!
//! | choose | matching | source |
//! |---|---|---|
//! | [`Choose::Greedy`] | the longest queue, then the longest beside it, ... | Strong 2013, ch. 5 |
//! | [`Choose::Heaviest`] | the most bytes of all matchings | Farrington 2010, Helios, Sec 4.4 |
//! | [`Choose::Estimated`] | the same, of estimated demand | Al-Fares 2010, Hedera, Sec 4.2 |
//!
//! Greedy matchings have at least half of the most bytes, and hardware finds them.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::asking::Asking;
use super::{Action, Assignment, Circuits, Estimator, Event, NOBODY};
use crate::{Policy, Snapshot};

/// Rule by which circuits are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choose {
    /// Serves the longest queue first.
    Greedy,
    /// Most bytes of all matchings.
    Heaviest,
    /// Most of the estimated demand.
    Estimated,
}

/// Chooses by what waits. One plane, days of one length.
#[derive(Clone, Debug)]
pub struct Needed {
    asking: Asking,
    choose: Choose,
    hosts: usize,
    day: Time,
    waiting: Vec<u64>,
    /// Pairs for which something waits, and some for which nothing does any more.
    known: Vec<u32>,
    /// State of the last choice: queues by length, demand of hosts that are present, and its
    /// estimate.
    order: Vec<u32>,
    weights: Vec<u64>,
    shares: Vec<u64>,
    assignment: Assignment,
    estimator: Estimator,
    chosen: i64,
}

impl Needed {
    /// A policy that was told of nothing yet.
    #[must_use]
    pub fn new(hosts: u16, choose: Choose, day: Time) -> Needed {
        let n = usize::from(hosts);
        Needed {
            asking: Asking::new(hosts),
            choose,
            hosts: n,
            day,
            waiting: vec![0; n * n],
            known: Vec::with_capacity(n * n),
            order: Vec::with_capacity(n * n),
            weights: vec![0; n * n],
            shares: vec![0; n * n],
            assignment: Assignment::new(n),
            estimator: Estimator::new(n),
            chosen: 0,
        }
    }

    fn demand(&mut self, from: u16, to: u16, bytes: u64) {
        let (row, column) = (usize::from(from), usize::from(to));
        if row < self.hosts && column < self.hosts && row != column {
            let pair = row * self.hosts + column;
            if self.waiting[pair] == 0 && bytes > 0 && !self.known.contains(&(pair as u32)) {
                self.known.push(pair as u32);
            }
            self.waiting[pair] = bytes;
        }
    }

    fn choose(&mut self) {
        let waiting = &self.waiting;
        self.known.retain(|&pair| waiting[pair as usize] > 0);
        if self.choose == Choose::Greedy {
            self.longest_first();
            return self.drop_idle();
        }
        for n in 0..self.waiting.len() {
            let (from, to) = ((n / self.hosts) as u16, (n % self.hosts) as u16);
            let is_there = !self.asking.is_lost(from) && !self.asking.is_lost(to);
            self.weights[n] = if is_there { self.waiting[n] } else { 0 };
        }
        match self.choose {
            Choose::Greedy | Choose::Heaviest => {
                self.assignment.solve(&self.weights, &mut self.asking.to)
            }
            Choose::Estimated => {
                self.estimator.estimate(&self.weights, &mut self.shares);
                self.assignment.solve(&self.shares, &mut self.asking.to);
            }
        }
        self.drop_idle();
    }

    fn longest_first(&mut self) {
        let (waiting, hosts) = (&self.waiting, self.hosts);
        let lost = |host: usize| self.asking.is_lost(host as u16);
        let is_there = |&&n: &&u32| !lost(n as usize / hosts) && !lost(n as usize % hosts);
        self.order.clear();
        self.order.extend(self.known.iter().filter(is_there));
        // Of equal ones the first, so that the order is total.
        self.order.sort_unstable_by_key(|&n| (core::cmp::Reverse(waiting[n as usize]), n));
        self.asking.to.fill(NOBODY);
        let mut taken = 0;
        let receivers = self.assignment.receivers();
        receivers.fill(false);
        for &n in &self.order {
            let (from, to) = (n as usize / self.hosts, n as usize % self.hosts);
            if self.asking.to[from] == NOBODY && !receivers[to] {
                (self.asking.to[from], receivers[to]) = (to as u16, true);
                taken += 1;
                if taken == self.hosts {
                    break;
                }
            }
        }
    }

    /// Drops circuits on which no host would send.
    fn drop_idle(&mut self) {
        self.chosen = 0;
        for (from, to) in self.asking.to.iter_mut().enumerate() {
            let waits = *to != NOBODY && self.waiting[from * self.hosts + usize::from(*to)] > 0;
            self.chosen += i64::from(waits);
            if !waits {
                *to = NOBODY;
            }
        }
    }
}

impl Circuits for Needed {
    fn wants_demand(&self) -> bool {
        true
    }
}

impl Policy for Needed {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        match *event {
            Event::Demand { from, to, bytes } => self.demand(from, to, bytes),
            Event::Next { plane, .. } => {
                self.choose();
                self.asking.ask(plane, self.day);
            }
            Event::Lost { .. } | Event::Back { .. } => self.asking.hear(event),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asking.poll()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("circuits", self.chosen), ("lost", self.asking.lost_count())]
    }
}
