//! How much an association may carry before it has to be replaced (RFC 4301, 4.4.2.1).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::counters::DropReason;

/// Limit of the data that an association may carry: a handle, whose clones share one account. The
/// default has no limit, and costs a packet nothing.
#[derive(Clone, Default)]
pub struct Lifetime(Option<Arc<Inner>>);

struct Inner {
    /// Sequence numbers beyond this one are not used: packets are counted by them, so that the
    /// count outlives the process as they do.
    packets: u64,
    /// Bytes of IP packets with ESP in them.
    bytes: u64,
    carried: AtomicU64,
}

impl Lifetime {
    /// `packets` and `bytes` at most (`u64::MAX`: any), of which `carried` bytes are gone already.
    #[must_use]
    pub fn new(packets: u64, bytes: u64, carried: u64) -> Lifetime {
        if (packets, bytes) == (u64::MAX, u64::MAX) {
            return Lifetime::default();
        }
        Lifetime(Some(Arc::new(Inner { packets, bytes, carried: AtomicU64::new(carried) })))
    }

    /// Returns the bytes carried; 0 without a limit, since they are not counted then.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.carried.load(Ordering::Relaxed))
    }

    /// Accounts for one more packet.
    ///
    /// # Errors
    ///
    /// It would be more than is allowed, and counts for nothing.
    #[inline]
    pub(super) fn carry(&self, number: u64, bytes: usize) -> Result<(), DropReason> {
        let Some(inner) = &self.0 else { return Ok(()) };
        if number > inner.packets {
            return Err(DropReason::EspExpired);
        }
        let more = |carried: u64| {
            carried.checked_add(bytes as u64).filter(|&carried| carried <= inner.bytes)
        };
        let counted = inner.carried.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.map(drop).map_err(|_| DropReason::EspExpired)
    }
}

/// Equal if they are the same account.
impl PartialEq for Lifetime {
    fn eq(&self, other: &Lifetime) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Lifetime {}

impl fmt::Debug for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => write!(f, "Lifetime(any)"),
            Some(inner) => {
                let (packets, bytes) = (inner.packets, inner.bytes);
                write!(f, "Lifetime({packets} packets, {} of {bytes} bytes)", self.carried())
            }
        }
    }
}
