//! A week planned from what waits at its begin: traffic-matrix scheduling (Strong 2013, Sec 4.1;
//! Farrington 2013) and Solstice (Liu 2015).
//!
//! ```text
//!   bytes ──Sinkhorn──▶ shares of time ──Birkhoff, von Neumann──▶ matchings, each with its day
//! ```
//!
//! | plan | a week lasts | days |
//! |---|---|---|
//! | [`Plan::Shares`] | as given | the heaviest matchings whose days are long enough share it |
//! | [`Plan::Solstice`] | the packet switch takes the rest | what the least queue of each takes |

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::asking::Asking;
use super::{Action, Balancer, Circuits, Event, Slicer};
use crate::{Policy, Snapshot};

/// Rule by which a week is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Traffic-matrix scheduling: shares of a week of given length.
    Shares,
    /// Solstice, beside a packet switch of this rate for each port, in bytes per millisecond.
    Solstice {
        /// Rate of the packet switch; 0 if there is none.
        packet_bytes_per_ms: u64,
    },
}

/// Parameters of weeks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeekParameters {
    /// Hosts, two or more.
    pub hosts: u16,
    /// Rule by which it is planned.
    pub plan: Plan,
    /// Length of a week, nights included; the longest of Solstice.
    pub week: Time,
    /// Length of a night.
    pub night: Time,
    /// Length of the shortest day.
    pub shortest: Time,
    /// Rate of a circuit, in bytes per millisecond.
    pub bytes_per_ms: u64,
}

/// Policy that plans weeks.
#[derive(Clone, Debug)]
pub struct Week {
    parameters: WeekParameters,
    asking: Asking,
    waiting: Vec<u64>,
    matrix: Vec<u64>,
    balancer: Balancer,
    slicer: Slicer,
    /// Days of this week, each with its matching at `slots[n].matching`.
    slots: Vec<Slot>,
    matchings: Vec<u16>,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    weight: u64,
    matching: usize,
    day: Time,
}

const PS_PER_MS: u128 = 1_000_000_000;

impl Week {
    /// A policy that was told of nothing yet.
    #[must_use]
    pub fn new(parameters: WeekParameters) -> Week {
        let hosts = usize::from(parameters.hosts);
        let most = parameters.most_slots();
        Week {
            parameters,
            asking: Asking::new(parameters.hosts),
            waiting: vec![0; hosts * hosts],
            matrix: vec![0; hosts * hosts],
            balancer: Balancer::new(hosts),
            slicer: Slicer::new(hosts),
            slots: Vec::with_capacity(most),
            matchings: vec![0; most * hosts],
            next: 0,
        }
    }

    /// Lengths of this week's days, in their order.
    pub fn days(&self) -> impl Iterator<Item = (Time, &[u16])> {
        let hosts = usize::from(self.parameters.hosts);
        self.slots.iter().map(move |s| (s.day, &self.matchings[s.matching * hosts..][..hosts]))
    }

    /// Plans the next week now.
    pub fn plan(&mut self) {
        self.slots.clear();
        self.next = 0;
        match self.parameters.plan {
            Plan::Shares => self.plan_shares(),
            Plan::Solstice { packet_bytes_per_ms } => self.plan_solstice(packet_bytes_per_ms),
        }
    }

    fn plan_shares(&mut self) {
        self.balancer.shares(&self.waiting, &mut self.matrix);
        self.slicer.load(&self.matrix);
        let mut sum = 0_u128;
        while self.slots.len() < self.parameters.most_slots() {
            // Who has less than this of all so far has no day that is long enough: below, it would
            // go before any of them does.
            let week = u128::from(self.parameters.week.0.max(1));
            let least = sum * u128::from(self.parameters.shortest.0) / week;
            let least = u64::try_from(least).unwrap_or(u64::MAX);
            let Some(weight) = self.slicer.slice_of(least) else { break };
            sum += u128::from(weight);
            self.keep(weight, Time::ZERO);
        }
        self.slots.sort_unstable_by_key(|slot| (core::cmp::Reverse(slot.weight), slot.matching));
        // The lightest goes until the last day is long enough. One always stays.
        while let Some(last) = self.slots.last() {
            let nights = self.parameters.night * self.slots.len() as u64;
            let days = u128::from(self.parameters.week.saturating_sub(nights).0);
            let day = |weight: u64| Time((u128::from(weight) * days / sum.max(1)) as u64);
            if day(last.weight) >= self.parameters.shortest || self.slots.len() == 1 {
                self.slots.iter_mut().for_each(|slot| slot.day = day(slot.weight));
                break;
            }
            sum -= u128::from(last.weight);
            self.slots.pop();
        }
    }

    /// Liu 2015, Algorithm 1. Demand of no pair is a round of [`Plan::Shares`].
    fn plan_solstice(&mut self, packet_bytes_per_ms: u64) {
        let total = self.most_of_a_port();
        if total == 0 {
            return self.plan_shares();
        }
        self.matrix.copy_from_slice(&self.waiting);
        self.balancer.fill(&mut self.matrix, total);
        self.slicer.load(&self.matrix);
        self.matrix.copy_from_slice(&self.waiting);
        let (mut used, parameters) = (Time::ZERO, self.parameters);
        while self.slots.len() < parameters.most_slots() {
            let beside = u128::from(packet_bytes_per_ms) * u128::from(used.0) / PS_PER_MS;
            if u128::from(self.most_left()) <= beside {
                break;
            }
            let Some(weight) = self.slicer.slice() else { break };
            let day = self.wire_time(weight).max(parameters.shortest);
            let with = used + parameters.night + day;
            if with > parameters.week && !self.slots.is_empty() {
                break;
            }
            used = with;
            self.keep(weight, day);
            let hosts = usize::from(parameters.hosts);
            for (from, &to) in self.slicer.matching().iter().enumerate() {
                let left = &mut self.matrix[from * hosts + usize::from(to)];
                *left = left.saturating_sub(weight);
            }
        }
        if self.slots.is_empty() {
            self.plan_shares();
        }
    }

    fn keep(&mut self, weight: u64, day: Time) {
        let hosts = usize::from(self.parameters.hosts);
        let matching = self.slots.len();
        self.matchings[matching * hosts..][..hosts].copy_from_slice(self.slicer.matching());
        self.slots.push(Slot { weight, matching, day });
    }

    fn wire_time(&self, bytes: u64) -> Time {
        let ps = u128::from(bytes) * PS_PER_MS / u128::from(self.parameters.bytes_per_ms.max(1));
        Time(u64::try_from(ps).unwrap_or(u64::MAX / 4).min(u64::MAX / 4))
    }

    /// Most bytes that a port sends or receives of what waits.
    fn most_of_a_port(&self) -> u64 {
        most_of_a_port(usize::from(self.parameters.hosts), &self.waiting)
    }

    fn most_left(&self) -> u64 {
        most_of_a_port(usize::from(self.parameters.hosts), &self.matrix)
    }
}

impl WeekParameters {
    /// Slots that fit into a week, 1 at least.
    #[must_use]
    pub fn most_slots(&self) -> usize {
        let slot = (self.night + self.shortest).0.max(1);
        // A matrix of n hosts has at most (n - 1)^2 + 1 slices.
        let slices = u64::from(self.hosts).pow(2).max(1);
        (self.week.0 / slot).clamp(1, slices) as usize
    }
}

fn most_of_a_port(hosts: usize, matrix: &[u64]) -> u64 {
    let rows = matrix.chunks_exact(hosts).map(|row| row.iter().sum());
    let columns = (0..hosts).map(|to| matrix.iter().skip(to).step_by(hosts).sum());
    rows.chain(columns).max().unwrap_or(0)
}

impl Circuits for Week {
    fn wants_demand(&self) -> bool {
        self.next >= self.slots.len()
    }
}

impl Policy for Week {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        let hosts = usize::from(self.parameters.hosts);
        match *event {
            Event::Demand { from, to, bytes } => {
                let (row, column) = (usize::from(from), usize::from(to));
                if row < hosts && column < hosts && row != column {
                    // Sums of a port's must fit.
                    self.waiting[row * hosts + column] = bytes.min(u64::MAX >> 17);
                }
            }
            Event::Next { plane, .. } => {
                if self.next >= self.slots.len() {
                    self.plan();
                }
                let slot = self.slots[self.next];
                self.next += 1;
                let matching = &self.matchings[slot.matching * hosts..][..hosts];
                self.asking.to.copy_from_slice(matching);
                self.asking.ask(plane, slot.day);
            }
            Event::Lost { .. } | Event::Back { .. } => self.asking.hear(event),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asking.poll()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("slot", self.next as i64), ("slots", self.slots.len() as i64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference: the week of shares if every slice is taken first.
    fn of_all_slices(parameters: &WeekParameters, demand: &[u64]) -> Vec<(Time, Vec<u16>)> {
        let hosts = usize::from(parameters.hosts);
        let (mut shares, mut slicer) = (vec![0; hosts * hosts], Slicer::new(hosts));
        Balancer::new(hosts).shares(demand, &mut shares);
        slicer.load(&shares);
        let mut slices = Vec::new();
        while slices.len() < parameters.most_slots() {
            let Some(weight) = slicer.slice() else { break };
            slices.push((weight, slicer.matching().to_vec()));
        }
        slices.sort_by_key(|(weight, _)| core::cmp::Reverse(*weight));
        loop {
            let sum: u128 = slices.iter().map(|(weight, _)| u128::from(*weight)).sum();
            let nights = parameters.night * slices.len() as u64;
            let days = u128::from(parameters.week.saturating_sub(nights).0);
            let day = |weight: u64| Time((u128::from(weight) * days / sum) as u64);
            if day(slices[slices.len() - 1].0) >= parameters.shortest || slices.len() == 1 {
                return slices.into_iter().map(|(weight, to)| (day(weight), to)).collect();
            }
            slices.pop();
        }
    }

    proptest! {
        #[test]
        fn slices_that_are_not_taken_would_have_no_day(
            hosts in 2u16..20,
            week_us in 100u64..100_000,
            seed in any::<u64>(),
            spread in 1u32..40,
        ) {
            let parameters = WeekParameters {
                hosts,
                plan: Plan::Shares,
                week: Time::ns(1000 * week_us),
                night: Time::ns(11_500),
                shortest: Time::ns(61_000),
                bytes_per_ms: 1_250_000,
            };
            let (mut week, mut state) = (Week::new(parameters), seed | 1);
            for from in 0..hosts {
                for to in (0..hosts).filter(|&to| to != from) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = (state >> 20) >> (state % u64::from(spread));
                    week.on_event(Time::ZERO, &Event::Demand { from, to, bytes });
                }
            }
            week.plan();
            let found: Vec<_> = week.days().map(|(day, to)| (day, to.to_vec())).collect();
            prop_assert_eq!(found, of_all_slices(&parameters, &week.waiting));
        }
    }
}
