//! The numbers of one direction of one key, and how far a record beyond this process lets them go.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::replay::Replay;
use crate::counters::DropReason;

/// Told that more numbers are wanted; at most once until it was heard or they are given, by a
/// worker, so that it must neither wait nor fail.
pub type Bell = Box<dyn Fn() + Send + Sync>;

/// Sequence numbers of one direction of an association, shared by all workers and by the keeper of
/// their record: a handle, whose clones share the same numbers.
///
/// Numbers above the limit are never used, and the limit is raised only after the record holds it.
/// So after a crash at any time, all used numbers are at or below the recorded limit.
#[derive(Clone)]
pub struct Numbers(Arc<Inner>);

struct Inner {
    /// The last number that was given out, or the highest that was accepted.
    used: AtomicU64,
    /// Numbers up to this one are recorded. Inbound: changed with the window locked.
    limit: AtomicU64,
    /// Number of unused ones at or below which a worker requests more.
    low: AtomicU64,
    asked: AtomicBool,
    /// The highest authentic number that came beyond the limit.
    beyond: AtomicU64,
    iv_base: u64,
    window: Mutex<Replay>,
    bell: Option<Bell>,
}

impl Numbers {
    /// Numbers that go on after `used`. All at or below it count as used: none is given out, none
    /// is accepted. None can be used before [`Numbers::raise`].
    ///
    /// The initialisation vector of number n is `iv_base` + n (modulo 2^64): no clock, and no two
    /// alike.
    #[must_use]
    pub fn after(used: u64, iv_base: u64, bell: Bell) -> Numbers {
        Numbers::new(used, used, iv_base, Some(bell))
    }

    /// Numbers from 1 of which no record is kept: for keys that no other process ever has, as in
    /// tests and measurements.
    #[must_use]
    pub fn unkept(iv_base: u64) -> Numbers {
        Numbers::new(0, u64::MAX, iv_base, None)
    }

    fn new(used: u64, limit: u64, iv_base: u64, bell: Option<Bell>) -> Numbers {
        Numbers(Arc::new(Inner {
            used: AtomicU64::new(used),
            limit: AtomicU64::new(limit),
            low: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            beyond: AtomicU64::new(0),
            iv_base,
            window: Mutex::new(Replay::after(used)),
            bell,
        }))
    }

    /// The highest number that was used.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Acquire)
    }

    /// The highest number that is wanted: used, or turned away since it was beyond the limit.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.used().max(self.0.beyond.load(Ordering::Acquire))
    }

    /// The highest number that may be used.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Acquire)
    }

    /// Numbers up to `limit` may be used now: the record has it already. With `low` of them left,
    /// the bell rings.
    pub fn raise(&self, limit: u64, low: u64) {
        let _window = self.window();
        self.0.low.store(low, Ordering::Relaxed);
        self.0.limit.fetch_max(limit, Ordering::Release);
        self.0.asked.store(false, Ordering::Release);
    }

    /// Acknowledges the bell, so that it rings again for later requests. Call this before reading
    /// [`Numbers::wanted`], even if nothing turns out to be wanted: a worker that saw the limit
    /// before the last raise requests numbers that are there already, and would otherwise suppress
    /// all later requests.
    pub fn heard(&self) {
        // Who asked before has its number in `wanted` by now; who asks later rings.
        self.0.asked.swap(false, Ordering::AcqRel);
    }

    /// Inbound: gives numbers above `limit` back, none of which is accepted from now on, so that
    /// the record may say so. `None`, and nothing changes, if one of them has been.
    #[must_use]
    pub fn lower(&self, limit: u64, low: u64) -> Option<u64> {
        let window = self.window();
        if limit < window.top || limit >= self.limit() {
            return None;
        }
        self.0.low.store(low, Ordering::Relaxed);
        self.0.limit.store(limit, Ordering::Release);
        Some(limit)
    }

    /// The end: nothing is used from now on. What was used is returned, for the record.
    #[must_use]
    pub fn close(&self) -> u64 {
        let _window = self.window();
        let used = self.used();
        // What is taken meanwhile is above `used`, and so is what the swap says.
        let used = used.max(self.0.used.swap(u64::MAX, Ordering::AcqRel));
        self.0.limit.store(0, Ordering::Release);
        used
    }

    /// The next number, none beyond `most`: a counter must never come round (RFC 4303, 3.3.3).
    ///
    /// # Errors
    ///
    /// All are used, or those that are recorded are.
    #[inline]
    pub fn take(&self, most: u64) -> Result<u64, DropReason> {
        let inner = &*self.0;
        // An old limit is a lower one.
        let limit = inner.limit.load(Ordering::Acquire);
        // Not `fetch_add`: a number beyond the last must not be one that the next call is given.
        let taken = inner.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |last| {
            (last < most && last < limit).then(|| last + 1)
        });
        match taken {
            Ok(last) => {
                self.look(limit - (last + 1));
                Ok(last + 1)
            }
            Err(last) if last >= most => Err(DropReason::EspExhausted),
            Err(_) => {
                self.look(0);
                Err(DropReason::EspUnreserved)
            }
        }
    }

    /// The whole of an inbound number whose low half is `low`, unless it cannot be new.
    pub(super) fn whole(&self, low: u32, extended: bool) -> Option<u64> {
        self.window().number(low, extended)
    }

    /// Notes the number of an authentic packet.
    ///
    /// # Errors
    ///
    /// It came before, or is too old, or is beyond those that are recorded.
    pub fn accept(&self, number: u64) -> Result<(), DropReason> {
        let inner = &*self.0;
        let mut window = self.window();
        let limit = inner.limit.load(Ordering::Acquire);
        if number > limit {
            // Nobody but the key's holder can write a number that comes here.
            inner.beyond.fetch_max(number, Ordering::AcqRel);
            drop(window);
            self.look(0);
            return Err(DropReason::EspUnrecorded);
        }
        if !window.accept(number) {
            return Err(DropReason::EspReplay);
        }
        let top = window.top;
        inner.used.store(top, Ordering::Release);
        drop(window);
        self.look(limit - top);
        Ok(())
    }

    /// The initialisation vector of a number.
    #[inline]
    #[must_use]
    pub fn iv(&self, number: u64) -> [u8; 8] {
        self.0.iv_base.wrapping_add(number).to_be_bytes()
    }

    /// Rings if so few are left.
    #[inline]
    fn look(&self, left: u64) {
        if left <= self.0.low.load(Ordering::Relaxed) {
            self.ask();
        }
    }

    #[cold]
    fn ask(&self) {
        let Some(bell) = &self.0.bell else { return };
        if !self.0.asked.swap(true, Ordering::AcqRel) {
            bell();
        }
    }

    fn window(&self) -> MutexGuard<'_, Replay> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state as if numbers up to `used` had been used.
    #[cfg(test)]
    pub(super) fn set_used(&self, used: u64) {
        self.0.used.store(used, Ordering::Release);
        *self.window() = Replay { top: used, seen: 1 };
    }
}

/// Equal if they are the same numbers.
impl PartialEq for Numbers {
    fn eq(&self, other: &Numbers) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Numbers {}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Numbers({} of {})", self.used(), self.limit())
    }
}
