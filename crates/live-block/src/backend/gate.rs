//! Who may go past the page cache while somebody writes a part of a page.
//!
//! A part of a page is written through the page cache, which reads the page, changes it and writes
//! all of it back later. A write past the cache that is under way on the same page meanwhile would
//! be lost. So whoever writes a part waits until no such write is under way, and none begins before
//! it is done; from then on the kernel itself writes the page back before it lets one pass.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Returns whether a range is whole pages, so that no byte of another request shares one with it.
pub(crate) fn is_whole(offset: u64, length: u64) -> bool {
    (offset | length).is_multiple_of(PAGE)
}

/// Counts both kinds of writes.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    under_way: Mutex<UnderWay>,
    none_direct: Condvar,
}

#[derive(Debug, Default)]
struct UnderWay {
    direct: u32,
    parts: u32,
}

/// While it lives, no write past the cache begins.
#[derive(Debug)]
pub(crate) struct Closed(Arc<Gate>);

impl Gate {
    fn locked(&self) -> std::sync::MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a write may bypass the cache now; if so, [`Gate::leave`] has to follow.
    pub(crate) fn enter(&self) -> bool {
        let mut under_way = self.locked();
        let may = under_way.parts == 0;
        under_way.direct += u32::from(may);
        may
    }

    /// A write past the cache is done.
    pub(crate) fn leave(&self) {
        let mut under_way = self.locked();
        under_way.direct -= 1;
        if under_way.direct == 0 {
            self.none_direct.notify_all();
        }
    }

    /// Waits until no write past the cache is under way. The caller must not have one itself.
    pub(crate) fn close(self: &Arc<Gate>) -> Closed {
        let mut under_way = self.locked();
        under_way.parts += 1;
        while under_way.direct > 0 {
            under_way = self.none_direct.wait(under_way).unwrap_or_else(PoisonError::into_inner);
        }
        drop(under_way);
        Closed(Arc::clone(self))
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.locked().parts -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_part_waits_for_all_and_lets_none_begin() {
        let gate = Arc::new(Gate::default());
        assert!(gate.enter() && gate.enter());
        let left = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let part = scope.spawn(|| {
                let closed = gate.close();
                assert!(left.load(Ordering::SeqCst), "a write past the cache was under way");
                assert!(!gate.enter());
                drop(closed);
            });
            while gate.locked().parts == 0 {
                std::thread::yield_now();
            }
            assert!(!gate.enter());
            gate.leave();
            left.store(true, Ordering::SeqCst);
            gate.leave();
            part.join().unwrap();
        });
        assert!(gate.enter());
        gate.leave();
    }

    #[test]
    fn pages_are_whole_or_not() {
        assert!(is_whole(0, 4096) && is_whole(8192, 65_536));
        assert!(!is_whole(512, 4096) && !is_whole(4096, 100));
    }
}
