//! A device as connections see it: bytes from zero to its size.

use std::io;

use super::modelled::Delay;
use super::rings::Rings;

/// Memory of a device that is sent from where it is.
#[derive(Clone, Copy, Debug)]
pub struct Window(pub(super) *const u8);

impl Window {
    /// The address of a byte.
    #[inline]
    #[must_use]
    pub fn at(self, offset: u64) -> *const u8 {
        self.0.wrapping_add(offset as usize)
    }
}

/// Way in which a device's bytes are moved.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Way {
    /// `memory`, `sync` (a call for each), `uring`.
    pub io: &'static str,
    /// Whole blocks go past the page cache.
    pub direct: bool,
    /// Reason why it differs from the request.
    pub fell_back: Option<String>,
}

/// Bytes that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of bytes.
    pub length: u64,
    /// Marks a hole: no data is stored, and the bytes read as zero.
    pub hole: bool,
}

/// Appends to the last extent, if it is alike.
pub(crate) fn append(extents: &mut Vec<Extent>, length: u64, hole: bool) {
    match extents.last_mut() {
        Some(last) if last.hole == hole => last.length += length,
        _ if length == 0 => {}
        _ => extents.push(Extent { length, hole }),
    }
}

/// A device: bytes from zero to its size. Ranges that it is asked for lie within.
///
/// All calls may come from several threads at once. What was answered is seen by every later call;
/// what is asked for at the same time comes in any order, each byte for itself.
pub trait Backend: Send + Sync {
    /// Bytes that it has.
    fn size(&self) -> u64;

    /// Returns the device's memory, if it is only that: replies are then sent from there.
    fn window(&self) -> Option<Window> {
        None
    }

    /// Returns the latency of a modelled device, by which completions are delayed.
    fn delay(&self) -> Option<Delay> {
        None
    }

    /// A file that each thread may also read and write by an io_uring of its own.
    fn rings(&self) -> Option<&Rings> {
        None
    }

    /// Returns the way in which its bytes are moved.
    fn way(&self) -> Way {
        Way { io: "memory", direct: false, fell_back: None }
    }

    /// Fills `into`.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Takes all of `from`. Pieces of one request end at multiples of 4 KiB.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Makes a range zero. `keep`: its room stays its own; `fast`: only if that is faster than
    /// writing.
    ///
    /// # Errors
    /// The system's; `EOPNOTSUPP` if it is not fast.
    fn zero(&self, offset: u64, length: u64, keep: bool, fast: bool) -> io::Result<()>;

    /// A range is not needed any more; it may read as anything, and reads as zero here.
    ///
    /// # Errors
    /// The system's.
    fn trim(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Finds holes in a range: adds at most `most` extents from its beginning on, at least one.
    /// Data whose write was answered is not reported as a hole unless it was zeroed since.
    ///
    /// # Errors
    ///
    /// The system's.
    fn extents(
        &self,
        (_offset, length): (u64, u64),
        _most: usize,
        into: &mut Vec<Extent>,
    ) -> io::Result<()> {
        into.push(Extent { length, hole: false });
        Ok(())
    }

    /// A range will be needed soon.
    fn cache(&self, _offset: u64, _length: u64) {}

    /// Returns whether [`Backend::flush`] may be slow, so that no other request should wait for it.
    fn is_flushed_slowly(&self) -> bool {
        false
    }

    /// All that was answered is on stable storage, as far as this kind of device has any.
    ///
    /// # Errors
    /// The system's.
    fn flush(&self) -> io::Result<()>;
}
