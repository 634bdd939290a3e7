//! All static splits of one route from one pass: how deep in its side's own order of recency each
//! reference finds its line (Mattson et al., IBM Systems Journal 1970, by side).
//!
//! A line belongs to the side that brought it in, as in a cache of ways; a reference by the other
//! side finds it there. That is exact for every split as long as it stays in so deep a stack: a
//! line that both sides use, and that some split had to drop, may come back on the other side
//! there.

use halfwink_policy::segregation::{Route, Side, Utility, MAX_WAYS};

use super::SecondLevelStream;
use crate::machine::Geometry;

/// Hits by side and recency, with what no number of ways would have hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackDistances {
    /// Hits by the side whose line it is.
    pub hits: Utility,
    /// Number of reads.
    pub accesses: u64,
}

impl StackDistances {
    /// Misses with so many ways for user and kernel.
    #[must_use]
    pub fn misses(&self, user: usize, kernel: usize) -> u64 {
        let hits = |side: usize, ways: usize| self.hits.hits[side][..ways].iter().sum::<u64>();
        self.accesses - hits(0, user) - hits(1, kernel)
    }
}

/// Goes through a stream once; sets as of this shape, whose ways are the deepest stack looked at.
#[must_use]
pub fn stack_distances(
    stream: &SecondLevelStream,
    geometry: Geometry,
    route: Route,
    write_backs: bool,
) -> StackDistances {
    let depth = geometry.ways.min(MAX_WAYS);
    let mut stacks = Stacks {
        depth,
        mask: geometry.sets as u64 - 1,
        // Line + 1; 0: none.
        tags: vec![0; 2 * geometry.sets * depth].into_boxed_slice(),
    };
    for &reference in &stream.warm {
        stacks.touch(reference.line, route.side(reference.kernel, reference.code));
    }
    let mut found = StackDistances { hits: Utility::default(), accesses: 0 };
    for record in &stream.records {
        if record.is_write_back() && !write_backs {
            continue;
        }
        let reference = record.reference();
        let hit = stacks.touch(reference.line, route.side(reference.kernel, reference.code));
        if record.is_write_back() {
            continue;
        }
        found.accesses += 1;
        if let Some((side, recency)) = hit {
            found.hits.hits[side][recency] += 1;
        }
    }
    found
}

struct Stacks {
    depth: usize,
    mask: u64,
    tags: Box<[u64]>,
}

impl Stacks {
    /// Returns the side of the line, and the number of lines of that side that were used since.
    #[inline]
    fn touch(&mut self, line: u64, side: Side) -> Option<(usize, usize)> {
        let start = 2 * (line & self.mask) as usize * self.depth;
        let set = &mut self.tags[start..start + 2 * self.depth];
        let place = set.iter().position(|&tag| tag == line + 1);
        let (side, recency) = match place {
            Some(place) => (place / self.depth, place % self.depth),
            None => (usize::from(side == Side::Kernel), self.depth - 1),
        };
        let stack = &mut set[side * self.depth..][..self.depth];
        stack.copy_within(..recency, 1);
        stack[0] = line + 1;
        place.map(|_| (side, recency))
    }
}
