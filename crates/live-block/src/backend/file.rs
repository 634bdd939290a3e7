//! A file, or a block device of the kernel's.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Backend;

/// A file through `pread` and `pwrite`. It is never mapped: what is cut off under us is an error of
/// one request, not a signal.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    size: u64,
}

impl File {
    /// Opens one; its size stays what it is now.
    ///
    /// # Errors
    /// The system's, or it is empty.
    pub fn open(path: &Path, read_only: bool) -> io::Result<File> {
        let mut file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        // A block device's length is where its end is.
        let size = file.seek(SeekFrom::End(0))?;
        if size == 0 {
            let why = "it is empty; make it as large as the device is to be";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(File { file, size })
    }

    fn allocate(&self, mode: i32, offset: u64, length: u64) -> io::Result<()> {
        // SAFETY: plain numbers.
        let answer =
            unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, length as i64) };
        if answer == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }

    fn write_zeroes(&self, mut offset: u64, length: u64) -> io::Result<()> {
        static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
        let end = offset + length;
        while offset < end {
            let count = (end - offset).min(ZEROES.len() as u64);
            self.file.write_all_at(&ZEROES[..count as usize], offset)?;
            offset += count;
        }
        Ok(())
    }
}

impl Backend for File {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        // Less than there should be, because somebody has cut the file, is an error like any other.
        self.file.read_exact_at(into, offset)
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, offset)
    }

    fn zero(&self, offset: u64, length: u64, keep: bool, fast: bool) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let mode = if keep { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
        match self.allocate(mode | libc::FALLOC_FL_KEEP_SIZE, offset, length) {
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) && !fast => {
                self.write_zeroes(offset, length)
            }
            other => other,
        }
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        match self.allocate(mode, offset, length) {
            // Advice that the file system cannot take.
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            other => other,
        }
    }

    fn cache(&self, offset: u64, length: u64) {
        // SAFETY: plain numbers. It is advice: whether it is taken changes nothing.
        unsafe {
            libc::posix_fadvise(
                self.file.as_raw_fd(),
                offset as i64,
                length as i64,
                libc::POSIX_FADV_WILLNEED,
            )
        };
    }

    fn is_flushed_slowly(&self) -> bool {
        true
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
