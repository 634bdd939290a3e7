//! The requests of one queue: described in memory of the kernel's, their bytes in pages of whoever
//! asked, which are copied from and to by calls on the device for servers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::wire::{bytes_at, descriptions_at, Description, Request, What};
use crate::backend::Backend;
use crate::conn::Counts;

/// The descriptions of a queue's requests, mapped.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) number: u16,
    /// The worker that who asks is near to.
    pub(super) issuer: u16,
    base: *const Description,
    depth: u16,
}

// SAFETY: the mapping is this value's, and is only read.
unsafe impl Send for Queue {}

impl Queue {
    pub(super) fn map(device: &File, number: u16, issuer: u16, depth: u16) -> io::Result<Queue> {
        let offset = descriptions_at(number) as i64;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let fd = device.as_raw_fd();
        // SAFETY: the kernel chooses the place.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes(depth), libc::PROT_READ, flags, fd, offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Queue { number, issuer, base: base.cast(), depth })
    }

    pub(super) fn depth(&self) -> u16 {
        self.depth
    }

    /// Returns the description of a request that the kernel has just handed over.
    pub(super) fn description(&self, tag: u16) -> Description {
        assert!(tag < self.depth, "the kernel hands out what was fetched");
        // SAFETY: within the mapping; the kernel has written it before it told us, and writes it
        // again only when the request was answered.
        unsafe { self.base.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.base.cast_mut().cast(), bytes(self.depth)) };
    }
}

/// Bytes of the descriptions, in whole pages.
fn bytes(depth: u16) -> usize {
    (usize::from(depth) * size_of::<Description>()).next_multiple_of(4096)
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Io {
    pub(super) queue: u16,
    pub(super) tag: u16,
    pub(super) issuer: u16,
    pub(super) request: Request,
    /// An error (`errno`), or 0.
    pub(super) error: i32,
    /// Time at which it was fetched, in ticks.
    pub(super) came: u64,
}

/// Converts an error of the system to the kernel's error number.
pub(super) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// Both ends of requests' bytes, which any thread may use.
pub(super) struct Bytes {
    /// The device for servers.
    pub(super) pages: Arc<File>,
    pub(super) backend: Box<dyn Backend>,
}

impl Bytes {
    /// All that the device has to do before it is done; for a read nothing, since the bytes are
    /// fetched when they are handed over. Whether stable storage has to follow.
    pub(super) fn perform(&self, io: &mut Io, scratch: &mut [u8], counts: &mut Counts) -> bool {
        let Request { what, offset, length } = io.request;
        let done = match what {
            What::Read => {
                counts.reads += 1;
                counts.read_bytes += length;
                Ok(())
            }
            What::Write { .. } => {
                let bytes = &mut scratch[..length as usize];
                let taken = self.take(io.queue, io.tag, bytes);
                counts.writes += 1;
                counts.written_bytes += length;
                taken.and_then(|()| self.backend.write(offset, bytes))
            }
            What::Flush => {
                counts.flushes += 1;
                Ok(())
            }
            What::Discard => {
                counts.trims += 1;
                self.backend.trim(offset, length)
            }
            What::Zeroes { keep } => {
                counts.zeroes += 1;
                self.backend.zero(offset, length, keep, false)
            }
        };
        io.error = done.err().as_ref().map_or(0, errno);
        let syncs = matches!(what, What::Flush | What::Write { fua: true });
        syncs && io.error == 0 && self.backend.is_flushed_slowly()
    }

    /// Hands a read's bytes over; what the kernel is to be told.
    pub(super) fn finish(&self, io: &Io, scratch: &mut [u8]) -> i32 {
        if io.error != 0 {
            return -io.error;
        }
        let Request { what, offset, length } = io.request;
        match what {
            What::Write { .. } => length as i32,
            What::Flush | What::Discard | What::Zeroes { .. } => 0,
            What::Read => match self.give(io, offset, &mut scratch[..length as usize]) {
                Ok(()) => length as i32,
                Err(e) => -errno(&e),
            },
        }
    }

    /// Copies the bytes to write from the pages of the issuer.
    fn take(&self, queue: u16, tag: u16, into: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&*self.pages, into, bytes_at(queue, tag))
    }

    /// Copies the bytes read to the pages of the issuer; for memory, directly from its place.
    fn give(&self, io: &Io, offset: u64, scratch: &mut [u8]) -> io::Result<()> {
        let mut from = match self.backend.window() {
            Some(window) => window.at(offset),
            None => {
                self.backend.read(offset, scratch)?;
                scratch.as_ptr()
            }
        };
        let (mut left, mut at) = (scratch.len(), bytes_at(io.queue, io.tag));
        while left > 0 {
            let fd = self.pages.as_raw_fd();
            // SAFETY: the range is the scratch's, or lies in the device's memory, which may change
            // under the kernel as any disk's may: no reference to it is made.
            let went = unsafe { libc::pwrite(fd, from.cast(), left, at as i64) };
            match went {
                1.. => {
                    from = from.wrapping_add(went as usize);
                    left -= went as usize;
                    at += went as u64;
                }
                0 => return Err(io::Error::from_raw_os_error(libc::EIO)),
                _ => {
                    let e = io::Error::last_os_error();
                    if e.kind() != io::ErrorKind::Interrupted {
                        return Err(e);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::backend::{File as FileDevice, Ram};
    use crate::ublk::wire::MOST_BYTES;

    const MIB: u64 = 1 << 20;

    /// Memory in which all bytes of all requests have their place, as in the kernel's device.
    fn pages() -> Arc<File> {
        // SAFETY: a name of ours; the descriptor is ours.
        Arc::new(unsafe { File::from_raw_fd(libc::memfd_create(c"pages".as_ptr(), 0)) })
    }

    fn io(what: What, offset: u64, length: u64) -> Io {
        let request = Request { what, offset, length };
        Io { queue: 2, tag: 7, issuer: 0, request, error: 0, came: 0 }
    }

    fn devices() -> Vec<(Box<dyn Backend>, Option<tempfile::TempDir>)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        File::create(&path).unwrap().set_len(MIB).unwrap();
        let file = FileDevice::open(&path, false).unwrap();
        vec![(Box::new(Ram::new(MIB).unwrap()), None), (Box::new(file), Some(folder))]
    }

    #[test]
    fn bytes_go_both_ways_and_zeroes_follow() {
        for (backend, _kept) in devices() {
            let is_slow = backend.is_flushed_slowly();
            let both = Bytes { pages: pages(), backend };
            let mut scratch = vec![0; MOST_BYTES as usize];
            let mut counts = Counts::default();
            let at = bytes_at(2, 7);
            let payload: Vec<u8> = (0..65_536u32).map(|n| (n * 7 % 251) as u8).collect();
            both.pages.write_all_at(&payload, at).unwrap();
            let mut write = io(What::Write { fua: true }, 4096, 65_536);
            assert_eq!(both.perform(&mut write, &mut scratch, &mut counts), is_slow);
            assert_eq!(both.finish(&write, &mut scratch), 65_536);
            both.pages.write_all_at(&vec![9; 65_536], at).unwrap();
            let mut read = io(What::Read, 4096, 65_536);
            scratch.fill(1);
            assert!(!both.perform(&mut read, &mut scratch, &mut counts));
            assert_eq!(both.finish(&read, &mut scratch), 65_536);
            let mut back = vec![0; 65_536];
            both.pages.read_exact_at(&mut back, at).unwrap();
            assert!(back == payload);
            for what in [What::Zeroes { keep: true }, What::Discard] {
                let mut zero = io(what, 8192, 4096);
                assert!(!both.perform(&mut zero, &mut scratch, &mut counts));
                assert_eq!(both.finish(&zero, &mut scratch), 0);
                assert_eq!(both.finish(&read, &mut scratch), 65_536);
                both.pages.read_exact_at(&mut back, at).unwrap();
                assert!(back[..4096] == payload[..4096] && back[4096..8192] == [0; 4096]);
                assert!(back[8192..] == payload[8192..]);
            }
            let mut flush = io(What::Flush, 0, 0);
            assert_eq!(both.perform(&mut flush, &mut scratch, &mut counts), is_slow);
            let Counts { reads, writes, flushes, trims, zeroes, .. } = counts;
            assert_eq!((reads, writes, flushes, trims, zeroes), (1, 1, 1, 1, 1));
        }
    }

    #[test]
    fn errors_of_the_device_are_one_requests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let made = File::create(&path).unwrap();
        made.set_len(MIB).unwrap();
        let backend = Box::new(FileDevice::open(&path, true).unwrap());
        made.set_len(4096).unwrap();
        let both = Bytes { pages: pages(), backend };
        let mut scratch = vec![0; MOST_BYTES as usize];
        let mut counts = Counts::default();
        // Cut off under us.
        let mut read = io(What::Read, 8192, 4096);
        both.perform(&mut read, &mut scratch, &mut counts);
        assert_eq!(both.finish(&read, &mut scratch), -libc::EIO);
        // Opened for reading alone; and nothing goes to stable storage then.
        both.pages.write_all_at(&[1; 4096], bytes_at(2, 7)).unwrap();
        let mut write = io(What::Write { fua: true }, 0, 4096);
        assert!(!both.perform(&mut write, &mut scratch, &mut counts));
        assert_eq!(both.finish(&write, &mut scratch), -libc::EBADF);
    }
}
