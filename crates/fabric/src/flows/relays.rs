//! Flows by a rack between, where they wait for their circuit (Mellette 2017, RotorNet, Sec 4.2).

use super::pieces::{Piece, Way, NOTHING};
use super::world::World;

impl World<'_> {
    /// Uses a day's spare capacity for pieces that wait for other racks: sends them to the rack at
    /// the circuit's end, up to that rack's own spare capacity for them (RotorNet, Algorithm 1).
    pub(super) fn begin_relays(&mut self, plane: usize) {
        let day = self.planes[plane].rest(self.now).0 as f64 * self.circuit;
        self.left_over.fill(None);
        // A copy: relaying takes pieces from the lists, and a pair that becomes empty leaves this
        // one.
        for pair in self.waiting.busy().to_vec() {
            let (from, to) = (pair as usize / self.racks, pair as usize % self.racks);
            let Some(between) = self.planes[plane].to[from].map(usize::from) else { continue };
            if between == to {
                continue;
            }
            let left = match self.left_over[from] {
                Some(left) => left,
                None => day - self.backlog(from, between),
            };
            // Bytes that wait there for the same receiver have the circuit first, so that relayed
            // ones have to fit behind them.
            let room = (day - self.backlog(between, to)).min(left);
            let sent = if room >= 1.0 { self.relay(plane, (from, between, to), room) } else { 0.0 };
            self.left_over[from] = Some(left - sent);
        }
    }

    /// Sends up to so many bytes by a rack between; how many those are.
    fn relay(
        &mut self,
        plane: usize,
        (from, between, to): (usize, usize, usize),
        most: f64,
    ) -> f64 {
        let pair = self.waiting.pair(from, to);
        let mut sent = 0.0;
        for number in self.waiting.list(pair).to_vec() {
            let piece = self.pieces[number];
            // Two circuits are enough: what is in a rack between waits for its own.
            if !piece.is_at_server || piece.bytes <= NOTHING {
                continue;
            }
            let room = self.room_between(plane, between, piece.flow);
            if room < 1.0 {
                continue;
            }
            let bytes = piece.bytes.min(most - sent).min(room);
            if bytes < 1.0 {
                break;
            }
            // Less than a byte stays nowhere alone.
            let all = piece.bytes - bytes < 1.0;
            let bytes = if all { piece.bytes } else { bytes };
            sent += bytes;
            let part = Piece { to: between as u16, way: Way::Relay, bytes, size: bytes, ..piece };
            if all {
                self.take(number);
                self.pieces.remove(number);
                self.run.delivered += piece.size - piece.bytes;
                self.run.on_circuits += piece.size - piece.bytes;
            } else {
                let rest = &mut self.pieces[number];
                (rest.bytes, rest.size) = (piece.bytes - bytes, piece.size - bytes);
                self.open[piece.flow as usize] += 1;
            }
            let part = self.pieces.add(part);
            self.relays[plane * self.racks + from].push(part);
        }
        sent
    }

    /// The day ends: what is in the rack between stays there, the rest waits where it was.
    pub(super) fn end_relays(&mut self, plane: usize) {
        for from in 0..self.racks.min(self.relays.len()) {
            for number in std::mem::take(&mut self.relays[plane * self.racks + from]) {
                let piece = self.pieces[number];
                let moved = piece.size - piece.bytes.max(0.0);
                if moved < 1.0 {
                    self.wait_at_server(number, piece.size);
                } else if piece.bytes < 1.0 {
                    self.wait_between(number, piece.to, piece.size);
                } else {
                    self.wait_at_server(number, piece.bytes);
                    self.open[piece.flow as usize] += 1;
                    let other = self.pieces.add(piece);
                    self.wait_between(other, piece.to, moved);
                }
            }
        }
    }

    fn wait_at_server(&mut self, number: u32, bytes: f64) {
        let at = self.pieces[number].at;
        self.wait(number, at, true, bytes);
    }

    pub(super) fn wait_between(&mut self, number: u32, at: u16, bytes: f64) {
        self.run.on_circuits += bytes;
        self.wait(number, at, false, bytes);
    }

    pub(super) fn take_relay(&mut self, number: u32) {
        for list in
            self.relays.iter_mut().skip(usize::from(self.pieces[number].at)).step_by(self.racks)
        {
            list.retain(|&other| other != number);
        }
    }
}
