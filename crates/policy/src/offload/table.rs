//! The predictor's memory: the last run length and a confidence for each AState.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Organisation of the table (Nellans 2014, Sec 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Organisation {
    /// Every entry can hold every AState, and the least recently trained one leaves (assumption:
    /// the text names no replacement).
    FullyAssociative {
        /// Number of entries: 200.
        entries: usize,
    },
    /// AState modulo the number of entries selects one, and nothing tells whose it is (assumption:
    /// the text names neither index nor tag).
    DirectMapped {
        /// Number of entries: 1,500.
        entries: usize,
    },
    /// Every AState is remembered: what any table can come close to. It alone allocates after
    /// construction.
    Unbounded,
}

impl Organisation {
    /// The 200 fully associative entries of the dissertation.
    pub const PUBLISHED_ASSOCIATIVE: Organisation = Organisation::FullyAssociative { entries: 200 };
    /// The 1,500 direct-mapped entries of the dissertation.
    pub const PUBLISHED_DIRECT: Organisation = Organisation::DirectMapped { entries: 1500 };

    /// Bits of memory, with 64-bit tags where there are any, lengths of `length_bits` and 2-bit
    /// confidence; `None` without bound.
    #[must_use]
    pub fn storage_bits(self, length_bits: u32) -> Option<u64> {
        let value = u64::from(length_bits) + 2;
        match self {
            Organisation::FullyAssociative { entries } => Some(entries as u64 * (64 + value)),
            Organisation::DirectMapped { entries } => Some(entries as u64 * value),
            Organisation::Unbounded => None,
        }
    }
}

/// Entry of one AState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// Length of its last run in instructions; zero if there was none, which no run has.
    pub(super) length: u64,
    /// Saturating, 0 to 3.
    pub(super) confidence: u8,
}

#[derive(Clone, Copy, Debug)]
struct Tagged {
    tag: u64,
    /// Number of the training that used it last.
    used: u64,
    cell: Cell,
}

#[derive(Clone, Debug)]
enum Cells {
    Associative { entries: usize, tagged: Vec<Tagged>, clock: u64 },
    Direct(Vec<Cell>),
    Unbounded(BTreeMap<u64, Cell>),
}

/// A table of any organisation.
#[derive(Clone, Debug)]
pub(super) struct Table(Cells);

impl Table {
    pub(super) fn new(organisation: Organisation) -> Table {
        Table(match organisation {
            Organisation::FullyAssociative { entries } => Cells::Associative {
                entries: entries.max(1),
                tagged: Vec::with_capacity(entries.max(1)),
                clock: 0,
            },
            Organisation::DirectMapped { entries } => {
                Cells::Direct(vec![Cell::default(); entries.max(1)])
            }
            Organisation::Unbounded => Cells::Unbounded(BTreeMap::new()),
        })
    }

    /// Returns the entry for this AState, which may belong to another one. The look-up changes
    /// nothing.
    #[inline]
    pub(super) fn find(&self, astate: u64) -> Option<Cell> {
        let cell = match &self.0 {
            Cells::Associative { tagged, .. } => {
                tagged.iter().find(|entry| entry.tag == astate).map(|entry| entry.cell)
            }
            Cells::Direct(cells) => Some(cells[slot(astate, cells.len())]),
            Cells::Unbounded(cells) => cells.get(&astate).copied(),
        };
        cell.filter(|cell| cell.length > 0)
    }

    /// The entry to train, which may be empty.
    pub(super) fn entry(&mut self, astate: u64) -> &mut Cell {
        match &mut self.0 {
            Cells::Associative { entries, tagged, clock } => {
                *clock += 1;
                let fresh = Tagged { tag: astate, used: *clock, cell: Cell::default() };
                let index = match tagged.iter().position(|entry| entry.tag == astate) {
                    Some(index) => index,
                    None if tagged.len() < *entries => {
                        tagged.push(fresh);
                        tagged.len() - 1
                    }
                    None => {
                        let oldest = tagged.iter().enumerate().min_by_key(|(_, e)| e.used);
                        let index = oldest.map_or(0, |(index, _)| index);
                        tagged[index] = fresh;
                        index
                    }
                };
                tagged[index].used = *clock;
                &mut tagged[index].cell
            }
            Cells::Direct(cells) => {
                let index = slot(astate, cells.len());
                &mut cells[index]
            }
            Cells::Unbounded(cells) => cells.entry(astate).or_default(),
        }
    }

    /// Entries that remember something.
    pub(super) fn used(&self) -> usize {
        match &self.0 {
            Cells::Associative { tagged, .. } => tagged.len(),
            Cells::Direct(cells) => cells.iter().filter(|cell| cell.length > 0).count(),
            Cells::Unbounded(cells) => cells.len(),
        }
    }
}

fn slot(astate: u64, entries: usize) -> usize {
    (astate % entries as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(table: &mut Table, astate: u64, length: u64) {
        table.entry(astate).length = length;
    }

    fn lengths(table: &Table, astates: &[u64]) -> Vec<Option<u64>> {
        astates.iter().map(|&a| table.find(a).map(|cell| cell.length)).collect()
    }

    #[test]
    fn the_least_recently_trained_leaves() {
        let mut table = Table::new(Organisation::FullyAssociative { entries: 3 });
        for (astate, length) in [(10, 1), (20, 2), (30, 3), (10, 4)] {
            put(&mut table, astate, length);
        }
        // Recency now: 20, 30, 10. Looking at 20 does not save it.
        assert_eq!(lengths(&table, &[20]), [Some(2)]);
        put(&mut table, 40, 5);
        assert_eq!(lengths(&table, &[10, 20, 30, 40]), [Some(4), None, Some(3), Some(5)]);
        put(&mut table, 50, 6);
        assert_eq!(lengths(&table, &[10, 30, 40, 50]), [Some(4), None, Some(5), Some(6)]);
        assert_eq!(table.used(), 3);
    }

    #[test]
    fn direct_mapped_entry_holds_last_astate() {
        let mut table = Table::new(Organisation::DirectMapped { entries: 1500 });
        put(&mut table, 7, 100);
        // 7 + 3 x 1500 falls on the same entry, 8 does not.
        assert_eq!(lengths(&table, &[7, 4507, 8]), [Some(100), Some(100), None]);
        put(&mut table, 4507, 200);
        assert_eq!(lengths(&table, &[7]), [Some(200)]);
        assert_eq!(table.used(), 1);
        // The whole AState counts: 2^63 = 308 (mod 1500).
        put(&mut table, 1 << 63, 300);
        assert_eq!(lengths(&table, &[308, 309]), [Some(300), None]);
    }

    #[test]
    fn without_bound_nothing_is_forgotten() {
        let mut table = Table::new(Organisation::Unbounded);
        (0..5_000).for_each(|astate| put(&mut table, astate, astate + 1));
        assert_eq!(
            lengths(&table, &[0, 1500, 4999, 5000]),
            [Some(1), Some(1501), Some(5000), None]
        );
        assert_eq!(table.used(), 5_000);
    }

    #[test]
    fn storage_is_as_published() {
        // Nellans 2014, Sec 4.6.2: 1.6 KB, which are the tags alone; with values it is 2,050 B.
        let associative = Organisation::PUBLISHED_ASSOCIATIVE;
        assert_eq!(associative.storage_bits(16), Some(16_400));
        let values = Organisation::DirectMapped { entries: 200 }.storage_bits(16).unwrap();
        assert_eq!((16_400 - values) / 8, 1_600);
        assert_eq!(Organisation::PUBLISHED_DIRECT.storage_bits(16), Some(8 * 3_375));
        assert_eq!(Organisation::Unbounded.storage_bits(16), None);
    }
}
