//! Memory that a ring reads into and writes from: aligned to pages, bounded, and given back when
//! the reply has left, whichever thread sends it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use halfwink_live::sys;

/// Bytes and number of slots of each kind: 2 MiB for blocks, 4 MiB for longer requests. Pages that
/// were never used take no memory.
const KINDS: [(usize, u32); 2] = [(4 << 10, 512), (64 << 10, 64)];
/// The longest that fits.
pub(crate) const LONGEST: u32 = 64 << 10;

/// Slots of a thread.
#[derive(Debug)]
pub(crate) struct Pool {
    base: *mut u8,
    free: [Mutex<Vec<u32>>; 2],
}

// SAFETY: a slot is its lease's alone.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// A slot, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    kind: usize,
    number: u32,
}

fn all() -> usize {
    KINDS.iter().map(|&(bytes, count)| bytes * count as usize).sum()
}

impl Pool {
    pub(crate) fn new() -> io::Result<Arc<Pool>> {
        let base = sys::map_memory(all());
        let base = base.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // The first are taken first, and stay warm.
        let free = KINDS.map(|(_, count)| Mutex::new((0..count).rev().collect()));
        Ok(Arc::new(Pool { base, free }))
    }

    /// Room for so many bytes, if there is any.
    pub(crate) fn lease(self: &Arc<Pool>, bytes: u32) -> Option<Lease> {
        let kind = KINDS.iter().position(|&(most, _)| bytes as usize <= most)?;
        let number = self.free(kind).pop()?;
        Some(Lease { pool: Arc::clone(self), kind, number })
    }

    fn free(&self, kind: usize) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.free[kind].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Returns the first byte: mapped, and the caller's alone, for as long as the lease lives.
    pub(crate) fn at(&self) -> *mut u8 {
        let (bytes, _) = KINDS[self.kind];
        let before = if self.kind == 0 { 0 } else { KINDS[0].0 * KINDS[0].1 as usize };
        self.pool.base.wrapping_add(before + bytes * self.number as usize)
    }

    /// Returns the first `length` bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= KINDS[self.kind].0, "it was asked for so much");
        // SAFETY: a slot of ours, so long at least; the kernel is done with it or has not begun.
        unsafe { std::slice::from_raw_parts_mut(self.at(), length) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.free(self.kind).push(self.number);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: our own mapping; every lease holds the pool, so that none is left.
        unsafe { sys::call3(libc::SYS_munmap, self.base as u64, all() as u64, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart_aligned_bounded_and_come_back() {
        let pool = Pool::new().unwrap();
        for (bytes, count) in [(512, 512), (4097, 64)] {
            let mut leases: Vec<Lease> = (0..count).map(|_| pool.lease(bytes).unwrap()).collect();
            assert!(pool.lease(bytes).is_none());
            for (n, lease) in leases.iter_mut().enumerate() {
                assert!((lease.at() as usize).is_multiple_of(4096));
                lease.bytes(bytes as usize).fill(n as u8);
            }
            for (n, lease) in leases.iter_mut().enumerate() {
                assert!(lease.bytes(bytes as usize).iter().all(|&byte| byte == n as u8));
            }
            leases.pop();
            assert!(pool.lease(bytes).is_some());
        }
        assert!(pool.lease(LONGEST).is_some());
        assert!(pool.lease(LONGEST + 1).is_none());
    }
}
