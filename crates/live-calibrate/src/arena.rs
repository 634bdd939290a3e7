//! Memory to measure in: small pages or huge ones, and orders to walk through it.

use std::io;
use std::ptr::NonNull;

/// A huge page of x86-64.
pub const HUGE: usize = 2 << 20;
/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A mapping of its own, all of it touched.
#[derive(Debug)]
pub struct Arena {
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    base: NonNull<u8>,
    bytes: usize,
}

impl Arena {
    /// Maps `bytes` bytes, in huge pages if the kernel allows them, or in small ones.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(bytes: usize, huge: bool) -> io::Result<Arena> {
        let bytes = bytes.max(1).next_multiple_of(HUGE);
        let mapped_bytes = bytes + HUGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes.
        let mapped =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, rights, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped = NonNull::new(mapped.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        let skip = mapped.as_ptr().align_offset(HUGE);
        // SAFETY: `skip` is below HUGE, by which the mapping is longer.
        let base = unsafe { mapped.add(skip) };
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: within the mapping; a kernel without huge pages refuses, and that is all.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, advice) };
        let arena = Arena { mapped, mapped_bytes, base, bytes };
        for at in (0..bytes).step_by(PAGE) {
            arena.write(at, 1);
        }
        Ok(arena)
    }

    /// Returns the first byte.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes a word.
    ///
    /// # Panics
    /// If it does not lie inside.
    pub fn write(&self, at: usize, value: u64) {
        assert!(at + 8 <= self.bytes, "outside of the arena");
        // SAFETY: inside; volatile, since machine code reads it that the compiler does not see.
        unsafe { self.base.as_ptr().add(at).cast::<u64>().write_volatile(value) }
    }

    /// Address of a byte.
    #[must_use]
    pub fn address(&self, at: usize) -> u64 {
        self.base.as_ptr() as u64 + at as u64
    }

    /// Makes words point to one another, the last to the first.
    pub fn link(&self, places: &[usize]) {
        for (n, &at) in places.iter().enumerate() {
            self.write(at, self.address(places[(n + 1) % places.len()]));
        }
    }

    /// Returns the share of the first bytes in huge pages, as the kernel counts (0..=1); none if it
    /// does not report it.
    #[must_use]
    pub fn huge_share(&self) -> Option<f64> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = self.base() as u64;
        let mut inside = false;
        let mut kb = 0.0;
        for line in text.lines() {
            let range = line.split_whitespace().next()?;
            if let Some((low, high)) = range.split_once('-') {
                let ends = (u64::from_str_radix(low, 16), u64::from_str_radix(high, 16));
                if let (Ok(low), Ok(high)) = ends {
                    inside = low < start + self.bytes as u64 && start < high;
                }
            } else if inside && line.starts_with("AnonHugePages:") {
                kb += line.split_whitespace().nth(1)?.parse::<f64>().ok()?;
            }
        }
        Some((kb * 1024.0 / self.bytes as f64).min(1.0))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference to it is left.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// Numbers that are the same in every run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `bound` (xorshift64*: Vigna, 2016).
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (high as usize * bound.max(1)) >> 32
    }

    /// Shuffles into an order that no prefetcher follows.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for n in (1..items.len()).rev() {
            items.swap(n, self.below(n + 1));
        }
    }
}

/// All lines of the first bytes, shuffled.
#[must_use]
pub fn lines(bytes: usize, seed: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..bytes / LINE).map(|n| n * LINE).collect();
    Random::new(seed).shuffle(&mut places);
    places
}

/// One line of each of so many pages, shuffled; lines by turns, so that they spread over the sets
/// of the caches.
#[must_use]
pub fn pages(count: usize, seed: u64) -> Vec<usize> {
    let mut places: Vec<usize> =
        (0..count).map(|n| n * PAGE + (n * 29 + n / 64) % 64 * LINE).collect();
    Random::new(seed).shuffle(&mut places);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_visits_every_line_once() {
        let mut places = lines(1 << 16, 3);
        assert_ne!(places, lines(1 << 16, 4));
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(n, &at)| at == n * LINE));
    }

    #[test]
    fn pages_spread_over_the_sets() {
        let places = pages(4096, 1);
        let mut of_set = [0; 64];
        places.iter().for_each(|at| of_set[at / LINE % 64] += 1);
        assert!(of_set.iter().all(|&n| n == 64), "{of_set:?}");
    }
}
