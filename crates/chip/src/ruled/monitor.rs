//! What each side would make of more ways: utility monitors with dynamic set sampling (Qureshi,
//! Patt, MICRO 2006, Sec 3.2), by privilege rather than by core.

use halfwink_policy::segregation::{Side, Utility};

use crate::machine::Geometry;

/// One set in so many is watched, as published: 32 of 1024.
const SAMPLING: u64 = 32;

/// Tags of a few sets as each side alone would have them, in the order of recency.
#[derive(Clone, Debug)]
pub(super) struct Monitors {
    ways: usize,
    set_mask: u64,
    /// Watched sets are those whose number is a multiple of this.
    every: u64,
    /// Tags by side; 0 for none, otherwise line + 1.
    tags: [Box<[u64]>; 2],
    seen: Box<Utility>,
}

impl Monitors {
    pub(super) fn new(geometry: Geometry) -> Monitors {
        let every = SAMPLING.min(geometry.sets as u64);
        let lines = geometry.sets / every as usize * geometry.ways;
        let tags = || vec![0; lines].into_boxed_slice();
        Monitors {
            ways: geometry.ways,
            set_mask: geometry.sets as u64 - 1,
            every,
            tags: [tags(), tags()],
            seen: Box::default(),
        }
    }

    pub(super) fn touch(&mut self, line: u64, side: Side) {
        let set = line & self.set_mask;
        if !set.is_multiple_of(self.every) {
            return;
        }
        let side = usize::from(side == Side::Kernel);
        let start = (set / self.every) as usize * self.ways;
        let tags = &mut self.tags[side][start..start + self.ways];
        let place = tags.iter().position(|&tag| tag == line + 1);
        if let Some(recency) = place {
            self.seen.hits[side][recency] += 1;
        }
        tags.copy_within(..place.unwrap_or(self.ways - 1), 1);
        tags[0] = line + 1;
    }

    pub(super) fn forget(&mut self) {
        *self.seen = Utility::default();
    }

    pub(super) fn take(&mut self) -> Box<Utility> {
        std::mem::take(&mut self.seen)
    }
}
