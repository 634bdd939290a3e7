//! A process's own memory in a file, and mapped from there: where a process is after it was
//! restored from a snapshot. What it does not touch stays in the file.
//!
//! The kernel itself brings pages back, so nobody has to live for the process to live on. (With
//! userfaultfd, as in REAP, memory is lost with whoever serves the faults.) What it costs: memory
//! that a program gives up by `MADV_DONTNEED` comes back with old contents in place of zeroes. Only
//! servers that the command itself has started are treated so.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::freeze::Frozen;
use crate::maps::{self, Mapping, Pages, PAGE};

/// Distance of ranges in the file: a mapping that is made longer finds zeroes there, as in new
/// memory.
const APART: u64 = 1 << 35;
/// Ranges that a file of ext4 has room for.
const RANGES: u64 = 400;

/// Number of pages dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// Pages of the process's own memory.
    pub memory: u64,
    /// Pages of files that it maps.
    pub files: u64,
    /// Own pages that it had changed since they were last written.
    pub changed: u64,
}

/// The file, for one process.
#[derive(Debug)]
pub struct Image {
    pid: u32,
    path: PathBuf,
    file: File,
    memory: File,
    inode: u64,
    ranges: u64,
}

impl Image {
    /// Creates an empty file, which only the server's user may read: it will hold the server's
    /// secrets.
    ///
    /// # Errors
    ///
    /// Those of the file system; or the process may not be inspected.
    pub fn create(pid: u32, path: &Path) -> Result<Image, String> {
        let why = |e: io::Error| format!("{}: {e}", path.display());
        let mut options = File::options();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(why)?;
        if let Some(user) = user_of(pid) {
            std::os::unix::fs::fchown(&file, Some(user), None).map_err(why)?;
        }
        file.set_len(RANGES * APART).map_err(why)?;
        let inode = file.metadata().map_err(why)?.ino();
        let place = format!("/proc/{pid}/mem");
        let memory = File::options().read(true).write(true).open(&place);
        let memory = memory.map_err(|e| format!("{place}: {e}"))?;
        Ok(Image { pid, path: path.to_owned(), file, memory, inode, ranges: 0 })
    }

    /// Stops the process, writes what it changed into the file, and drops that and unchanged pages
    /// of files; then it goes on. With `evict` the file is not kept in memory either.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn drop_pages(&mut self, evict: bool) -> Result<Dropped, String> {
        let pid = self.pid;
        let why = |e: io::Error| format!("dropping pages of process {pid}: {e}");
        let dropped = self.drop_stopped()?;
        if evict {
            self.file.sync_data().map_err(why)?;
            let fd = self.file.as_raw_fd();
            // SAFETY: plain numbers.
            match unsafe { libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED) } {
                0 => {}
                error => return Err(why(io::Error::from_raw_os_error(error))),
            }
        }
        Ok(dropped)
    }

    fn drop_stopped(&mut self) -> Result<Dropped, String> {
        let pid = self.pid;
        let why = |e: io::Error| format!("dropping pages of process {pid}: {e}");
        let mut frozen = Frozen::stop(pid)?;
        let mappings = maps::mappings(pid)?;
        let mut dropped = Dropped::default();
        let new: Vec<&Mapping> = mappings.iter().filter(|m| is_own(m)).collect();
        if !new.is_empty() {
            self.move_in(&mut frozen, &mappings, &new, &mut dropped)?;
        }
        for mapping in &mappings {
            let drops = if mapping.inode == self.inode {
                let all = maps::pages(pid, &mapping.range, Pages::Present)?;
                dropped.memory += all.iter().map(pages).sum::<u64>();
                dropped.changed += self.save(mapping, mapping.offset)?;
                vec![mapping.range.clone()]
            } else if mapping.is_file() {
                // Changed ones (of relocations) are nowhere else.
                let unchanged = maps::pages(pid, &mapping.range, Pages::OfFiles)?;
                dropped.files += unchanged.iter().map(pages).sum::<u64>();
                unchanged
            } else {
                continue;
            };
            for range in drops {
                let bytes = range.end - range.start;
                let args = [range.start, bytes, libc::MADV_DONTNEED as u64, 0, 0, 0];
                frozen.call(&mappings, libc::SYS_madvise, args).map_err(why)?;
            }
        }
        Ok(dropped)
    }

    /// Ranges that are not in the file yet.
    fn move_in(
        &mut self,
        frozen: &mut Frozen,
        mappings: &[Mapping],
        new: &[&Mapping],
        dropped: &mut Dropped,
    ) -> Result<(), String> {
        let why = |e: io::Error| format!("{}: {e}", self.path.display());
        let path = std::path::absolute(&self.path).map_err(why)?;
        let mut name = path.into_os_string().into_encoded_bytes();
        name.push(0);
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let anonymous = (flags | libc::MAP_ANONYMOUS) as u64;
        let args = [0, name.len() as u64, rights as u64, anonymous, u64::MAX, 0];
        let page = frozen.call(mappings, libc::SYS_mmap, args).map_err(why)?;
        self.memory.write_all_at(&name, page).map_err(why)?;
        let flags_open = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
        let args = [libc::AT_FDCWD as u64, page, flags_open, 0, 0, 0];
        let fd = frozen.call(mappings, libc::SYS_openat, args).map_err(why);
        let args = [page, name.len() as u64, 0, 0, 0, 0];
        frozen.call(mappings, libc::SYS_munmap, args).map_err(why)?;
        let fd = fd?;
        let fixed = (flags | libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
        for mapping in new {
            let offset = self.ranges * APART;
            if self.ranges + 1 >= RANGES || mapping.range.end - mapping.range.start > APART / 2 {
                continue;
            }
            self.ranges += 1;
            let saved = self.save(mapping, offset)?;
            (dropped.memory, dropped.changed) = (dropped.memory + saved, dropped.changed + saved);
            let Range { start, end } = mapping.range;
            let args = [start, end - start, rights as u64, fixed, fd, offset];
            frozen.call(mappings, libc::SYS_mmap, args).map_err(why)?;
        }
        frozen.call(mappings, libc::SYS_close, [fd, 0, 0, 0, 0, 0]).map(drop).map_err(why)
    }

    /// Writes pages that are in memory alone. How many.
    fn save(&self, mapping: &Mapping, offset: u64) -> Result<u64, String> {
        let why = |e: io::Error| format!("{}: {e}", self.path.display());
        let mut saved = 0;
        let mut content = Vec::new();
        for run in maps::pages(self.pid, &mapping.range, Pages::Own)? {
            content.resize((run.end - run.start) as usize, 0);
            self.memory.read_exact_at(&mut content, run.start).map_err(why)?;
            let at = offset + (run.start - mapping.range.start);
            self.file.write_all_at(&content, at).map_err(why)?;
            saved += pages(&run);
        }
        Ok(saved)
    }

    /// Begins to read runs of the process's memory from the file, all at once.
    pub fn fetch(&self, mappings: &[Mapping], runs: &[Range<u64>]) {
        for mapping in mappings.iter().filter(|m| m.inode == self.inode) {
            for run in runs.iter().filter(|run| mapping.range.contains(&run.start)) {
                let at = (run.start - mapping.range.start + mapping.offset) as i64;
                // SAFETY: plain numbers.
                unsafe {
                    libc::readahead(self.file.as_raw_fd(), at, (run.end - run.start) as usize)
                };
            }
        }
    }

    /// Returns whether a mapping is of this file.
    #[must_use]
    pub fn has(&self, mapping: &Mapping) -> bool {
        mapping.inode == self.inode
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // The process keeps what it has mapped.
        let _ = fs::remove_file(&self.path);
    }
}

/// Memory of the process alone that is backed by no file.
fn is_own(mapping: &Mapping) -> bool {
    let name = mapping.name.as_str();
    let plain = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
    let rights = mapping.readable && mapping.writable && !mapping.executable;
    plain && rights && !mapping.shared && mapping.inode == 0
}

fn pages(range: &Range<u64>) -> u64 {
    (range.end - range.start) / PAGE
}

/// Returns the user whose files a process may read.
fn user_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Uid:"))?;
    line.split_whitespace().nth(4)?.parse().ok()
}
