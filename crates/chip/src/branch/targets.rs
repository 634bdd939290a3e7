//! Where indirect branches go, and which branches the front end knows to be there.

use super::hash;
use super::tables::{Found, Shape, Tables, Tagged};
use crate::cache::Cache;
use crate::machine::{BtbSpec, Geometry, IndirectSpec};

/// Targets of indirect branches: the last one of each, and, if there are `tagged` tables, those by
/// what came before.
#[derive(Clone, Debug)]
pub(super) struct Indirect {
    last: Vec<(u64, u64)>,
    tagged: Option<Box<ByHistory>>,
}

impl Indirect {
    pub(super) fn new(entries: usize, spec: Option<&IndirectSpec>) -> Indirect {
        let tagged = spec.map(|spec| Box::new(ByHistory::new(spec)));
        Indirect { last: vec![(u64::MAX, 0); entries], tagged }
    }

    /// Predicts and learns; whether it was right.
    #[inline]
    pub(super) fn is_right(&mut self, pc: u64, target: u64) -> bool {
        debug_assert!(self.last.len().is_power_of_two(), "the mask below needs it");
        let index = hash(pc) as usize & (self.last.len() - 1);
        let entry = &mut self.last[index];
        // Tagged with the whole address: a branch never takes another's target for its own.
        let right = *entry == (pc, target);
        *entry = (pc, target);
        match &mut self.tagged {
            None => right,
            Some(tagged) => tagged.is_right(pc, target, right),
        }
    }

    /// Adds to the history what a branch of any kind did.
    #[inline]
    pub(super) fn push(&mut self, bit: bool) {
        if let Some(tagged) = &mut self.tagged {
            tagged.push(bit);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    target: u64,
    tag: u16,
    /// Times that the target was right (0..=3).
    sure: u8,
    useful: bool,
}

/// ITTAGE: tables with tags that look back over ever longer histories, each entry with a target
/// (Seznec, "A 64-Kbytes ITTAGE indirect branch predictor", JWAC-2, 2011).
#[derive(Clone, Debug)]
struct ByHistory {
    tables: Tables<Entry, 1>,
    failed: u32,
}

impl Tagged for Entry {
    #[inline]
    fn tag(&self) -> u16 {
        self.tag
    }
}

/// Allocations that failed before all entries have to show their use anew. Assumption.
const PATIENCE: u32 = 256;

impl ByHistory {
    fn new(spec: &IndirectSpec) -> ByHistory {
        let tables = Tables::new(&Shape {
            tables: spec.tables,
            entries: spec.entries,
            tag_bits: spec.tag_bits,
            shortest: spec.shortest_history,
            longest: spec.longest_history,
        });
        ByHistory { tables, failed: 0 }
    }

    fn push(&mut self, bit: bool) {
        self.tables.push(bit);
    }

    /// `base`: whether the table without history would be right.
    fn is_right(&mut self, pc: u64, target: u64, base: bool) -> bool {
        let found = self.tables.look_up(pc);
        let of = |n: usize| self.tables.at(&found, n).target == target;
        let alternate = found.alternate.map_or(base, of);
        let right = found.provider.map_or(base, |n| {
            // What has been wrong as often as right is worth less than the shorter history.
            if self.tables.at(&found, n).sure == 0 {
                alternate
            } else {
                of(n)
            }
        });
        if let Some(n) = found.provider {
            let entry = self.tables.at_mut(&found, n);
            let was = entry.target == target;
            entry.useful |= was && !alternate;
            match (was, entry.sure) {
                (true, sure) => entry.sure = (sure + 1).min(3),
                (false, 0) => (entry.target, entry.useful) = (target, false),
                (false, sure) => entry.sure = sure - 1,
            }
        }
        if !right {
            self.allocate(&found, target);
        }
        right
    }

    fn allocate(&mut self, found: &Found, target: u64) {
        for n in self.tables.candidates(found.longer()) {
            let tag = found.tag(n);
            let entry = self.tables.at_mut(found, n);
            if !entry.useful {
                *entry = Entry { target, tag, sure: 1, useful: false };
                return;
            }
        }
        self.failed += 1;
        if self.failed == PATIENCE {
            self.failed = 0;
            self.tables.all_mut().for_each(|entry| entry.useful = false);
        }
    }
}

/// Branches whose targets the front end has: what is not there is seen when it is decoded.
#[derive(Clone, Debug)]
pub(super) struct TargetBuffer(Cache);

impl TargetBuffer {
    pub(super) fn new(spec: &BtbSpec) -> TargetBuffer {
        let sets = spec.entries / spec.ways;
        TargetBuffer(Cache::new(Geometry { sets, ways: spec.ways }))
    }

    /// Returns whether it holds the taken branch at `pc`, and inserts it.
    #[inline]
    pub(super) fn has(&mut self, pc: u64) -> bool {
        // The upper bits of an address are all alike. Branches lie at any byte: its lower bits
        // are mixed, so that sets fill evenly; no two addresses become one by it.
        let pc = pc & ((1 << 48) - 1);
        let key = pc ^ pc >> 12;
        let has = self.0.touch(key, 0).is_some();
        if !has {
            self.0.insert(key, 0);
        }
        has
    }
}
