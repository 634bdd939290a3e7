//! TLBs that software fills, and the table in memory that it fills them from.

/// A page: which address space, and its number.
pub(super) type Page = (u64, u64);

/// A set-associative TLB. assumption: least recently used entries leave.
#[derive(Clone, Debug)]
pub(super) struct Tlb {
    ways: usize,
    /// Sets one after another, each with the most recently used entry first.
    entries: Vec<Option<Page>>,
}

impl Tlb {
    /// `entries` is a multiple of `ways`, and both are at least one.
    pub(super) fn new(entries: usize, ways: usize) -> Tlb {
        Tlb { ways, entries: vec![None; entries] }
    }

    /// True if the page was there; it is afterwards.
    #[inline]
    pub(super) fn access(&mut self, page: Page) -> bool {
        let sets = self.entries.len() / self.ways;
        let first = (page.1 % sets as u64) as usize * self.ways;
        let set = &mut self.entries[first..first + self.ways];
        if set[0] == Some(page) {
            return true;
        }
        let found = set.iter().position(|entry| *entry == Some(page));
        set[..=found.unwrap_or(self.ways - 1)].rotate_right(1);
        set[0] = Some(page);
        found.is_some()
    }
}

/// Translation storage buffers: a direct-mapped table for each address space.
#[derive(Clone, Debug)]
pub(super) struct Tsb {
    entries: usize,
    /// The last address spaces, the most recently used one first: those further back start anew.
    spaces: Vec<(u64, Vec<Option<u64>>)>,
}

/// Address spaces whose tables are kept.
const SPACES: usize = 64;

impl Tsb {
    pub(super) fn new(entries: usize) -> Tsb {
        Tsb { entries, spaces: Vec::new() }
    }

    /// True if the page was there; it is afterwards.
    pub(super) fn access(&mut self, (space, page): Page) -> bool {
        match self.spaces.iter().position(|(known, _)| *known == space) {
            Some(0) => {}
            Some(place) => self.spaces[..=place].rotate_right(1),
            None => {
                self.spaces.truncate(SPACES - 1);
                self.spaces.insert(0, (space, vec![None; self.entries]));
            }
        }
        let table = &mut self.spaces[0].1;
        let slot = (page % table.len() as u64) as usize;
        table[slot].replace(page) == Some(page)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tlb_evicts_the_least_recent_page_of_a_set() {
        // Two sets of two ways: even and odd pages.
        let mut tlb = Tlb::new(4, 2);
        let hits: Vec<bool> =
            [0, 2, 0, 4, 2, 1, 0].iter().map(|&page| tlb.access((7, page))).collect();
        // 0, 2 come; 0 hits; 4 throws 2 out, which throws 0 out; 1 is alone in its set.
        assert_eq!(hits, [false, false, true, false, false, false, false]);
        // The same page of another address space is another one.
        assert!(!tlb.access((8, 1)) && tlb.access((7, 1)));
    }

    #[test]
    fn a_buffer_forgets_by_conflict_and_by_age() {
        let mut tsb = Tsb::new(4);
        assert!(!tsb.access((1, 3)) && tsb.access((1, 3)));
        // 7 lies where 3 lay; another address space has a table of its own.
        assert!(!tsb.access((1, 7)) && !tsb.access((1, 3)) && !tsb.access((2, 3)));
        assert!(tsb.access((1, 3)));
        (10..10 + SPACES as u64).for_each(|space| {
            tsb.access((space, 0));
        });
        assert!(!tsb.access((1, 3)));
        assert_eq!(tsb.spaces.len(), SPACES);
    }

    proptest! {
        /// Against a naive model: each set is a list in order of use, searched from the end.
        #[test]
        fn as_a_list_in_order_of_use(
            shape in (0u32..4, 1usize..5),
            pages in prop::collection::vec((0u64..3, 0u64..40), 0..500),
        ) {
            let (sets, ways) = (1usize << shape.0, shape.1);
            let mut tlb = Tlb::new(sets * ways, ways);
            let mut lists: Vec<Vec<Page>> = vec![Vec::new(); sets];
            for page in pages {
                let list = &mut lists[page.1 as usize % sets];
                let known = list.iter().position(|&p| p == page);
                if let Some(at) = known {
                    list.remove(at);
                } else if list.len() == ways {
                    list.remove(0);
                }
                list.push(page);
                prop_assert_eq!(tlb.access(page), known.is_some());
            }
        }
    }
}
