//! Even parts of circuits, as the hosts of opera-sim's RotorLB send (`rlbmodule.cpp`, Mellette
//! 2020).
//!
//! In each day a server sends and receives its part of the frames of each circuit of its rack, and
//! no more if others leave theirs (`_max_pkts`). What waits in a rack between is with its servers:
//! of each of them a server at the end takes a part of that part (`phase1`), and each of them takes
//! two such parts for it (`phase2`). These are whole frames: of 81, 13 go in a day, and 27 are
//! taken, so that the last of them needs a third day.

use super::pieces::{Piece, Way};
use super::sharing::Needs;
use super::world::World;

/// Resources of a server that have a part: sending, receiving, receiving from intermediate racks.
const KINDS: usize = 3;

/// Returns the number of resources that are shared in even parts.
pub(super) fn parts(planes: u8, servers: u32) -> usize {
    KINDS * usize::from(planes) * servers as usize
}

/// Frames of a server in a day, and of those what two servers send each other by a rack between,
/// and what one takes in between; with frames of no length, exact shares.
fn frames(day: f64, frame: f64, servers: f64) -> [f64; 3] {
    if frame <= 0.0 {
        return [day / servers, day / servers / servers, 2.0 * day / servers / servers];
    }
    // assumption: at least one, or what waits would never end.
    let whole = |frames: f64| frames.floor().max(1.0);
    let own = whole(day / frame / servers);
    [own * frame, whole(own / servers) * frame, whole(2.0 * own / servers) * frame]
}

impl World<'_> {
    /// A thing of a kind, of a plane.
    fn part_item(&self, kind: usize, plane: usize, server: u32) -> u32 {
        let planes = self.planes.len();
        let first = 2 * self.servers + ((planes + 2) * self.racks) as u32;
        first + (kind * planes + plane) as u32 * self.servers + server
    }

    /// Bytes of this day of a plane: see [`frames`].
    fn day_parts(&self, plane: usize) -> ([f64; 3], f64) {
        let racks = self.setting.racks;
        let ps = self.planes[plane].rest(self.now).0 as f64;
        let frame = racks.frame_bytes * racks.goodput;
        (frames(ps * self.circuit, frame, f64::from(racks.servers)), ps)
    }

    /// A day of a plane begins.
    pub(super) fn set_parts(&mut self, plane: usize) {
        let ([own, two, _], ps) = self.day_parts(plane);
        let between = two * f64::from(self.setting.racks.servers);
        for (kind, bytes) in [own, own, between.min(own)].into_iter().enumerate() {
            let first = self.part_item(kind, plane, 0) as usize;
            // As a rate over the day: sharing knows rates, and a part that is not used by the end
            // is lost, as there.
            self.capacity[first..first + self.servers as usize].fill(bytes / ps);
        }
    }

    /// Adds the server parts that a piece on a circuit needs.
    pub(super) fn push_parts(&self, piece: &Piece, plane: usize, needs: &mut Needs) {
        let flow = self.traffic.flows()[piece.flow as usize];
        if piece.is_at_server {
            needs.push(self.part_item(0, plane, flow.from));
        }
        if piece.way == Way::Direct {
            needs.push(self.part_item(1, plane, flow.to));
            if !piece.is_at_server {
                needs.push(self.part_item(2, plane, flow.to));
            }
        }
    }

    /// Returns the bytes that an intermediate rack still accepts for the receiver of a flow.
    pub(super) fn room_between(&self, plane: usize, between: usize, flow: u32) -> f64 {
        if !self.setting.routes.even_parts {
            return f64::INFINITY;
        }
        let to = self.traffic.flows()[flow as usize].to;
        let racks = self.setting.racks;
        let pair = self.waiting.pair(between, usize::from(racks.rack_of(to)));
        let waiting = self.waiting.list(pair).iter().map(|&number| &self.pieces[number]);
        let own = waiting.filter(|it| self.traffic.flows()[it.flow as usize].to == to);
        let ([.., taken], _) = self.day_parts(plane);
        taken * f64::from(racks.servers) - own.map(|it| it.bytes.max(0.0)).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::frames;

    #[test]
    fn parts_are_whole_frames() {
        // 585 us of 10 Gb/s are 487 frames of 1500 bytes: of opera-sim's six servers 81 each.
        assert_eq!(frames(487.5 * 1500.0, 1500.0, 6.0).map(|it| it / 1500.0), [81.0, 13.0, 27.0]);
        assert_eq!(frames(3000.0, 1500.0, 6.0), [1500.0; 3]);
        assert_eq!(frames(36.0, 0.0, 6.0), [6.0, 1.0, 2.0]);
    }
}
