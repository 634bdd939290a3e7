//! TAGE: a bimodal base, and tables with tags that look back over ever longer histories (Seznec and
//! Michaud, "A case for (partially) tagged geometric history length branch prediction", JILP 8,
//! 2006; reset of usefulness as in Seznec, "A new case for the TAGE branch predictor", MICRO 2011),
//! beside it a predictor of loops (Seznec, "A 256 Kbits L-TAGE branch predictor", JILP 9, 2007).
//!
//! The longest history whose tag fits provides the prediction: a branch takes as much history as it
//! needs, and only one that was mispredicted is given a longer one.

use super::history::{geometric, Folds, History, MAX_TABLES};
use super::{hash, loops::Loops, train};
use crate::machine::TageSpec;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u16,
    /// Taken from 0 on (-4..=3).
    counter: i8,
    /// Was right where the next shorter history was wrong (0..=3).
    useful: u8,
}

impl Entry {
    #[inline]
    fn is_weak(self) -> bool {
        matches!(self.counter, -1 | 0)
    }
}

/// Allocations that failed, beyond those that did not, before usefulness is halved: Seznec 2011.
const PATIENCE: i32 = 1024;

#[derive(Clone, Debug)]
pub(super) struct Tage {
    base: Vec<u8>,
    /// Table after table, from the shortest history.
    entries: Vec<Entry>,
    tables: usize,
    table_bits: u32,
    tag_mask: u32,
    history: History,
    indices: Folds,
    /// Of two widths, so that histories that repeat do not cancel out.
    tags: [Folds; 2],
    /// Whether an entry that is new is worth less than what it replaces (-8..=7).
    alternate_on_new: i8,
    failed: i32,
    /// Chooses where to allocate, the same in every run.
    random: u32,
    loops: Option<Loops>,
}

/// Where a prediction came from.
struct Found {
    places: [usize; MAX_TABLES],
    tags: [u16; MAX_TABLES],
    provider: Option<usize>,
    alternate: Option<usize>,
}

impl Tage {
    pub(super) fn new(spec: &TageSpec) -> Tage {
        let lengths = geometric(spec.tables, spec.shortest_history, spec.longest_history);
        let table_bits = spec.entries.ilog2();
        Tage {
            // Just below the middle: one branch that is taken turns it.
            base: vec![1; spec.base_entries],
            entries: vec![Entry::default(); spec.tables * spec.entries],
            tables: spec.tables,
            table_bits,
            tag_mask: (1 << spec.tag_bits) - 1,
            history: History::new(lengths),
            indices: Folds::new(lengths, table_bits),
            tags: [spec.tag_bits, spec.tag_bits - 1].map(|bits| Folds::new(lengths, bits)),
            alternate_on_new: 0,
            failed: 0,
            random: 1,
            loops: (spec.loop_entries > 0).then(|| Loops::new(spec.loop_entries)),
        }
    }

    /// Adds to the history what a branch of any kind did.
    #[inline]
    pub(super) fn push(&mut self, bit: bool) {
        let [first, second] = &mut self.tags;
        self.history.push(bit, [&mut self.indices, first, second].into_iter());
    }

    /// Predicts and learns; whether it was right.
    #[inline]
    pub(super) fn is_right(&mut self, pc: u64, taken: bool) -> bool {
        let found = self.look_up(pc);
        let base = hash(pc) as usize & (self.base.len() - 1);
        let alternate =
            found.alternate.map_or(self.base[base] >= 2, |n| self.at(&found, n).counter >= 0);
        let (mut says, mut longest) = (alternate, alternate);
        if let Some(n) = found.provider {
            let entry = *self.at(&found, n);
            longest = entry.counter >= 0;
            let is_new = entry.is_weak() && entry.useful == 0;
            says = if is_new && self.alternate_on_new >= 0 { alternate } else { longest };
            if is_new && longest != alternate {
                let step = if alternate == taken { 1 } else { -1 };
                self.alternate_on_new = (self.alternate_on_new + step).clamp(-8, 7);
            }
        }
        let looped = self.loops.as_mut().and_then(|loops| loops.learn(pc, taken, says != taken));
        self.learn(&found, base, taken, longest, alternate);
        // By what the longest history said: if only the choice was wrong, no more history helps.
        let last = found.provider.map_or(0, |n| n + 1);
        if says != taken && longest != taken && last < self.tables {
            self.allocate(&found, last, taken);
        }
        self.push(taken);
        looped.unwrap_or(says) == taken
    }

    #[inline]
    fn at(&mut self, found: &Found, table: usize) -> &mut Entry {
        &mut self.entries[found.places[table]]
    }

    #[inline]
    fn look_up(&self, pc: u64) -> Found {
        let mut found = Found {
            places: [0; MAX_TABLES],
            tags: [0; MAX_TABLES],
            provider: None,
            alternate: None,
        };
        let mixed = hash(pc) as u32;
        let (index_mask, [first, second]) = ((1 << self.table_bits) - 1, &self.tags);
        for n in 0..self.tables.min(MAX_TABLES) {
            // Each table mixes the address in another way: what collides in one does not in all.
            let index = (mixed ^ mixed >> (n + 1) ^ self.indices.values[n]) & index_mask;
            let place = (n << self.table_bits) + index as usize;
            let tag = mixed.rotate_right(9) ^ mixed ^ first.values[n] ^ second.values[n] << 1;
            let tag = (tag & self.tag_mask) as u16;
            (found.places[n], found.tags[n]) = (place, tag);
            if self.entries[place].tag == tag {
                found.alternate = found.provider.replace(n);
            }
        }
        found
    }

    #[inline]
    fn learn(&mut self, found: &Found, base: usize, taken: bool, longest: bool, alternate: bool) {
        let Some(n) = found.provider else {
            train(&mut self.base[base], taken, 3);
            return;
        };
        let entry = self.at(found, n);
        if longest != alternate {
            train(&mut entry.useful, longest == taken, 3);
        }
        count(&mut entry.counter, taken);
        // What stands behind a new entry goes on learning: the entry may be thrown out again.
        if entry.useful == 0 {
            match found.alternate {
                Some(n) => count(&mut self.at(found, n).counter, taken),
                None => train(&mut self.base[base], taken, 3),
            }
        }
    }

    /// Gives a mispredicted branch an entry with a longer history than it had.
    fn allocate(&mut self, found: &Found, first: usize, taken: bool) {
        // The next table, or one further half of the times: two branches do not chase each other.
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let skip = usize::from(self.random >> 31 != 0 && first + 1 < self.tables);
        for n in first + skip..self.tables {
            let tag = found.tags[n];
            let entry = self.at(found, n);
            if entry.useful == 0 {
                *entry = Entry { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                self.failed = (self.failed - 1).max(0);
                return;
            }
            self.failed += 1;
        }
        if self.failed >= PATIENCE {
            self.failed = 0;
            self.entries.iter_mut().for_each(|entry| entry.useful >>= 1);
        }
    }
}

/// Moves a saturating counter of three bits towards the outcome.
#[inline]
fn count(counter: &mut i8, taken: bool) {
    *counter = if taken { (*counter + 1).min(3) } else { (*counter - 1).max(-4) };
}
