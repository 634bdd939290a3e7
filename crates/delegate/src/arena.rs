//! Memory of the library's own, so that it never enters the program's allocator, which may be the
//! one that has just called us, or may hold a lock that a signal handler interrupted.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

use halfwink_live::sys;

/// Bytes for the policies of all threads: about 30 KB each, and a place is used again.
const BYTES: usize = 32 << 20;

/// Only grows: what is freed is little, and the arena is bounded.
struct Arena {
    base: AtomicUsize,
    used: AtomicUsize,
}

#[global_allocator]
static ARENA: Arena = Arena { base: AtomicUsize::new(0), used: AtomicUsize::new(0) };

impl Arena {
    fn base(&self) -> Option<usize> {
        let base = self.base.load(Ordering::Acquire);
        if base != 0 {
            return Some(base);
        }
        let fresh = sys::map_memory(BYTES)? as usize;
        // Two threads at once, before there is a second one: the loser's pages are never touched.
        match self.base.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(fresh),
            Err(theirs) => Some(theirs),
        }
    }
}

// SAFETY: every block is handed out once, aligned, inside of the mapping.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(base) = self.base() else { return std::ptr::null_mut() };
        let size = layout.size() + layout.align();
        let at = self.used.fetch_add(size, Ordering::Relaxed);
        if at + size > BYTES {
            self.used.fetch_sub(size, Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        ((base + at).next_multiple_of(layout.align())) as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
