//! Tables of entries with tags that look back over ever longer histories: what TAGE's and ITTAGE's
//! have in common (Seznec and Michaud, JILP 8, 2006).

use std::ops::Range;

use super::hash;
use super::history::{geometric, Folds, History, MAX_TABLES};

/// Entry of a tagged table.
pub(super) trait Tagged: Clone + Default {
    /// Returns the tag of the entry.
    fn tag(&self) -> u16;
}

/// Sizes of such tables.
pub(super) struct Shape {
    pub(super) tables: usize,
    /// Entries of each table, a power of two.
    pub(super) entries: usize,
    pub(super) tag_bits: u32,
    /// History of the first and of the last table, in branches.
    pub(super) shortest: usize,
    pub(super) longest: usize,
}

/// Tables of entries, from the shortest history to the longest. Tags are made of `T` folds, each a
/// bit narrower than the one before it, so that histories that repeat do not cancel out.
#[derive(Clone, Debug)]
pub(super) struct Tables<E, const T: usize> {
    /// Entries of all tables, one after the other.
    entries: Vec<E>,
    count: usize,
    bits: u32,
    tag_mask: u32,
    history: History,
    indices: Folds,
    tags: [Folds; T],
    /// Chooses where to allocate, the same in every run.
    random: u32,
}

/// Places of a branch's entries.
pub(super) struct Found {
    places: [usize; MAX_TABLES],
    tags: [u16; MAX_TABLES],
    /// The table of the longest history whose tag fits.
    pub(super) provider: Option<usize>,
    /// Table of the next shorter history whose tag fits.
    pub(super) alternate: Option<usize>,
}

impl Found {
    /// Returns the tag that entries of this branch have.
    pub(super) fn tag(&self, table: usize) -> u16 {
        self.tags[table]
    }

    /// The first table with a longer history than what was provided.
    pub(super) fn longer(&self) -> usize {
        self.provider.map_or(0, |n| n + 1)
    }
}

impl<E: Tagged, const T: usize> Tables<E, T> {
    pub(super) fn new(shape: &Shape) -> Tables<E, T> {
        let lengths = geometric(shape.tables, shape.shortest, shape.longest);
        let bits = shape.entries.ilog2();
        Tables {
            entries: vec![E::default(); shape.tables * shape.entries],
            count: shape.tables,
            bits,
            tag_mask: (1 << shape.tag_bits) - 1,
            history: History::new(lengths),
            indices: Folds::new(lengths, bits),
            tags: std::array::from_fn(|n| Folds::new(lengths, shape.tag_bits - n as u32)),
            random: 1,
        }
    }

    /// Adds an outcome to the history.
    #[inline]
    pub(super) fn push(&mut self, bit: bool) {
        let folds = std::iter::once(&mut self.indices).chain(&mut self.tags);
        self.history.push(bit, folds);
    }

    #[inline]
    pub(super) fn look_up(&self, pc: u64) -> Found {
        let mut found = Found {
            places: [0; MAX_TABLES],
            tags: [0; MAX_TABLES],
            provider: None,
            alternate: None,
        };
        let (mixed, index_mask) = (hash(pc) as u32, (1 << self.bits) - 1);
        for n in 0..self.count.min(MAX_TABLES) {
            // Each table mixes the address in another way: what collides in one does not in all.
            let index = (mixed ^ mixed >> (n + 1) ^ self.indices.values[n]) & index_mask;
            let place = (n << self.bits) + index as usize;
            let folds = self.tags.iter().enumerate();
            let folded = folds.fold(0, |all, (shift, fold)| all ^ fold.values[n] << shift);
            let tag = ((mixed.rotate_right(9) ^ mixed ^ folded) & self.tag_mask) as u16;
            (found.places[n], found.tags[n]) = (place, tag);
            if self.entries[place].tag() == tag {
                found.alternate = found.provider.replace(n);
            }
        }
        found
    }

    /// The entry of a branch in a table.
    #[inline]
    pub(super) fn at(&self, found: &Found, table: usize) -> &E {
        &self.entries[found.places[table]]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, found: &Found, table: usize) -> &mut E {
        &mut self.entries[found.places[table]]
    }

    /// Tables in which a mispredicted branch may be given an entry, from this one on: the next, or
    /// one further half of the times, so that two branches do not chase each other.
    pub(super) fn candidates(&mut self, first: usize) -> Range<usize> {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let skip = usize::from(self.random >> 31 != 0 && first + 1 < self.count);
        first + skip..self.count
    }

    /// Returns whether a table of this number or above exists.
    pub(super) fn reaches(&self, table: usize) -> bool {
        table < self.count
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.entries.iter_mut()
    }
}
