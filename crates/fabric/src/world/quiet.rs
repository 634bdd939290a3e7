//! A host's slot in which nothing waits for its circuit, and news come when they should: at low
//! load most of them.
//!
//! What such a slot leaves behind stands before it: its draws, two sync frames on time, and a
//! little more in one queue. So it is not played but noted. The draws are those that [`Host::play`]
//! would take, in the same order; whatever is not as usual in them (a stall, a late begin) is
//! played.

use halfwink_engine::Stream;
use halfwink_units::Time;
use rand::RngExt;

use super::draw::us_in;
use super::host::{Host, Queue, Slot};
use super::sync::{Receiver, TOLERANCE};
use super::times::Times;
use crate::hosts::Hosts;

/// Number of draws of a slot (after, long, short, twice; then first, late), after a dusk's frame.
const DRAWS: usize = 6;
const AFTER_DUSK: usize = 3;

/// Values that are the same in all slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    sync_us: [f64; 2],
    /// Longest that news take without a stall.
    most: Time,
    long_share: f64,
    short_share: f64,
    late_share: f64,
    frame_bytes: u64,
}

impl Quiet {
    /// Returns `None` where two frames without a stall may be further apart than *on time* allows,
    /// or where faults are enabled.
    pub(super) fn of(hosts: &Hosts) -> Option<Quiet> {
        let [least, most] = hosts.sync_us.map(|us| Time::from_ns(1e3 * us));
        let is_on_time = least <= most && most - least <= TOLERANCE;
        (is_on_time && !hosts.faults.any()).then_some(Quiet {
            sync_us: hosts.sync_us,
            most,
            long_share: hosts.stalls.long_share,
            short_share: hosts.stalls.short_share,
            late_share: hosts.late_share,
            frame_bytes: u64::from(hosts.frame_bytes),
        })
    }

    /// Returns whether the sync frames of a slot are on time if it has no stall: not too close to
    /// each other or to those before, which were on time as well.
    fn follows(&self, slot: Slot, receiver: &Receiver) -> bool {
        let Some((sent, handled)) = receiver.last else { return false };
        slot.day >= receiver.stalled_until
            && handled - sent <= self.most
            && slot.day - sent > TOLERANCE
            && slot.ends - slot.day > TOLERANCE
    }

    /// The dusk's draw; none if something happens in the slot. What it takes, it takes.
    fn draw(&self, random: &mut Stream, has_turn: bool) -> Option<f64> {
        let drawn: [f64; DRAWS] = std::array::from_fn(|_| random.random());
        let [_, long, short, _, long_again, short_again] = drawn;
        let mut happens =
            (long.min(long_again) < self.long_share) | (short.min(short_again) < self.short_share);
        if has_turn {
            // As many draws as `Host::begin` takes with a turn, and none without: one more or less
            // would shift all later slots.
            let [_, late]: [f64; 2] = std::array::from_fn(|_| random.random());
            happens |= late < self.late_share;
        }
        (!happens).then_some(drawn[AFTER_DUSK])
    }
}

impl Host {
    /// Notes a slot if it is a quiet one; else nothing is changed.
    pub(super) fn is_quiet(
        &mut self,
        slot: Slot,
        to: Option<u16>,
        quiet: &Quiet,
        times: &Times,
    ) -> bool {
        let queue = to.map(|to| (usize::from(to), self.queue(to, slot.day, times)));
        if queue.is_some_and(|(_, queue)| queue.bytes as u64 >= quiet.frame_bytes) {
            return false;
        }
        if !quiet.follows(slot, &self.receiver) {
            return false;
        }
        // Taken back if the slot is played after all: it draws the same numbers itself.
        let before = self.random.clone();
        let Some(dusk) = quiet.draw(&mut self.random, to.is_some()) else {
            self.random = before;
            return false;
        };
        self.receiver.gaps.on_time += 2;
        self.receiver.last = Some((slot.ends, slot.ends + us_in(dusk, quiet.sync_us)));
        if let Some((to, queue)) = queue {
            self.queues[to] = queue;
        }
        true
    }

    /// Returns the queue for another host at a time.
    pub(super) fn queue(&self, to: u16, now: Time, times: &Times) -> Queue {
        let queue = self.queues[usize::from(to)];
        let more = times.fill_bytes_per_ps * now.saturating_sub(queue.at).0 as f64;
        Queue { bytes: (queue.bytes + more).min(times.queue_bytes), at: now }
    }
}

#[cfg(test)]
mod tests {
    use halfwink_policy::circuits::host::{Scheme, TokenParameters, Tokens};
    use proptest::prelude::*;

    use super::super::{Counts, Setting, Transport};
    use super::*;
    use crate::Spec;

    /// Plays slots, given as lengths in microseconds and the host's peer, and says whether slots
    /// may be recorded in short form. Returns the final state as text and the number of slots so
    /// recorded.
    fn left_behind(hosts: &Hosts, slots: &[(u16, u16, Option<u16>)], noted: bool) -> (String, u32) {
        let spec: Spec = toml::from_str(include_str!("../../../../machines/fabric/mordia.toml"))
            .expect("the shipped machine");
        let day = Time::ns(61_000);
        let setting = Setting {
            switch: &spec.switch,
            hosts,
            scheme: Scheme::Pacing,
            transport: Transport::Udp,
            duration: Time::ZERO,
            day,
            seed: 1,
        };
        let times = Times::of(&setting);
        let tokens = Tokens::new(TokenParameters::published(Scheme::Pacing));
        let mut host = Host::new(0, hosts, 7, tokens);
        let mut counts = Counts { delivered: vec![0; 23], ..Counts::default() };
        let quiet = Quiet::of(hosts).filter(|_| noted);
        let (mut now, mut count) = (Time::ZERO, 0);
        for &(night_us, day_us, to) in slots {
            let dawn = now + Time::ns(1000 * u64::from(night_us));
            let slot =
                Slot { night: now, day: dawn, ends: dawn + Time::ns(u64::from(day_us) * 100) };
            now = slot.ends;
            if quiet.is_some_and(|quiet| host.is_quiet(slot, to, &quiet, &times)) {
                count += 1;
            } else {
                host.play(slot, to, hosts, &times, &mut counts);
            }
        }
        let Host { random, receiver, queues, .. } = host;
        (format!("{random:?} {receiver:?} {queues:?} {counts:?}"), count)
    }

    fn hosts(packet_us: f64, share: f64) -> Hosts {
        let spec: Spec = toml::from_str(include_str!("../../../../machines/fabric/mordia.toml"))
            .expect("the shipped machine");
        let mut hosts = spec.hosts.expect("it has hosts");
        hosts.processor.packet_us = packet_us;
        (hosts.stalls.long_share, hosts.stalls.short_share) = (share, 2.0 * share);
        hosts.late_share = share;
        hosts
    }

    #[test]
    fn most_slots_of_low_load_are_noted_and_bits_stay() {
        for (packet_us, least) in [(1e9, 0.97), (807.0, 0.75), (8.07, 0.0)] {
            let hosts = hosts(packet_us, 0.0008);
            let slots: Vec<_> = (0..20_000).map(|n| (11, 1235, Some(1 + n % 22))).collect();
            let (played, none) = left_behind(&hosts, &slots, false);
            let (noted, count) = left_behind(&hosts, &slots, true);
            assert_eq!(noted, played, "{packet_us}");
            let share = f64::from(count) / slots.len() as f64;
            assert!(none == 0 && share >= least, "{packet_us}: {share}");
        }
    }

    #[test]
    fn what_may_be_late_without_a_stall_is_played() {
        let mut hosts = hosts(1e9, 0.0);
        assert!(Quiet::of(&hosts).is_some());
        hosts.sync_us = [0.5, 1.6];
        assert!(Quiet::of(&hosts).is_none());
    }

    proptest! {
        /// Nights and days of any length, with and without circuits, with few stalls and many.
        #[test]
        fn quiet_slot_equals_played_slot(
            packet_us in 1.0..3000.0,
            share in prop::sample::select(vec![0.0, 0.001, 0.05, 0.5]),
            slots in prop::collection::vec(
                (0_u16..20, 1_u16..2000, prop::option::of(1_u16..5)),
                1..300,
            ),
        ) {
            let hosts = hosts(packet_us, share);
            let (played, _) = left_behind(&hosts, &slots, false);
            prop_assert_eq!(left_behind(&hosts, &slots, true).0, played);
        }
    }
}
