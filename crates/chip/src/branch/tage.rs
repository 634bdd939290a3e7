//! TAGE: a bimodal base, and tables with tags that look back over ever longer histories (Seznec and
//! Michaud, "A case for (partially) tagged geometric history length branch prediction", JILP 8,
//! 2006; reset of usefulness as in Seznec, "A new case for the TAGE branch predictor", MICRO 2011),
//! beside it a predictor of loops (Seznec, "A 256 Kbits L-TAGE branch predictor", JILP 9, 2007).
//!
//! The longest history whose tag fits provides the prediction: a branch takes as much history as it
//! needs, and only one that was mispredicted is given a longer one.

use super::loops::Loops;
use super::tables::{Found, Shape, Tables, Tagged};
use super::{hash, train};
use crate::machine::TageSpec;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u16,
    /// Taken from 0 on (-4..=3).
    counter: i8,
    /// Was right where the next shorter history was wrong (0..=3).
    useful: u8,
}

impl Tagged for Entry {
    #[inline]
    fn tag(&self) -> u16 {
        self.tag
    }
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
    tables: Tables<Entry, 2>,
    /// Confidence that the alternate prediction is better than a new entry (-8..=7).
    alternate_on_new: i8,
    failed: i32,
    loops: Option<Loops>,
}

impl Tage {
    pub(super) fn new(spec: &TageSpec) -> Tage {
        Tage {
            // Just below the middle: one branch that is taken turns it.
            base: vec![1; spec.base_entries],
            tables: Tables::new(&Shape {
                tables: spec.tables,
                entries: spec.entries,
                tag_bits: spec.tag_bits,
                shortest: spec.shortest_history,
                longest: spec.longest_history,
            }),
            alternate_on_new: 0,
            failed: 0,
            loops: (spec.loop_entries > 0).then(|| Loops::new(spec.loop_entries)),
        }
    }

    /// Adds to the history what a branch of any kind did.
    #[inline]
    pub(super) fn push(&mut self, bit: bool) {
        self.tables.push(bit);
    }

    /// Predicts and learns; whether it was right.
    #[inline]
    pub(super) fn is_right(&mut self, pc: u64, taken: bool) -> bool {
        let found = self.tables.look_up(pc);
        let base = hash(pc) as usize & (self.base.len() - 1);
        let alternate = found
            .alternate
            .map_or(self.base[base] >= 2, |n| self.tables.at(&found, n).counter >= 0);
        let (mut says, mut longest) = (alternate, alternate);
        if let Some(n) = found.provider {
            let entry = *self.tables.at(&found, n);
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
        if says != taken && longest != taken && self.tables.reaches(found.longer()) {
            self.allocate(&found, taken);
        }
        self.push(taken);
        looped.unwrap_or(says) == taken
    }

    #[inline]
    fn learn(&mut self, found: &Found, base: usize, taken: bool, longest: bool, alternate: bool) {
        let Some(n) = found.provider else {
            train(&mut self.base[base], taken, 3);
            return;
        };
        let entry = self.tables.at_mut(found, n);
        if longest != alternate {
            train(&mut entry.useful, longest == taken, 3);
        }
        count(&mut entry.counter, taken);
        // What stands behind a new entry goes on learning: the entry may be thrown out again.
        if entry.useful == 0 {
            match found.alternate {
                Some(n) => count(&mut self.tables.at_mut(found, n).counter, taken),
                None => train(&mut self.base[base], taken, 3),
            }
        }
    }

    /// Gives a mispredicted branch an entry with a longer history than it had.
    fn allocate(&mut self, found: &Found, taken: bool) {
        for n in self.tables.candidates(found.longer()) {
            let tag = found.tag(n);
            let entry = self.tables.at_mut(found, n);
            if entry.useful == 0 {
                *entry = Entry { tag, counter: if taken { 0 } else { -1 }, useful: 0 };
                self.failed = (self.failed - 1).max(0);
                return;
            }
            self.failed += 1;
        }
        if self.failed >= PATIENCE {
            self.failed = 0;
            self.tables.all_mut().for_each(|entry| entry.useful >>= 1);
        }
    }
}

/// Moves a saturating counter of three bits towards the outcome.
#[inline]
fn count(counter: &mut i8, taken: bool) {
    *counter = if taken { (*counter + 1).min(3) } else { (*counter - 1).max(-4) };
}
