//! A slot of TCP: hosts take turns with what their connections have queued.
//!
//! What a host sends in a slot depends on what arrives in it only if the same two hosts are joined
//! in both directions. Then both are played side by side, event by event; all others one after the
//! other, and what they send arrives when all have sent.

use halfwink_units::Time;

use super::connections::{Connections, Content, Packet};
use super::host::{Host, Slot, Turn};
use super::times::Times;
use super::{Counts, Setting};

/// Hosts that use circuits by turns, and their connections, through one slot.
pub(super) struct Exchange<'a> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) times: &'a Times,
    pub(super) hosts: &'a mut [Host],
    pub(super) connections: &'a mut Connections,
    pub(super) counts: &'a mut Counts,
    pub(super) turns: &'a mut Vec<Option<Turn>>,
    /// Segments that a card cuts from one.
    pub(super) cut: usize,
}

impl Exchange<'_> {
    pub(super) fn play(&mut self, slot: Slot, matching: &[Option<u16>]) {
        self.turns.clear();
        for (n, &to) in matching.iter().enumerate() {
            let turn = self.begin(slot, n, to);
            self.turns.push(turn);
        }
        let peer = |n: usize| matching[n].map(usize::from);
        for n in 0..matching.len() {
            match peer(n) {
                // The pair is played once, by the lower of the two.
                Some(to) if peer(to) == Some(n) && n < to => self.side_by_side(n, to),
                Some(to) if peer(to) == Some(n) => (),
                Some(to) => {
                    while let Some(at) = self.next(n, to) {
                        self.step(n, to, at);
                    }
                }
                None => (),
            }
        }
        for (from, to) in matching.iter().enumerate() {
            let Some(to) = to.map(usize::from) else { continue };
            // Only one host sends to `to` in a slot, so that all that arrives there is from it.
            while self.connections.arrives(to).is_some() {
                self.connections.arrive(to, from);
            }
        }
        for (host, turn) in self.hosts.iter_mut().zip(&*self.turns) {
            if let Some(turn) = turn {
                host.end(turn, self.counts);
            }
        }
    }

    fn begin(&mut self, slot: Slot, n: usize, to: Option<u16>) -> Option<Turn> {
        let hosts = self.setting.hosts;
        // Before the host's turn begins, which waits for its processor.
        if let Some(until) = self.hosts[n].silent_until(slot.day) {
            self.connections.pause(n, until);
        }
        let busy = self.connections.busy_until(n);
        let waits = if hosts.processor.sync_waits { busy } else { Time::ZERO };
        let turn = self.hosts[n].begin(slot, to, waits, hosts, self.counts)?;
        self.connections.wake(n, usize::from(turn.to), turn.now);
        Some(turn)
    }

    /// Returns the time at which a host next checks its queue within its turn.
    fn next(&self, n: usize, to: usize) -> Option<Time> {
        let turn = self.turns[n].as_ref()?;
        let head = self.connections.head(n, to)?;
        let at = turn.now.max(head.ready);
        turn.lasts_at(at).then_some(at)
    }

    fn step(&mut self, n: usize, to: usize, at: Time) {
        let Some(turn) = self.turns[n].as_mut() else { return };
        turn.now = at;
        let Some(head) = self.connections.head(n, to) else { return };
        // A card that cuts segments gets as many as are ready at once.
        let is_data = |packet: &Packet| matches!(packet.content, Content::Data { .. });
        let most = if is_data(head) { self.cut } else { 1 };
        let bytes = self.connections.bytes(head);
        let ready = self.connections.ready(n, to, at, most).max(1);
        if !self.hosts[n].may_send(turn, bytes * ready as u32, self.times) {
            return;
        }
        for _ in 0..ready {
            let Some(packet) = self.connections.pop(n, to) else { break };
            let (wire, passes) = self.hosts[n].hand_over(turn, bytes, self.times, self.counts);
            let is_ack = !is_data(&packet);
            let sums = if is_ack {
                (&mut self.connections.counts.acks, &mut self.connections.counts.acks_lost)
            } else {
                (&mut self.counts.sent, &mut self.counts.lost)
            };
            *sums.0 += 1;
            *sums.1 += u64::from(!passes);
            if passes {
                let at = wire.ends + self.times.receive(bytes);
                self.connections.carry(to, at, packet);
            }
        }
        // Once for all segments that were cut from one: the processor hands over one.
        turn.now += self.times.dequeue;
    }

    fn side_by_side(&mut self, a: usize, b: usize) {
        loop {
            let times = [
                self.connections.arrives(a),
                self.connections.arrives(b),
                self.next(a, b),
                self.next(b, a),
            ];
            let at = |n: usize| times[n].unwrap_or(Time::NEVER);
            // Arrivals first among equals: an acknowledgement that is there may open the window
            // for what is sent at that time.
            let first = (0..4).min_by_key(|&n| at(n)).unwrap_or(0);
            match (first, times[first]) {
                (_, None) => return,
                (0, _) => self.connections.arrive(a, b),
                (1, _) => self.connections.arrive(b, a),
                (2, Some(at)) => self.step(a, b, at),
                (_, Some(at)) => self.step(b, a, at),
            }
        }
    }
}
