//! Byte sources that a trace is read from, at any offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A byte source of fixed size that supports concurrent reads at any offset.
pub trait ReadAt: Send + Sync {
    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] behind the end, or what the operating system says.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Returns the size in bytes.
    fn size(&self) -> u64;
}

/// A file that stays as long as it was.
pub(super) struct WholeFile {
    pub(super) file: File,
    pub(super) size: u64,
}

impl ReadAt for WholeFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl ReadAt for Vec<u8> {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let window = usize::try_from(offset).ok().and_then(|start| self.get(start..));
        match window.and_then(|w| w.get(..buf.len())) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn size(&self) -> u64 {
        self.len() as u64
    }
}
