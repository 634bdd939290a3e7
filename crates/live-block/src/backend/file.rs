//! A file, or a block device of the kernel's.

use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halfwink_live::descriptor;

use super::device::{append, Backend, Extent, Way};
use super::rings::Rings;
use crate::ring;

/// Interface by which a file is read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Uses io_uring where the kernel allows it, otherwise calls.
    #[default]
    Auto,
    /// Requests io_uring; where the kernel does not allow it, calls are used.
    Uring,
    /// Uses `pread` and `pwrite`.
    Sync,
}

/// A file through `pread` and `pwrite`, or an io_uring. It is never mapped: what is cut off under
/// us is an error of one request, not a signal.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    size: u64,
    rings: Option<Rings>,
    fell_back: Option<String>,
}

impl File {
    /// Opens one; its size stays what it is now. It is locked (`flock`) until it is closed: for
    /// this server alone, or with `read_only` for servers that only read.
    ///
    /// # Errors
    /// The system's, it is empty, or another server has it open.
    pub fn open(path: &Path, read_only: bool) -> io::Result<File> {
        let (file, size) = File::find(path, read_only)?;
        lock(&file, read_only)?;
        Ok(File { file, size, rings: None, fell_back: None })
    }

    /// Returns the size of one that could be opened, in bytes.
    ///
    /// # Errors
    /// As [`File::open`], but for another server.
    pub fn size(path: &Path, read_only: bool) -> io::Result<u64> {
        File::find(path, read_only).map(|(_, size)| size)
    }

    fn find(path: &Path, read_only: bool) -> io::Result<(fs::File, u64)> {
        let mut file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A block device's length is where its end is.
        let size = file.seek(SeekFrom::End(0))?;
        if size == 0 {
            let why = "it is empty; make it as large as the device is to be";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok((file, size))
    }

    /// Opens one, to be read and written that way; `direct`: past the page cache, where the file
    /// system lets whole blocks pass. [`Backend::way`] tells what has come of it.
    ///
    /// # Errors
    /// As [`File::open`].
    pub fn open_by(path: &Path, read_only: bool, io: Io, direct: bool) -> io::Result<File> {
        let mut file = File::open(path, read_only)?;
        if io == Io::Sync {
            return Ok(file);
        }
        if let Some(why) = ring::refusal() {
            let where_to_look = "see /proc/sys/kernel/io_uring_disabled";
            let text =
                format!("io_uring is not allowed here: {why} ({where_to_look}); calls it is");
            file.fell_back = Some(text);
            return Ok(file);
        }
        let past = direct.then(|| {
            let mut options = OpenOptions::new();
            options.read(true).write(!read_only).custom_flags(libc::O_DIRECT).open(path)
        });
        let past = match past.transpose() {
            Ok(past) => past,
            Err(e) => {
                let text = format!("the file system lets nothing past its cache: {e}; through it");
                file.fell_back = Some(text);
                None
            }
        };
        let cached = file.file.try_clone()?;
        file.rings = Some(Rings { cached, direct: past, gate: Arc::default() });
        Ok(file)
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

    /// Moves the file's position, which no other code uses.
    fn seek(&self, from: u64, whence: i32) -> io::Result<u64> {
        // SAFETY: plain numbers.
        let answer = unsafe { libc::lseek(self.file.as_raw_fd(), from as i64, whence) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(answer as u64)
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

/// Time for which a lock is tried again. The kernel frees that of a killed server only when it has
/// taken down its io_uring, a moment after the process is gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// Locks an image. Two servers that write one image destroy the file system in it.
fn lock(file: &fs::File, read_only: bool) -> io::Result<()> {
    let how = if read_only { libc::LOCK_SH } else { libc::LOCK_EX };
    let until = Instant::now() + PATIENCE;
    let error = loop {
        let Err(error) = descriptor::lock(file, how | libc::LOCK_NB) else { return Ok(()) };
        if error.kind() != io::ErrorKind::WouldBlock || Instant::now() >= until {
            break error;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    match error.raw_os_error() {
        Some(libc::EWOULDBLOCK) => {
            let why = if read_only {
                "another server writes it, expected an image that none writes"
            } else {
                "another server has it open, expected an image that none has (or --read-only, all)"
            };
            Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
        }
        // A file system without locks.
        Some(libc::EOPNOTSUPP | libc::ENOLCK) => Ok(()),
        _ => Err(error),
    }
}

impl Backend for File {
    fn size(&self) -> u64 {
        self.size
    }

    fn rings(&self) -> Option<&Rings> {
        self.rings.as_ref()
    }

    fn way(&self) -> Way {
        Way {
            io: if self.rings.is_some() { "uring" } else { "sync" },
            direct: self.rings.as_ref().is_some_and(|rings| rings.direct.is_some()),
            fell_back: self.fell_back.clone(),
        }
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

    fn extents(
        &self,
        (offset, length): (u64, u64),
        most: usize,
        into: &mut Vec<Extent>,
    ) -> io::Result<()> {
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let (next, hole) = match self.seek(at, libc::SEEK_DATA) {
                Ok(data) if data > at => (data, true),
                Ok(_) => match self.seek(at, libc::SEEK_HOLE) {
                    Ok(hole) if hole > at => (hole, false),
                    // It has changed meanwhile.
                    Ok(_) => continue,
                    Err(e) if e.raw_os_error() == Some(libc::ENXIO) => (end, false),
                    Err(e) => return Err(e),
                },
                // No data from here on.
                Err(e) if e.raw_os_error() == Some(libc::ENXIO) => (end, true),
                // The file system does not know.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => (end, false),
                Err(e) => return Err(e),
            };
            let next = next.min(end);
            append(into, next - at, hole);
            at = next;
            if into.len() > most {
                into.truncate(most);
                break;
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_where_nothing_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let made = fs::File::create(&path).unwrap();
        made.set_len(8 << 20).unwrap();
        let file = File::open(&path, false).unwrap();
        file.write(1 << 20, &[1; 65_536]).unwrap();
        file.write(4 << 20, &[1; 65_536]).unwrap();
        file.write((8 << 20) - 65_536, &[1; 65_536]).unwrap();
        let map = |offset, length, most| {
            let mut found = Vec::new();
            file.extents((offset, length), most, &mut found).unwrap();
            assert!(!found.is_empty() && found.len() <= most);
            found.iter().map(|extent| (extent.length, extent.hole)).collect::<Vec<_>>()
        };
        let all = map(0, 8 << 20, 100);
        // By another way: else a mistake would be skipped.
        if std::os::unix::fs::MetadataExt::blocks(&made.metadata().unwrap()) * 512 >= 8 << 20 {
            return eprintln!("skipped: this file system knows no holes");
        }
        let mib = 1u64 << 20;
        let (data, end) = ((65_536, false), (4 * mib - 131_072, true));
        let expected = [(mib, true), data, (3 * mib - 65_536, true), data, end, data];
        assert_eq!(all, expected);
        assert_eq!(map(0, 8 << 20, 2), expected[..2]);
        assert_eq!(map(mib + 100, 200, 9), [(200, false)]);
        assert_eq!(map(2 * mib, mib, 9), [(mib, true)]);
        // Cut off: nothing is stored there.
        made.set_len(mib).unwrap();
        assert_eq!(map(0, 8 << 20, 9), [(8 << 20, true)]);
    }
}
