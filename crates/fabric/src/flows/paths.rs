//! Paths over several circuits that are up: the fewest, by breadth first.

use halfwink_policy::circuits::NOBODY;

use super::planes::Plane;

/// Shortest paths from each rack that was asked for, until circuits change.
#[derive(Debug)]
pub(super) struct Paths {
    racks: usize,
    /// Plane and rack of the last circuit, for each source and destination rack; computed by rows.
    last: Vec<(u8, u16)>,
    is_known: Vec<bool>,
    queue: Vec<u16>,
}

impl Paths {
    pub(super) fn new(racks: u16) -> Paths {
        let racks = usize::from(racks);
        Paths {
            racks,
            last: vec![(0, NOBODY); racks * racks],
            is_known: vec![false; racks],
            queue: Vec::with_capacity(racks),
        }
    }

    /// Circuits are others now.
    pub(super) fn forget(&mut self) {
        self.is_known.fill(false);
    }

    /// Circuits (plane, rack that sends) from one rack to another, the last one first; false if
    /// there is no way.
    pub(super) fn find(
        &mut self,
        planes: &[Plane],
        from: u16,
        to: u16,
        mut each: impl FnMut(u8, u16),
    ) -> bool {
        if !std::mem::replace(&mut self.is_known[usize::from(from)], true) {
            self.search(planes, from);
        }
        let row = &self.last[usize::from(from) * self.racks..][..self.racks];
        let mut at = to;
        while at != from {
            let (plane, before) = row[usize::from(at)];
            if before == NOBODY {
                return false;
            }
            each(plane, before);
            at = before;
        }
        true
    }

    fn search(&mut self, planes: &[Plane], from: u16) {
        let row = &mut self.last[usize::from(from) * self.racks..][..self.racks];
        row.fill((0, NOBODY));
        self.queue.clear();
        self.queue.push(from);
        let mut next = 0;
        while let Some(&rack) = self.queue.get(next) {
            next += 1;
            for (number, plane) in planes.iter().enumerate() {
                let Some(to) = plane.to[usize::from(rack)] else { continue };
                // Seen is what has a predecessor; the source has none, and would be entered from
                // behind.
                if to != from && row[usize::from(to)].1 == NOBODY {
                    row[usize::from(to)] = (number as u8, rack);
                    self.queue.push(to);
                }
            }
        }
    }
}
