//! Everybody's turn, whatever waits: round robin (Strong 2013, Sec 4.4.1), and what several
//! switches make of it (RotorNet, Opera).
//!
//! Shift `k` joins host `i` to `(i + k) mod n`; shifts 1 to `n - 1` join each host to every other
//! once. Of `p` planes, plane `j` has the shifts `j + 1, j + 1 + p, ...`: together they need a
//! `p`th of the time. With staggered turns (Opera) one plane reconfigures while the others are up,
//! so that there are always paths over several circuits. There the shifts are dealt to planes in a
//! shuffled order: of 108 hosts on six planes all are reached over six circuits, where shifts that
//! follow each other take nine. Opera takes random matchings for it.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::asking::Asking;
use super::{Action, Circuits, Event};
use crate::{Policy, Snapshot};

/// Round robin over all shifts.
#[derive(Clone, Debug)]
pub struct Turns {
    asking: Asking,
    hosts: u16,
    planes: u8,
    day: Time,
    is_staggered: bool,
    /// All shifts, in the order in which planes have them.
    order: Vec<u16>,
    shift: u16,
}

/// A fixed order that looks random: Fisher and Yates, by steps of a congruential generator.
fn shuffle(order: &mut [u16]) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for last in (1..order.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
}

impl Turns {
    /// One plane, all turns of one length.
    #[must_use]
    pub fn round_robin(hosts: u16, day: Time) -> Turns {
        Turns::rotor(hosts, 1, day)
    }

    /// Planes that reconfigure at the same time (Mellette 2017, RotorNet, Sec 3).
    #[must_use]
    pub fn rotor(hosts: u16, planes: u8, day: Time) -> Turns {
        let (asking, planes) = (Asking::new(hosts), planes.max(1));
        let order = (1..hosts).collect();
        Turns { asking, hosts, planes, day, is_staggered: false, order, shift: 0 }
    }

    /// Planes that reconfigure one after the other (Mellette 2020, Opera, Sec 3.1.1).
    #[must_use]
    pub fn opera(hosts: u16, planes: u8, day: Time) -> Turns {
        let mut turns = Turns { is_staggered: true, ..Turns::rotor(hosts, planes, day) };
        shuffle(&mut turns.order);
        turns
    }

    /// The shift of a plane's slot; 0 if it has none to offer.
    #[must_use]
    pub fn shift(&self, plane: u8, slot: u32) -> u16 {
        let shifts = u32::from(self.hosts.saturating_sub(1));
        let (plane, planes) = (u32::from(plane), u32::from(self.planes));
        // The shifts at places plane, plane + planes, ... of the order.
        let own = shifts.saturating_sub(plane).div_ceil(planes);
        let nth = |turn| self.order[(plane + turn * planes) as usize];
        slot.checked_rem(own).map_or(0, nth)
    }

    fn length(&self, plane: u8, slot: u32) -> Time {
        if self.is_staggered && slot == 0 {
            // Ends one after the other, evenly, from the first day on.
            return Time(self.day.0 / u64::from(self.planes) * (u64::from(plane) + 1));
        }
        self.day
    }
}

impl Circuits for Turns {
    fn planes(&self) -> u8 {
        self.planes
    }

    fn is_periodic(&self) -> bool {
        true
    }
}

impl Policy for Turns {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        let Event::Next { plane, slot } = *event else { return self.asking.hear(event) };
        self.shift = self.shift(plane, slot);
        // All hosts from the shift on, then those before it: (host + shift) mod hosts.
        let from_shift = (self.shift..self.hosts).chain(0..self.shift);
        for (to, next) in self.asking.to.iter_mut().zip(from_shift) {
            *to = next;
        }
        self.asking.ask(plane, self.length(plane, slot));
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asking.poll()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("shift", i64::from(self.shift)), ("lost", self.asking.lost_count())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_of_all_planes_are_all_shifts_once() {
        for (hosts, planes) in [(2, 1), (8, 3), (23, 1), (24, 6), (5, 7)] {
            let turns = Turns::rotor(hosts, planes, Time::ns(1));
            let mut seen = vec![0; usize::from(hosts)];
            for plane in 0..planes {
                let own =
                    (0..).take_while(|&n| n == 0 || turns.shift(plane, n) != turns.shift(plane, 0));
                for slot in own {
                    seen[usize::from(turns.shift(plane, slot))] += 1;
                    if turns.shift(plane, slot + 1) == turns.shift(plane, 0) {
                        break;
                    }
                }
            }
            // Planes without a shift of their own rest, joined to themselves.
            let idle = i32::from(planes) - i32::from(hosts - 1).min(i32::from(planes));
            assert_eq!(seen[0], idle, "{hosts} {planes}");
            assert!(seen[1..].iter().all(|&n| n == 1), "{hosts} {planes}: {seen:?}");
        }
    }

    /// Racks that a rack reaches over so many circuits of all planes but one.
    fn reach(turns: &Turns, hops: usize) -> usize {
        let mut seen = vec![false; usize::from(turns.hosts)];
        seen[0] = true;
        for _ in 0..hops {
            let from: Vec<usize> = (0..seen.len()).filter(|&n| seen[n]).collect();
            for (n, plane) in from.iter().flat_map(|&n| (1..turns.planes).map(move |p| (n, p))) {
                let count = seen.len();
                seen[(n + usize::from(turns.shift(plane, 3))) % count] = true;
            }
        }
        seen.iter().filter(|is| **is).count()
    }

    #[test]
    fn shuffled_shifts_reach_everybody_over_few_circuits() {
        let (rotor, opera) = (Turns::rotor(108, 6, Time::ns(1)), Turns::opera(108, 6, Time::ns(1)));
        let hops = |turns: &Turns| (1..108).find(|&hops| reach(turns, hops) == 108);
        assert_eq!((hops(&opera), hops(&rotor)), (Some(6), Some(9)));
        let mut order = opera.order.clone();
        order.sort_unstable();
        assert_eq!(order, rotor.order);
    }

    #[test]
    fn planes_of_opera_end_one_after_the_other() {
        let turns = Turns::opera(8, 4, Time::ns(100));
        let ends: std::vec::Vec<u64> = (0..4).map(|p| turns.length(p, 0).0 / 1000).collect();
        assert_eq!(ends, [25, 50, 75, 100]);
        assert_eq!(turns.length(0, 1), Time::ns(100));
    }
}
