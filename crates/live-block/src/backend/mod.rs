//! What holds the bytes.

mod file;
mod gate;
mod modelled;
mod ram;
mod written;

use std::io;

pub use file::{File, Io, Rings};
pub(crate) use gate::{is_whole, Closed, Gate};
pub(crate) use modelled::Draws;
pub use modelled::{Delay, Modelled};
pub use ram::Ram;

/// Memory of a device that is sent from where it is.
#[derive(Clone, Copy, Debug)]
pub struct Window(*const u8);

impl Window {
    /// The address of a byte.
    #[inline]
    #[must_use]
    pub fn at(self, offset: u64) -> *const u8 {
        self.0.wrapping_add(offset as usize)
    }
}

/// How a device's bytes are moved.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Way {
    /// `memory`, `sync` (a call for each), `uring`.
    pub io: &'static str,
    /// Whole blocks go past the page cache.
    pub direct: bool,
    /// Why it is not what was asked for.
    pub fell_back: Option<String>,
}

/// Bytes that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub length: u64,
    /// Nothing is stored for them, and they read as zero.
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

    /// Its memory, if that is all it is: replies are then sent from there.
    fn window(&self) -> Option<Window> {
        None
    }

    /// How long it takes, if it only pretends to be a device: I/Os are heard of so much later.
    fn delay(&self) -> Option<Delay> {
        None
    }

    /// A file that each thread may also read and write by an io_uring of its own.
    fn rings(&self) -> Option<&Rings> {
        None
    }

    /// How its bytes are moved.
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

    /// What of a range is a hole: `most` extents at most, from its beginning on, one at least. What
    /// was answered is not in a hole unless it was zeroed since.
    ///
    /// # Errors
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

    /// Whether [`Backend::flush`] may take its time, so that nobody else should wait for it.
    fn is_flushed_slowly(&self) -> bool {
        false
    }

    /// All that was answered is on stable storage, as far as this kind of device has any.
    ///
    /// # Errors
    /// The system's.
    fn flush(&self) -> io::Result<()>;
}
