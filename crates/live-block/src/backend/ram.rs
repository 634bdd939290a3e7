//! Memory of this process.

use std::arch::asm;
use std::io;

use halfwink_live::sys;

use super::device::{Backend, Extent, Window};
use super::written::Written;

/// A device of fresh memory, zero at first; pages that were never written take none.
///
/// Bytes are moved by the processor's own string instructions and by the kernel, never through
/// references: clients may write bytes that others read at the same time, and then get any mixture,
/// as from any disk.
#[derive(Debug)]
pub struct Ram {
    base: *mut u8,
    size: u64,
    written: Written,
}

// SAFETY: nobody holds a reference into the memory; see above.
unsafe impl Send for Ram {}
// SAFETY: as above.
unsafe impl Sync for Ram {}

/// Moves bytes where others may look at the same time.
///
/// # Safety
/// Both ranges must be mapped, and may not overlap.
#[inline]
unsafe fn move_bytes(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: by the caller; the direction flag is clear by the ABI.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

impl Ram {
    /// Creates a device of `size` bytes.
    ///
    /// # Errors
    /// There is no room for them in the process.
    pub fn new(size: u64) -> io::Result<Ram> {
        let bytes = usize::try_from(size).ok().filter(|&bytes| bytes > 0);
        let base = bytes.and_then(sys::map_memory);
        let base = base.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Ram { base, size, written: Written::new(size)? })
    }

    fn at(&self, offset: u64, length: usize) -> *mut u8 {
        assert!(offset + length as u64 <= self.size, "ranges are checked when they come");
        self.base.wrapping_add(offset as usize)
    }
}

impl Backend for Ram {
    fn size(&self) -> u64 {
        self.size
    }

    fn window(&self) -> Option<Window> {
        Some(Window(self.base))
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = self.at(offset, into.len());
        // SAFETY: the range is the device's; `into` is not.
        unsafe { move_bytes(into.as_mut_ptr(), from, into.len()) };
        Ok(())
    }

    #[inline]
    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let to = self.at(offset, from.len());
        // SAFETY: the range is the device's; `from` is not.
        unsafe { move_bytes(to, from.as_ptr(), from.len()) };
        self.written.set(offset, from.len() as u64);
        Ok(())
    }

    fn zero(&self, offset: u64, length: u64, keep: bool, _fast: bool) -> io::Result<()> {
        const PAGE: u64 = 4096;
        let end = offset + length;
        let (first, last) = (offset.next_multiple_of(PAGE), end / PAGE * PAGE);
        let clear = |from: u64, to: u64| {
            const ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];
            let mut at = from;
            while at < to {
                let count = (to - at).min(PAGE) as usize;
                let to = self.at(at, count);
                // SAFETY: the range is the device's.
                unsafe { move_bytes(to, ZEROES.as_ptr(), count) };
                at += count as u64;
            }
        };
        if keep || first >= last {
            clear(offset, end);
            if keep {
                self.written.set(offset, length);
            }
            return Ok(());
        }
        clear(offset, first);
        clear(last, end);
        self.written.clear(first, last);
        let (from, bytes) = (self.at(first, (last - first) as usize) as u64, last - first);
        // SAFETY: whole pages of our own mapping, which are zero when next looked at.
        let answer =
            unsafe { sys::call3(libc::SYS_madvise, from, bytes, libc::MADV_DONTNEED as u64) };
        if sys::is_error(answer) {
            return Err(io::Error::from_raw_os_error(-answer as i32));
        }
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.zero(offset, length, false, false)
    }

    fn extents(
        &self,
        (offset, length): (u64, u64),
        most: usize,
        into: &mut Vec<Extent>,
    ) -> io::Result<()> {
        self.written.extents(offset, length, most, into);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody names any more.
        unsafe { sys::call3(libc::SYS_munmap, self.base as u64, self.size, 0) };
    }
}
