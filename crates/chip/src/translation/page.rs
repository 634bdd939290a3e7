//! Pages, and where their table entries lie.
//!
//! A recording has both addresses of every access, and no page tables. So tables are made up: a
//! radix tree of four levels with 512 entries of eight bytes in a table (Intel SDM vol. 3A, Sec
//! 4.5), each table in a frame of its own that its place in the tree and its address space decide
//! by a hash, as frames that a kernel gives out lie anywhere. Entries of neighbouring pages share
//! lines, as they do in truth.
//!
//! Whether a page was a large one is not recorded either. **A page counts as 2 MB where the machine
//! allows it and both addresses agree in their lowest 21 bits**: that holds of all of the kernel's
//! text and direct map, and of a page that is not large once in 512.

use halfwink_units::{Asid, LINE_SHIFT, PAGE_SHIFT};

use crate::lines::{memory_base, memory_of};
use crate::spread::spread;

/// Bits of a line's number within a page.
const LINES: u32 = PAGE_SHIFT - LINE_SHIFT;
/// Bits of an index into a table.
const INDEX: u32 = 9;
/// Lines within a 2 MB page.
const LARGE_LINES: u64 = (1 << (LINES + INDEX)) - 1;
/// Bits of a page's number below the one that is set in the kernel's half of 48-bit addresses.
const NUMBER: u32 = 35;
const LARGE: u64 = 1 << (NUMBER + 1);
const KERNEL_HALF: u64 = 1 << NUMBER;
const SPACE_SHIFT: u32 = NUMBER + 2;
/// Bits that distinguish address spaces, as many as PCIDs have.
const ASID_BITS: u32 = 12;
/// Page tables lie in the upper half of a thread's memory, which no recording reaches.
const TABLES: u64 = 1 << 41;
const FRAME_BITS: u32 = 41 - LINES;

/// Levels of the tree; level 0 holds the entries of 4 KB pages, level 1 those of 2 MB pages.
pub(crate) const LEVELS: usize = 4;

/// An address space: whose, and which of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    memory: u64,
    asid: u64,
}

impl Space {
    /// The first space of the memory that begins with this line.
    pub(crate) fn of(memory: u64) -> Space {
        Space { memory: memory_of(memory) as u64, asid: 0 }
    }

    /// Other page tables of the same memory.
    pub(crate) fn switched(self, asid: Asid) -> Space {
        Space { asid: spread(asid.0.wrapping_add(1)) >> (u64::BITS - ASID_BITS), ..self }
    }

    /// Returns the space in the memory that begins with this line.
    pub(crate) fn in_memory(self, memory: u64) -> Space {
        Space { memory: memory_of(memory) as u64, ..self }
    }
}

/// Which sizes of pages the two privileges' mappings have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// User and kernel addresses.
    pub(crate) large: [bool; 2],
}

/// A page of an address space, as translation buffers know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page(pub(crate) u64);

impl Page {
    /// The page of an access to this virtual address, which is in this physical line.
    #[inline]
    pub(crate) fn of(space: Space, virt: u64, line: u64, sizes: Sizes) -> Page {
        let kernel = virt >> 63 != 0;
        let half = if kernel { KERNEL_HALF } else { 0 };
        // Kernel pages are global: the same in all spaces of a memory.
        let asid = if kernel { 0 } else { space.asid };
        let tag = (space.memory << ASID_BITS | asid) << SPACE_SHIFT | half;
        let number = virt >> PAGE_SHIFT & (KERNEL_HALF - 1);
        let agree = (virt >> LINE_SHIFT ^ line) & LARGE_LINES == 0;
        if sizes.large[usize::from(kernel)] && agree {
            Page(tag | LARGE | number >> INDEX)
        } else {
            Page(tag | number)
        }
    }

    /// The page of an access's last byte, if its first and last lines are these.
    #[inline]
    pub(crate) fn last(self, first: u64, last: u64) -> Page {
        let within = if self.is_large() { LARGE_LINES } else { (1 << LINES) - 1 };
        if first != last && first & within == within {
            // At worst the last page of all space is followed by a place that nobody uses.
            Page(self.0 + 1)
        } else {
            self
        }
    }

    #[inline]
    pub(crate) fn is_large(self) -> bool {
        self.0 & LARGE != 0
    }

    /// Mapped in all spaces alike.
    pub(crate) fn is_global(self) -> bool {
        self.0 & KERNEL_HALF != 0
    }

    /// The level that holds its entry.
    pub(crate) fn leaf(self) -> usize {
        usize::from(self.is_large())
    }

    /// The entry at a level on the way to it, told apart from all others of that level.
    pub(crate) fn entry(self, level: usize) -> u64 {
        let below = INDEX * (level - self.leaf()) as u32;
        let number = self.0 & (KERNEL_HALF - 1);
        self.0 & !(LARGE | KERNEL_HALF - 1) | number >> below
    }

    /// The line of that entry.
    pub(crate) fn entry_line(self, level: usize) -> u64 {
        let entry = self.entry(level);
        let memory = memory_base((self.0 >> (SPACE_SHIFT + ASID_BITS)) as usize);
        let frame = spread(entry >> INDEX ^ (level as u64 + 1) << 60) >> (u64::BITS - FRAME_BITS);
        let in_table = (entry & ((1 << INDEX) - 1)) >> 3;
        memory | TABLES | frame << LINES | in_table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Sizes = Sizes { large: [false, false] };
    const KERNEL: Sizes = Sizes { large: [false, true] };

    #[test]
    fn neighbouring_pages_share_lines_of_their_tables() {
        let page = |n: u64| Page::of(Space::of(0), n << 12, n << 6, SMALL);
        let lines: Vec<u64> = (0..1024).map(|n| page(n).entry_line(0)).collect();
        // Eight entries of eight bytes to a line; 64 lines to a table; two tables.
        for n in 0..1024 {
            let neighbour = n / 512 == (n ^ 7) / 512;
            assert_eq!(lines[n] == lines[n ^ 7], neighbour);
        }
        let distinct: std::collections::BTreeSet<u64> = lines.iter().copied().collect();
        assert_eq!(distinct.len(), 128);
        assert_eq!(page(0).entry_line(1), page(1023).entry_line(1));
        assert_ne!(page(0).entry_line(1), page(0).entry_line(2));
        assert!(distinct.iter().all(|line| line & TABLES != 0 && line >> 42 == 0));
    }

    #[test]
    fn a_page_is_large_where_both_addresses_agree() {
        let space = Space::of(0);
        let text = 0xffff_ffff_8100_0000u64;
        let page = |phys: u64, sizes| Page::of(space, text + 0x1234, phys >> 6, sizes);
        assert!(page(0x0600_1234, KERNEL).is_large());
        assert!(!page(0x0600_1234, SMALL).is_large());
        assert!(!page(0x0600_2234, KERNEL).is_large());
        let user = Page::of(space, 0x40_1234, 0x40_1234 >> 6, KERNEL);
        assert!(!user.is_large() && !user.is_global() && page(0x0600_1234, KERNEL).is_global());
        assert_eq!((user.leaf(), page(0x0600_1234, KERNEL).leaf()), (0, 1));
    }

    #[test]
    fn spaces_have_pages_and_tables_of_their_own_but_for_the_kernels() {
        let (a, b) = (Space::of(0), Space::of(0).switched(Asid(7)));
        let user = |space| Page::of(space, 0x5000, 9 << 6, SMALL);
        let kernel = |space| Page::of(space, 0xffff_8880_0000_5000, 9 << 6, SMALL);
        assert_ne!(user(a), user(b));
        assert_ne!(user(a).entry_line(0), user(b).entry_line(0));
        assert_eq!(kernel(a), kernel(b));
        let other = b.in_memory(memory_base(3));
        assert_ne!(kernel(other), kernel(b));
        assert_eq!(memory_of(kernel(other).entry_line(0)), 3);
    }

    #[test]
    fn an_access_reaches_into_the_next_page_from_the_last_line() {
        let page = Page::of(Space::of(0), 0x5fff, 0x5fff >> 6, SMALL);
        let line = 0x5fffu64 >> 6;
        assert_eq!(page.last(line, line + 1), Page(page.0 + 1));
        assert_eq!(page.last(line, line), page);
        assert_eq!(page.last(line - 1, line), page);
    }
}
