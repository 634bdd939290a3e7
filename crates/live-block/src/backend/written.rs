//! Which pages of a device of memory were written, a bit each.
//!
//! A page that may hold anything has its bit set: whoever writes sets it after the bytes, whoever
//! clears a page does so before the bytes go. So a write and a clearing at the same time leave a
//! bit too many at worst, never one too few.

use std::io;
use std::sync::atomic::{fence, AtomicU64, Ordering};

use halfwink_live::sys;

use super::device::{append, Extent};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bitmap of written pages; its own pages take no memory until they are written.
#[derive(Debug)]
pub(super) struct Written {
    base: *const AtomicU64,
    words: usize,
}

// SAFETY: all that is there are atomic numbers.
unsafe impl Send for Written {}
// SAFETY: as above.
unsafe impl Sync for Written {}

impl Written {
    /// Creates the bitmap for `size` bytes.
    pub(super) fn new(size: u64) -> io::Result<Written> {
        let words = size.div_ceil(PAGE).div_ceil(64) as usize;
        let base = sys::map_memory(words * 8);
        let base = base.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Written { base: base.cast_const().cast(), words })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: our own mapping, zero at first, as long as we live.
        unsafe { std::slice::from_raw_parts(self.base, self.words) }
    }

    /// After a range was written.
    #[inline]
    pub(super) fn set(&self, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        // The bytes are there before a bit is looked at that says they are known already.
        fence(Ordering::SeqCst);
        for page in offset / PAGE..=(offset + length - 1) / PAGE {
            let (word, bit) = (&self.words()[(page / 64) as usize], 1 << (page % 64));
            if word.load(Ordering::SeqCst) & bit == 0 {
                word.fetch_or(bit, Ordering::SeqCst);
            }
        }
    }

    /// Before whole pages become zero.
    pub(super) fn clear(&self, first: u64, last: u64) {
        let mut page = first / PAGE;
        while page < last / PAGE {
            let (word, bit) = (&self.words()[(page / 64) as usize], page % 64);
            let count = (64 - bit).min(last / PAGE - page);
            let mask = (u64::MAX >> (64 - count)) << bit;
            word.fetch_and(!mask, Ordering::SeqCst);
            page += count;
        }
    }

    /// Adds the extents of a range, holes and others.
    pub(super) fn extents(&self, offset: u64, length: u64, most: usize, into: &mut Vec<Extent>) {
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let page = at / PAGE;
            let word = self.words()[(page / 64) as usize].load(Ordering::SeqCst);
            let rest = word >> (page % 64);
            let hole = rest & 1 == 0;
            let alike = if hole { rest.trailing_zeros() } else { rest.trailing_ones() };
            // Beyond the word's end nothing is known.
            let pages = u64::from(alike).min(64 - page % 64);
            let next = ((page + pages) * PAGE).min(end);
            append(into, next - at, hole);
            at = next;
            if into.len() > most {
                into.truncate(most);
                return;
            }
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody names any more.
        unsafe { sys::call3(libc::SYS_munmap, self.base as u64, self.words as u64 * 8, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(written: &Written, offset: u64, length: u64, most: usize) -> Vec<(u64, bool)> {
        let mut found = Vec::new();
        written.extents(offset, length, most, &mut found);
        found.iter().map(|extent| (extent.length, extent.hole)).collect()
    }

    #[test]
    fn pages_are_known_one_by_one_and_across_words() {
        let pages = 300u64;
        let written = Written::new(pages * PAGE).unwrap();
        assert_eq!(map(&written, 0, pages * PAGE, 9), [(pages * PAGE, true)]);
        written.set(5 * PAGE + 17, 1);
        written.set(60 * PAGE + 4095, 140 * PAGE);
        let all = [(5, true), (1, false), (54, true), (141, false), (99, true)];
        let all = all.map(|(pages, hole)| (pages * PAGE, hole));
        assert_eq!(map(&written, 0, pages * PAGE, 9), all);
        assert_eq!(map(&written, 0, pages * PAGE, 1), all[..1]);
        assert_eq!(map(&written, 5 * PAGE + 100, 5000, 9), [(3996, false), (1004, true)]);
        written.clear(62 * PAGE, 198 * PAGE);
        let left = [(54, true), (2, false), (136, true), (3, false), (99, true)];
        let left = left.map(|(pages, hole)| (pages * PAGE, hole));
        assert_eq!(map(&written, 6 * PAGE, (pages - 6) * PAGE, 9), left);
        written.set(0, 0);
        assert_eq!(map(&written, 0, PAGE, 9), [(PAGE, true)]);
    }

    #[test]
    fn a_writer_and_a_clearer_leave_no_bit_too_few() {
        let written = Written::new(PAGE).unwrap();
        let page = AtomicU64::new(0);
        for round in 1..2_000 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    page.store(round, Ordering::Relaxed);
                    written.set(0, 8);
                });
                written.clear(0, PAGE);
                page.store(0, Ordering::Relaxed);
            });
            let hole = map(&written, 0, PAGE, 1)[0].1;
            assert!(!hole || page.load(Ordering::Relaxed) == 0, "round {round}");
        }
    }
}
