//! A file that each thread reads and writes by an io_uring of its own.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use super::gate::Gate;

/// Files and gate that a thread needs for its own io_uring.
#[derive(Debug)]
pub struct Rings {
    pub(super) cached: fs::File,
    pub(super) direct: Option<fs::File>,
    pub(super) gate: Arc<Gate>,
}

impl Rings {
    /// The file through the page cache, and past it.
    pub(crate) fn files(&self) -> (BorrowedFd<'_>, Option<BorrowedFd<'_>>) {
        (self.cached.as_fd(), self.direct.as_ref().map(AsFd::as_fd))
    }

    /// Fills `into` if the page cache has all of it; what it holds if not says nothing.
    pub(crate) fn read_at_once(&self, offset: u64, into: &mut [u8]) -> bool {
        let piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let fd = self.cached.as_raw_fd();
        // SAFETY: the kernel writes into `into` alone.
        let got =
            unsafe { libc::preadv2(fd, &raw const piece, 1, offset as i64, libc::RWF_NOWAIT) };
        usize::try_from(got) == Ok(into.len())
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }
}
