//! Packets arrive, wake cores, are taken in batches and leave.

use halfwink_policy::scaling::{Event, Rest};
use halfwink_units::Time;

use super::{World, NEVER};
use crate::cpu::Phase;
use crate::faults::Fate;
use crate::ring::Packet;

/// A core whose first packet must wait for another core looks again after so much, in picoseconds.
const LOOK_AGAIN: u64 = 200_000;

impl World<'_> {
    /// The next packet goes to its ring; the core whose next event that changes.
    pub(super) fn arrive(&mut self) -> Option<usize> {
        let packet = self.coming;
        self.coming = self.arrivals.next();
        self.counts.received += 1;
        self.active += self.parts.active();
        self.order.arrives(packet);
        let core = usize::from(self.table.queue(packet.flow));
        let cpu = &mut self.cpus[core];
        if !cpu.ring.put(packet) {
            self.counts.lost += 1;
            self.order.is_lost(packet);
            return None;
        }
        match cpu.phase {
            Phase::Spin => {
                cpu.account(packet.at, self.step, &self.watts);
                cpu.work();
                self.next[core] = packet.at.max(cpu.ready);
            }
            Phase::Rest => match self.loses_interrupt(core, packet.at) {
                // Its own alarm may be earlier.
                Some(raised) => self.next[core] = self.next[core].min(raised),
                None => self.interrupt(core, packet.at),
            },
            Phase::Poll | Phase::Sleep | Phase::Pause => return None,
        }
        Some(core)
    }

    pub(super) fn interrupt(&mut self, core: usize, at: u64) {
        self.counts.interrupts += 1;
        self.wake(core, at, true);
    }

    fn wake(&mut self, core: usize, at: u64, interrupt: bool) {
        let late = self.fates.get_mut(core).map_or(0, Fate::wakes);
        let cpu = &mut self.cpus[core];
        cpu.account(at, self.step, &self.watts);
        self.next[core] = cpu.wake(at, interrupt, late, &self.watts);
    }

    fn loses_interrupt(&mut self, core: usize, at: u64) -> Option<u64> {
        self.fates.get_mut(core)?.loses_interrupt(at)
    }

    /// A core that does not answer draws what a busy one does (assumption).
    fn is_silent(&mut self, core: usize, at: u64) -> bool {
        let Some(until) = self.fates.get_mut(core).and_then(|fate| fate.silent_until(at)) else {
            return false;
        };
        let cpu = &mut self.cpus[core];
        cpu.account(at, self.step, &self.watts);
        cpu.work();
        self.next[core] = until;
        true
    }

    pub(super) fn on_core(&mut self, core: usize, at: u64) {
        match self.cpus[core].phase {
            Phase::Poll => self.poll(core, at),
            // What woke it beside its queue.
            Phase::Rest => self.interrupt(core, at),
            Phase::Sleep => self.wake(core, at, false),
            // The last of its empty polls, or the end of its delay.
            Phase::Spin | Phase::Pause => self.poll(core, at),
        }
    }

    pub(super) fn poll(&mut self, core: usize, at: u64) {
        self.cpus[core].done = self.cpus[core].ring.taken;
        if !self.fates.is_empty() && self.is_silent(core, at) {
            return;
        }
        self.counts.passes += 1;
        let waiting = self.cpus[core].ring.len();
        if self.hears[core] {
            let taken = waiting.min(self.batch);
            let waiting = if self.before { waiting } else { waiting - taken };
            self.policy.notify(Time(at), &Event::Poll { core: core as u8, taken, waiting });
            self.act(at);
        }
        if waiting == 0 {
            if let Some(rest) = self.rests {
                return self.rest(core, rest, at);
            }
            self.policy.notify(Time(at), &Event::Empty { core: core as u8 });
            return self.act(at);
        }
        let cpu = &mut self.cpus[core];
        if !cpu.works() {
            cpu.account(at, self.step, &self.watts);
            cpu.work();
        }
        let mut leaves = at;
        for _ in 0..waiting.min(self.batch) {
            if !self.barriers.is_empty() && self.is_held(core) {
                leaves = leaves.max(at + LOOK_AGAIN);
                break;
            }
            let packet = self.cpus[core].ring.take();
            leaves += self.service;
            self.depart(packet, leaves);
        }
        let cpu = &mut self.cpus[core];
        if self.rests == Some(Rest::Spin) && cpu.ring.len() == 0 {
            // The empty pass that would follow changes nothing.
            cpu.spin_from(leaves, &self.watts);
            leaves = NEVER;
        }
        self.next[core] = leaves;
    }

    #[inline]
    pub(super) fn depart(&mut self, packet: Packet, leaves: u64) {
        self.counts.forwarded += 1;
        self.slice_latency.record(Time(leaves - packet.at + self.path));
        self.order.leaves(packet, leaves);
    }

    /// Returns whether the first packet of a core must wait for earlier packets in another queue.
    pub(super) fn is_held(&mut self, core: usize) -> bool {
        let cpus = &self.cpus;
        self.barriers.retain(|b| cpus[b.from].done < b.until);
        let Some(first) = cpus[core].ring.first() else { return false };
        self.barriers.iter().any(|b| b.to == core && first.at > b.at)
    }
}
