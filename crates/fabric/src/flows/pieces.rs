//! Parts of flows that are on their way together.

use super::planes::Plane;

/// Sizes below this count as zero, in bytes: rates are real numbers, times are integers.
pub(super) const NOTHING: f64 = 1e-3;

/// A part of a flow that takes one way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Number of its flow.
    pub(super) flow: u32,
    /// The rack where it is, and the rack where this way ends.
    pub(super) at: u16,
    pub(super) to: u16,
    /// Whether the piece is still at its sending server rather than in an intermediate rack.
    pub(super) is_at_server: bool,
    pub(super) way: Way,
    /// Bytes that are left, and the size at the start.
    pub(super) bytes: f64,
    pub(super) size: f64,
}

/// Route of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Stays within the rack.
    Within,
    /// Goes over packet switches.
    Packets,
    /// Over circuits that are up, one after the other.
    Hops,
    /// Over the circuit of its pair of racks, when it is up.
    Direct,
    /// Goes to an intermediate rack, while this day of a plane lasts.
    Relay,
}

/// Pieces by number. Numbers of those that ended are used again.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    all: Vec<Piece>,
    free: Vec<u32>,
}

impl Pieces {
    pub(super) fn add(&mut self, piece: Piece) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = piece;
            return number;
        }
        self.all.push(piece);
        (self.all.len() - 1) as u32
    }

    pub(super) fn remove(&mut self, number: u32) {
        // The piece stays in place: `sizes` takes off what is free, so that its size must not be
        // cleared.
        self.free.push(number);
    }

    /// Returns the sum of the start sizes of all pieces, in bytes.
    pub(super) fn sizes(&self) -> f64 {
        let all: f64 = self.all.iter().map(|piece| piece.size).sum();
        all - self.free.iter().map(|&number| self.all[number as usize].size).sum::<f64>()
    }

    pub(super) fn are_none(&self) -> bool {
        self.all.len() == self.free.len()
    }
}

impl std::ops::Index<u32> for Pieces {
    type Output = Piece;

    fn index(&self, number: u32) -> &Piece {
        &self.all[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Pieces {
    fn index_mut(&mut self, number: u32) -> &mut Piece {
        &mut self.all[number as usize]
    }
}

/// Pieces that wait for the circuit of their racks. Pairs for which nothing waits cost nothing.
#[derive(Debug)]
pub(super) struct Queues {
    racks: usize,
    /// Lists of pieces, by rows of sending racks.
    lists: Vec<Vec<u32>>,
    /// Pairs for which something waits, and each pair's place there.
    busy: Vec<u32>,
    place: Vec<u32>,
}

impl Queues {
    pub(super) fn new(racks: usize) -> Queues {
        let pairs = racks * racks;
        Queues { racks, lists: vec![vec![]; pairs], busy: vec![], place: vec![0; pairs] }
    }

    pub(super) fn pair(&self, from: usize, to: usize) -> usize {
        from * self.racks + to
    }

    pub(super) fn list(&self, pair: usize) -> &[u32] {
        &self.lists[pair]
    }

    /// Pairs for which something waits, in an order that means nothing.
    pub(super) fn busy(&self) -> &[u32] {
        &self.busy
    }

    /// Busy pairs that a plane joins now, by their places, in that order: of several planes the
    /// first. What that takes goes by circuits or by pairs, whatever are fewer.
    pub(super) fn joined(&self, planes: &[Plane], found: &mut Vec<(u32, u8)>) {
        found.clear();
        if self.busy.len() < self.racks {
            for (place, &pair) in (0..).zip(&self.busy) {
                let (from, to) = (pair as usize / self.racks, pair as usize % self.racks);
                let plane = planes.iter().position(|plane| plane.to[from] == Some(to as u16));
                found.extend(plane.map(|plane| (place, plane as u8)));
            }
            return;
        }
        for (number, plane) in (0..).zip(planes) {
            for (from, to) in plane.to.iter().enumerate() {
                let pair = to.map(|to| self.pair(from, usize::from(to)));
                let busy = pair.filter(|&pair| !self.lists[pair].is_empty());
                found.extend(busy.map(|pair| (self.place[pair], number)));
            }
        }
        found.sort_unstable();
        found.dedup_by_key(|&mut (place, _)| place);
    }

    pub(super) fn push(&mut self, piece: &Piece, number: u32) {
        let pair = self.pair(usize::from(piece.at), usize::from(piece.to));
        if self.lists[pair].is_empty() {
            self.place[pair] = self.busy.len() as u32;
            self.busy.push(pair as u32);
        }
        self.lists[pair].push(number);
    }

    pub(super) fn take(&mut self, piece: &Piece, number: u32) {
        let pair = self.pair(usize::from(piece.at), usize::from(piece.to));
        remove(&mut self.lists[pair], number);
        if self.lists[pair].is_empty() {
            let place = self.place[pair] as usize;
            // Order means nothing, so that the last pair fills the hole, and its place has to
            // follow it.
            debug_assert_eq!(self.busy[place] as usize, pair, "a busy pair knows its place");
            self.busy.swap_remove(place);
            if let Some(&moved) = self.busy.get(place) {
                self.place[moved as usize] = place as u32;
            }
        }
    }
}

/// Takes a piece from a list in which it stands.
pub(super) fn remove(list: &mut Vec<u32>, number: u32) {
    let place = list.iter().position(|&other| other == number);
    debug_assert!(place.is_some(), "piece {number} is listed nowhere");
    if let Some(place) = place {
        list.swap_remove(place);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Checks that both ways of finding pairs agree, with few and with many waiting pairs.
        #[test]
        fn pairs_with_circuits_are_found_either_way(
            to in prop::collection::vec(prop::option::of(0_u16..8), 24),
            waiting in prop::collection::vec((0_u16..8, 0_u16..8), 0..40),
        ) {
            let mut planes: Vec<Plane> = (0..3).map(|n| Plane::new(n, 8)).collect();
            for (plane, to) in planes.iter_mut().zip(to.chunks(8)) {
                plane.to = to.to_vec();
            }
            let (mut queues, mut found) = (Queues::new(8), vec![]);
            for (number, &(at, to)) in (0..).zip(&waiting) {
                let way = Way::Direct;
                let piece =
                    Piece { flow: 0, at, to, is_at_server: true, way, bytes: 1.0, size: 1.0 };
                queues.push(&piece, number);
            }
            queues.joined(&planes, &mut found);
            let expected: Vec<(u32, u8)> = (0..)
                .zip(queues.busy())
                .filter_map(|(place, &pair)| {
                    let (from, to) = (pair as usize / 8, Some((pair % 8) as u16));
                    let plane = planes.iter().position(|plane| plane.to[from] == to)?;
                    Some((place, plane as u8))
                })
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
