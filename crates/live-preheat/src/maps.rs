//! Memory of a process: its mappings, which pages of them are there, builds of the files behind.

use std::fs::{self, File};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use halfwink_live::sys;

use crate::kernel;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// A mapping, a line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Range of its addresses.
    pub range: Range<u64>,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be executed.
    pub executable: bool,
    /// Whether several processes share the memory.
    pub shared: bool,
    /// Offset of its begin in its file.
    pub offset: u64,
    /// Inode of its file; 0 for none.
    pub inode: u64,
    /// Path of its file, or the kernel's name for it (`[heap]`, `[stack]`); empty for neither.
    pub name: String,
}

impl Mapping {
    /// Returns whether it shows a file as it is: the same lines for all processes that map that
    /// file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.inode != 0 && !self.writable && self.readable && !self.name.ends_with(" (deleted)")
    }

    /// Memory of the process, which may change: of its own, or shared with its like.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        let kernel = self.name.starts_with("[v") || self.name.starts_with("/dev/dri");
        self.writable && self.readable && !kernel
    }
}

/// The mappings of a process.
///
/// # Errors
/// What cannot be read, in one line.
pub fn mappings(pid: u32) -> Result<Vec<Mapping>, String> {
    let place = format!("/proc/{pid}/maps");
    let text = fs::read_to_string(&place).map_err(|e| format!("{place}: {e}"))?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let trimmed = rest.trim_start();
        let (word, tail) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        rest = tail;
        word
    };
    let (addresses, rights, offset) = (word(), word(), word());
    let _device = word();
    let inode = word().parse().ok()?;
    let (from, to) = addresses.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        range: number(from)?..number(to)?,
        readable: rights.starts_with('r'),
        writable: rights.as_bytes().get(1) == Some(&b'w'),
        executable: rights.as_bytes().get(2) == Some(&b'x'),
        shared: rights.ends_with('s'),
        offset: number(offset)?,
        inode,
        name: rest.trim().to_owned(),
    })
}

/// The build of an ELF file, in hexadecimal.
///
/// # Errors
/// If it cannot be read, or is no ELF file with a build id.
pub fn build_of(path: &Path) -> Result<String, String> {
    let place = path.display();
    let file = File::open(path).map_err(|e| format!("{place}: {e}"))?;
    build_in(&file).ok_or_else(|| format!("{place}: expected an ELF file with a build id"))
}

fn build_in(file: &File) -> Option<String> {
    const NOTE: u32 = 4;
    let mut head = [0u8; 64];
    file.read_exact_at(&mut head, 0).ok()?;
    // 64 bits, little-endian.
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let word = |bytes: &[u8], at: usize, size: usize| {
        let mut value = [0u8; 8];
        value[..size].copy_from_slice(&bytes[at..at + size]);
        u64::from_le_bytes(value)
    };
    let (table, size, count) = (word(&head, 32, 8), word(&head, 54, 2), word(&head, 56, 2));
    for n in 0..count.min(64) {
        let mut entry = [0u8; 56];
        file.read_exact_at(&mut entry, table.checked_add(n * size)?).ok()?;
        if word(&entry, 0, 4) as u32 == NOTE {
            let mut notes = vec![0u8; word(&entry, 32, 8).min(1 << 16) as usize];
            file.read_exact_at(&mut notes, word(&entry, 8, 8)).ok()?;
            if let Some(id) = kernel::build_id(&notes) {
                return Some(id);
            }
        }
    }
    None
}

/// Returns the start time of a process, in ticks since boot: with its number it identifies the
/// process.
#[must_use]
pub fn start_time(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold blanks and brackets.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Flags of a page in the kernel's interface (`PAGE_IS_*`).
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
const IS_ZERO: u64 = 1 << 5;

/// Which pages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Pages in memory that are mapped.
    Present,
    /// Present pages that are also in a file.
    OfFiles,
    /// Pages with contents that are in no file, swapped ones included.
    Own,
}

impl Pages {
    /// Categories that all pages have, of these the ones that none has, and categories of which
    /// each has one.
    fn masks(self) -> [u64; 3] {
        match self {
            Pages::Present => [IS_PRESENT, 0, 0],
            Pages::OfFiles => [IS_PRESENT | IS_FILE, 0, 0],
            Pages::Own => [IS_FILE | IS_ZERO, IS_FILE | IS_ZERO, IS_PRESENT | IS_SWAPPED],
        }
    }
}

/// Runs of pages of a range, as addresses.
///
/// # Errors
/// What is missing, in one line.
pub fn pages(pid: u32, range: &Range<u64>, which: Pages) -> Result<Vec<Range<u64>>, String> {
    let place = format!("/proc/{pid}/pagemap");
    let file = File::open(&place).map_err(|e| format!("{place}: {e}"))?;
    scan(&file, range, which).map_err(|e| format!("{place}: PAGEMAP_SCAN (Linux 6.7): {e}"))
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

fn scan(file: &File, range: &Range<u64>, which: Pages) -> std::io::Result<Vec<Range<u64>>> {
    /// `_IOWR('f', 16, struct pm_scan_arg)`.
    const PAGEMAP_SCAN: u64 = 3 << 30 | (size_of::<ScanArguments>() as u64) << 16 | 0x66 << 8 | 16;
    let [all, none, some] = which.masks();
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut regions = [Region::default(); 512];
    let mut start = range.start;
    while start < range.end {
        let mut args = ScanArguments {
            size: size_of::<ScanArguments>() as u64,
            flags: 0,
            start,
            end: range.end,
            walk_end: 0,
            regions: regions.as_mut_ptr() as u64,
            regions_len: regions.len() as u64,
            max_pages: 0,
            category_inverted: none,
            category_mask: all,
            category_anyof_mask: some,
            return_mask: IS_PRESENT | IS_SWAPPED,
        };
        let at = &raw mut args as u64;
        // SAFETY: the kernel writes at most so many regions, and to the arguments.
        let n = unsafe { sys::call3(libc::SYS_ioctl, file.as_raw_fd() as u64, PAGEMAP_SCAN, at) };
        if sys::is_error(n) {
            return Err(std::io::Error::from_raw_os_error(-n as i32));
        }
        for region in &regions[..n as usize] {
            match found.last_mut() {
                Some(last) if last.end == region.start => last.end = region.end,
                _ => found.push(region.start..region.end),
            }
        }
        if args.walk_end <= start {
            break;
        }
        start = args.walk_end;
    }
    Ok(found)
}

/// A file, mapped here to see the lines that others see of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Path of the file.
    pub path: PathBuf,
    base: *const u8,
    bytes: u64,
}

// SAFETY: the mapping is never unmapped, and only read.
unsafe impl Send for Seen {}
// SAFETY: see above.
unsafe impl Sync for Seen {}

impl Seen {
    /// Maps a file for as long as this process lives.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(path: &Path) -> Result<Seen, String> {
        let why = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = File::open(path).map_err(why)?;
        let bytes = file.metadata().map_err(why)?.len();
        let flags = (libc::MAP_SHARED | libc::MAP_POPULATE) as u64;
        let fd = file.as_raw_fd() as u64;
        let args = [0, bytes.max(1), libc::PROT_READ as u64, flags, fd, 0];
        // SAFETY: the kernel chooses the place, so nothing is overwritten.
        let base = unsafe { sys::call(libc::SYS_mmap, args) };
        if sys::is_error(base) {
            return Err(why(std::io::Error::from_raw_os_error(-base as i32)));
        }
        Ok(Seen { path: path.to_owned(), base: base as *const u8, bytes })
    }

    /// Returns the address of a line of the file, if the file has it.
    #[must_use]
    pub fn line(&self, line: u64) -> Option<*const u8> {
        let at = line.checked_mul(kernel::LINE).filter(|at| *at < self.bytes)?;
        // SAFETY: inside of the mapping.
        Some(unsafe { self.base.add(at as usize) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_maps_is_parsed() {
        let line = "55d0c0e00000-55d0c0e5f000 r-xp 0002a000 08:01 1234   /usr/sbin/a b";
        let found = parse(line).unwrap();
        assert_eq!(
            (found.range.start, found.offset, found.inode),
            (0x55d0_c0e0_0000, 0x2a000, 1234)
        );
        assert_eq!(found.name, "/usr/sbin/a b");
        assert!(found.is_file() && !found.is_memory() && !found.shared && found.executable);
        let heap = parse("1000-2000 rw-p 00000000 00:00 0                 [heap]").unwrap();
        assert!(heap.is_memory() && !heap.is_file());
        let gone = parse("1000-2000 r--p 00000000 08:01 7   /usr/lib/x.so (deleted)").unwrap();
        assert!(!gone.is_file(), "another file may have its name by now");
        assert_eq!(parse("garbage"), None);
    }

    #[test]
    fn mappings_of_own_process_hold_its_code() {
        let pid = sys::getpid();
        let own = mappings(pid).unwrap();
        let here = mappings_of_own_process_hold_its_code as *const () as u64;
        let text = own.iter().find(|m| m.range.contains(&here)).unwrap();
        assert!(text.is_file());
        assert!(start_time(pid).unwrap() > 0);
        if let Some(found) = crate::skipped(pages(pid, &text.range, Pages::OfFiles)) {
            assert!(found.iter().any(|range| range.contains(&here)));
        }
        let libc = own.iter().find(|m| m.name.contains("libc.so")).unwrap();
        assert_eq!(build_of(Path::new(&libc.name)).unwrap().len(), 40);
        let problem = build_of(Path::new("/etc/passwd")).unwrap_err();
        assert!(problem.contains("expected an ELF file"), "{problem}");
        // The same bytes, wherever they are mapped.
        let seen = Seen::open(Path::new(&text.name)).unwrap();
        let line = (here - text.range.start + text.offset) / kernel::LINE;
        let there = seen.line(line).unwrap();
        // SAFETY: both addresses are of lines that are mapped.
        unsafe { assert_eq!(*there, *((here & !63) as *const u8)) };
        assert_eq!(seen.line(u64::MAX / 64), None);
    }
}
