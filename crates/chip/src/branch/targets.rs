//! Where indirect branches go, and which branches the front end knows to be there.

use super::hash;
use super::history::{geometric, Folds, History, MAX_TABLES};
use crate::cache::Cache;
use crate::machine::{BtbSpec, Geometry, IndirectSpec};

/// Targets of indirect branches: the last one of each, and, if there are `tagged` tables, those by
/// what came before.
#[derive(Clone, Debug)]
pub(super) struct Indirect {
    last: Vec<(u64, u64)>,
    tagged: Option<Box<Tagged>>,
}

impl Indirect {
    pub(super) fn new(entries: usize, spec: Option<&IndirectSpec>) -> Indirect {
        let tagged = spec.map(|spec| Box::new(Tagged::new(spec)));
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
struct Tagged {
    entries: Vec<Entry>,
    tables: usize,
    table_bits: u32,
    tag_mask: u32,
    history: History,
    indices: Folds,
    tags: Folds,
    failed: u32,
    random: u32,
}

/// Allocations that failed before all entries have to show their use anew. Assumption.
const PATIENCE: u32 = 256;

impl Tagged {
    fn new(spec: &IndirectSpec) -> Tagged {
        let lengths = geometric(spec.tables, spec.shortest_history, spec.longest_history);
        let table_bits = spec.entries.ilog2();
        Tagged {
            entries: vec![Entry::default(); spec.tables * spec.entries],
            tables: spec.tables,
            table_bits,
            tag_mask: (1 << spec.tag_bits) - 1,
            history: History::new(lengths),
            indices: Folds::new(lengths, table_bits),
            tags: Folds::new(lengths, spec.tag_bits),
            failed: 0,
            random: 1,
        }
    }

    fn push(&mut self, bit: bool) {
        self.history.push(bit, [&mut self.indices, &mut self.tags].into_iter());
    }

    /// `base`: whether the table without history would be right.
    fn is_right(&mut self, pc: u64, target: u64, base: bool) -> bool {
        let mixed = hash(pc) as u32;
        let index_mask = (1 << self.table_bits) - 1;
        let (mut places, mut tags) = ([0; MAX_TABLES], [0; MAX_TABLES]);
        let (mut provider, mut alternate) = (None, None);
        for n in 0..self.tables {
            let index = (mixed ^ mixed >> (n + 1) ^ self.indices.values[n]) & index_mask;
            places[n] = (n << self.table_bits) + index as usize;
            tags[n] =
                ((mixed.rotate_right(9) ^ mixed ^ self.tags.values[n]) & self.tag_mask) as u16;
            if self.entries[places[n]].tag == tags[n] {
                alternate = provider.replace(n);
            }
        }
        let of = |n: usize| self.entries[places[n]].target == target;
        let alternate = alternate.map_or(base, of);
        let right = provider.map_or(base, |n| {
            // What has been wrong as often as right is worth less than the shorter history.
            if self.entries[places[n]].sure == 0 {
                alternate
            } else {
                of(n)
            }
        });
        if let Some(n) = provider {
            let entry = &mut self.entries[places[n]];
            let was = entry.target == target;
            entry.useful |= was && !alternate;
            match (was, entry.sure) {
                (true, sure) => entry.sure = (sure + 1).min(3),
                (false, 0) => (entry.target, entry.useful) = (target, false),
                (false, sure) => entry.sure = sure - 1,
            }
        }
        if !right {
            self.allocate(provider.map_or(0, |n| n + 1), &places, &tags, target);
        }
        right
    }

    fn allocate(
        &mut self,
        first: usize,
        places: &[usize; MAX_TABLES],
        tags: &[u16; MAX_TABLES],
        target: u64,
    ) {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let skip = usize::from(self.random >> 31 != 0 && first + 1 < self.tables);
        for n in first + skip..self.tables {
            let entry = &mut self.entries[places[n]];
            if !entry.useful {
                *entry = Entry { target, tag: tags[n], sure: 1, useful: false };
                return;
            }
        }
        self.failed += 1;
        if self.failed == PATIENCE {
            self.failed = 0;
            self.entries.iter_mut().for_each(|entry| entry.useful = false);
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

    /// Whether it has the taken branch at `pc`; it does from now on.
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
