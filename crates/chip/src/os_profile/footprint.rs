//! Which lines were touched, and by whom.

use std::collections::HashMap;

use halfwink_units::{LINE_SHIFT, PAGE_SHIFT};

/// Distinct 64-byte lines that a trace touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Lines of user code alone.
    pub user: u64,
    /// Lines of the kernel alone.
    pub kernel: u64,
    /// Lines of both.
    pub shared: u64,
}

const PAGE_LINES: usize = 1 << (PAGE_SHIFT - LINE_SHIFT);
const RECENT: usize = 1024;

/// A byte per line of each page seen: bit 0 for user, bit 1 for kernel.
pub(super) struct Touched {
    pages: HashMap<u64, usize>,
    lines: Vec<[u8; PAGE_LINES]>,
    /// Pages found lately, so that most accesses hash nothing.
    recent: Box<[(u64, usize)]>,
}

impl Touched {
    pub(super) fn new() -> Touched {
        Touched {
            pages: HashMap::new(),
            lines: Vec::new(),
            recent: vec![(u64::MAX, 0); RECENT].into_boxed_slice(),
        }
    }

    #[inline]
    pub(super) fn touch(&mut self, line: u64, mode: usize) {
        let (page, n) = (line / PAGE_LINES as u64, line as usize % PAGE_LINES);
        let slot = page as usize % RECENT;
        if self.recent[slot].0 != page {
            self.recent[slot] = (page, self.find(page));
        }
        self.lines[self.recent[slot].1][n] |= 1 << mode;
    }

    fn find(&mut self, page: u64) -> usize {
        let next = self.lines.len();
        let index = *self.pages.entry(page).or_insert(next);
        if index == next {
            self.lines.push([0; PAGE_LINES]);
        }
        index
    }

    pub(super) fn footprint(&self) -> Footprint {
        let mut sums = [0u64; 4];
        for &who in self.lines.iter().flatten() {
            sums[usize::from(who)] += 1;
        }
        Footprint { user: sums[1], kernel: sums[2], shared: sums[3] }
    }
}
