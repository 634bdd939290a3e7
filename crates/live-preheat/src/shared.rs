//! The file through which the command and the threads inside of servers talk: what to load one way,
//! what was done the other. A place for each process; all is atomic, and outlives any end of any
//! process.

use core::mem::size_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;

use halfwink_live::descriptor::reserve;
use halfwink_live::sys;

const MAGIC: u64 = u64::from_le_bytes(*b"halfwnp1");
/// Processes of servers, at most, at one time.
pub const SLOTS: usize = 64;
/// Words of a list, at most: runs of lines, or lines to time.
pub const WORDS: usize = 1 << 15;
/// Offset of the first slot.
const SLOTS_AT: usize = 4096;

/// Operations of the thread inside of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// Prefetch the runs of the list.
    Load = 1,
    /// Time one load of each line of the list.
    Time = 2,
    /// Flush the lines of the runs of the list: measurements only.
    Flush = 3,
    /// Map the pages of the runs of the list before they are touched.
    Populate = 4,
    /// Drop the pages of the runs of the list, which must be unchanged pages of files: measurements
    /// only.
    Drop = 5,
    /// Does nothing, to measure the round trip.
    Nothing = 6,
}

impl Operation {
    /// The operation of a number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Operation> {
        use Operation::{Drop, Flush, Load, Nothing, Populate, Time};
        [Load, Time, Flush, Populate, Drop, Nothing].into_iter().find(|o| *o as u32 == number)
    }

    /// Returns whether it is rejected outside of measurements.
    #[must_use]
    pub fn is_for_measurements(self) -> bool {
        matches!(self, Operation::Flush | Operation::Drop)
    }
}

/// Layout of the first page.
#[repr(C)]
#[derive(Debug)]
struct Header {
    magic: AtomicU64,
    /// Whether caches may be flushed and pages dropped.
    measures: AtomicU32,
    /// Process images that came, so far.
    epochs: AtomicU32,
    /// Processes for which there was no place.
    turned_away: AtomicU32,
}

/// A process of a server. The server's thread writes what it did, the command all else.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Slot {
    /// Process and helper thread (upper and lower half); 0 if it is free.
    owner: AtomicU64,
    /// Which process image it is: never the same twice in a file.
    pub epoch: AtomicU32,
    /// Number of the command that stands here; its thread sleeps on it.
    pub command: AtomicU32,
    /// Operation that is requested.
    pub operation: AtomicU32,
    /// Words of the list.
    pub count: AtomicU32,
    /// Ticks of the time-stamp counter at which a load is cut; 0 for never.
    pub until_ticks: AtomicU64,
    /// Number of the last command that is done; the command sleeps on it.
    pub done: AtomicU32,
    /// Words of the list that were taken, or the kernel's error.
    pub taken: AtomicU32,
    /// Time at which the first load was issued, in ticks of the time-stamp counter.
    pub first_ticks: AtomicU64,
    /// Time at which the last load had been issued, in ticks.
    pub last_ticks: AtomicU64,
    /// Times that the thread woke.
    pub wakes: AtomicU64,
    /// Commands that were refused.
    pub refused: AtomicU64,
    /// The list: `number of the first line << 6 | lines - 1`, or addresses.
    pub words: [AtomicU64; WORDS],
    /// Ticks that each load of a timed list took.
    pub ticks: [AtomicU32; WORDS],
}

impl Slot {
    /// Returns the process and its helper thread, if the slot is in use.
    #[must_use]
    pub fn owner(&self) -> Option<(u32, u32)> {
        let owner = self.owner.load(Ordering::Acquire);
        (owner != 0).then_some(((owner >> 32) as u32, owner as u32))
    }

    /// Registers the process and its helper thread as owner.
    pub fn set_owner(&self, pid: u32, tid: u32) {
        self.owner.store(u64::from(pid) << 32 | u64::from(tid), Ordering::Release);
    }

    /// Writes a list and what is to be done with it, and wakes the thread. Its number.
    ///
    /// Only one caller may do so at a time, and not before the last command is done or given up.
    pub fn post(&self, operation: Operation, words: Option<&[u64]>, until_ticks: u64) -> u32 {
        if let Some(words) = words {
            for (slot, word) in self.words.iter().zip(words) {
                slot.store(*word, Ordering::Relaxed);
            }
            self.count.store(words.len().min(WORDS) as u32, Ordering::Relaxed);
        }
        self.operation.store(operation as u32, Ordering::Relaxed);
        self.until_ticks.store(until_ticks, Ordering::Relaxed);
        // The number is stored last, with Release: a thread that sees it also sees the operation
        // and the list. It is the word that the thread sleeps on, so that no wake-up is lost.
        let number = self.command.load(Ordering::Relaxed).wrapping_add(1);
        self.command.store(number, Ordering::Release);
        wake(&self.command);
        number
    }

    /// Waits until a command is done, for so long at most. Whether it is.
    #[must_use]
    pub fn wait(&self, number: u32, timeout_ns: u64) -> bool {
        let begun = std::time::Instant::now();
        loop {
            let done = self.done.load(Ordering::Acquire);
            if done == number {
                return true;
            }
            let left = timeout_ns.saturating_sub(begun.elapsed().as_nanos() as u64);
            if left == 0 {
                return false;
            }
            sys::futex_wait(&self.done, done, left, true);
        }
    }
}

/// Wakes the threads that sleep on a word that several processes share.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the kernel reads the address only to find the sleepers.
    unsafe {
        sys::call3(
            libc::SYS_futex,
            core::ptr::from_ref(word) as u64,
            libc::FUTEX_WAKE as u64,
            u64::from(u32::MAX >> 1),
        )
    };
}

/// The file, mapped. It stays mapped for as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub struct Shared(*const u8);

// SAFETY: all that the mapping holds is atomic, and it is never unmapped.
unsafe impl Send for Shared {}
// SAFETY: see above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Bytes of the file.
    pub const BYTES: usize = SLOTS_AT + SLOTS * size_of::<Slot>();

    /// Makes the file, which must be empty, and maps it.
    ///
    /// # Errors
    /// Those of the file system; no room.
    pub fn create(file: &File, measures: bool) -> std::io::Result<Shared> {
        // All blocks now: a store to a page that a full file system cannot back would kill the
        // server with SIGBUS.
        reserve(file, Shared::BYTES)?;
        let shared = Shared::map(file)?;
        let header = shared.header();
        header.measures.store(u32::from(measures), Ordering::Relaxed);
        // Last: a process that opens the file too early finds no magic number and stays without a
        // slot.
        header.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Maps the file of another process.
    ///
    /// # Errors
    /// Those of the file system; it is not such a file.
    pub fn open(path: &Path) -> std::io::Result<Shared> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() != Shared::BYTES as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        let shared = Shared::map(&file)?;
        if shared.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(shared)
    }

    fn map(file: &File) -> std::io::Result<Shared> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let (bytes, flags) = (Shared::BYTES as u64, libc::MAP_SHARED as u64);
        let args = [0, bytes, protection, flags, file.as_raw_fd() as u64, 0];
        // SAFETY: the kernel chooses the place, so nothing is overwritten.
        let answer = unsafe { sys::call(libc::SYS_mmap, args) };
        if sys::is_error(answer) {
            return Err(Error::from_raw_os_error(-answer as i32));
        }
        Ok(Shared(answer as *const u8))
    }

    fn header(&self) -> &'static Header {
        // SAFETY: the mapping begins with a header, which is all atomics, and lasts.
        unsafe { &*self.0.cast::<Header>() }
    }

    /// Returns whether caches may be flushed and pages dropped.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.header().measures.load(Ordering::Relaxed) != 0
    }

    /// Processes that came, and for which there was no place.
    #[must_use]
    pub fn turned_away(&self) -> u32 {
        self.header().turned_away.load(Ordering::Relaxed)
    }

    /// Process images that came, so far.
    #[must_use]
    pub fn epochs(&self) -> u32 {
        self.header().epochs.load(Ordering::Acquire)
    }

    /// Returns all slots.
    #[must_use]
    pub fn slots(&self) -> &'static [Slot] {
        // SAFETY: the mapping holds so many there, all atomics, and lasts.
        unsafe { core::slice::from_raw_parts(self.0.add(SLOTS_AT).cast::<Slot>(), SLOTS) }
    }

    /// Places with a process that lives.
    pub fn alive(&self) -> impl Iterator<Item = (&'static Slot, u32, u32)> {
        let owned = self.slots().iter().filter_map(|s| s.owner().map(|(p, t)| (s, p, t)));
        owned.filter(|(_, pid, _)| sys::exists(*pid))
    }

    /// A free place for a process, or one whose process has died.
    #[must_use]
    pub fn claim(&self, pid: u32) -> Option<&'static Slot> {
        let take = |slot: &&Slot, from: u64| {
            let ours = u64::from(pid) << 32;
            slot.owner.compare_exchange(from, ours, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let free = |slot: &&Slot| {
            let owner = slot.owner.load(Ordering::Relaxed);
            // A process that has replaced its program (exec) left its place behind.
            (owner == 0 || (owner >> 32) as u32 == pid) && take(slot, owner)
        };
        let dead = |slot: &&Slot| {
            let owner = slot.owner.load(Ordering::Relaxed);
            !sys::exists((owner >> 32) as u32) && take(slot, owner)
        };
        let slots = self.slots();
        // Free slots first: asking the kernel whether a process lives costs a system call for
        // each.
        let Some(slot) = slots.iter().find(free).or_else(|| slots.iter().find(dead)) else {
            self.header().turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // A command that the last owner never did counts as done, or the new thread would do it
        // with addresses of another process.
        slot.done.store(slot.command.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.wakes.store(0, Ordering::Relaxed);
        let epoch = self.header().epochs.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        slot.epoch.store(epoch, Ordering::Release);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, std::path::PathBuf, Shared) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let shared = Shared::create(&file, true).unwrap();
        (folder, path, shared)
    }

    #[test]
    fn all_of_it_is_there_before_it_is_written() {
        let (_folder, path, _) = scratch();
        let about = std::fs::metadata(path).unwrap();
        let room = std::os::unix::fs::MetadataExt::blocks(&about) * 512;
        assert!(room >= about.len(), "{room} of {}", about.len());
    }

    #[test]
    fn a_place_for_each_process_and_none_for_the_dead() {
        let (_folder, path, shared) = scratch();
        let other = Shared::open(&path).unwrap();
        assert!(other.measures());
        let me = sys::getpid();
        let first = shared.claim(me).unwrap();
        first.set_owner(me, sys::gettid());
        assert_eq!(other.alive().count(), 1);
        // The same process again, as after exec: its place, another image.
        let epoch = first.epoch.load(Ordering::Relaxed);
        let again = other.claim(me).unwrap();
        assert_ne!(again.epoch.load(Ordering::Relaxed), epoch);
        assert_eq!(shared.slots().iter().filter(|s| s.owner().is_some()).count(), 1);
        // Numbers that no process has.
        for n in 0..SLOTS as u32 + 10 {
            assert!(shared.claim(0x3f00_0000 + n).is_some(), "the dead make room");
        }
        assert_eq!(shared.turned_away(), 0);
    }

    #[test]
    fn shared_file_of_wrong_size_or_content_is_refused() {
        let (folder, path, _shared) = scratch();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(100).unwrap();
        assert_eq!(Shared::open(&path).unwrap_err().kind(), ErrorKind::InvalidData);
        let zeroes = folder.path().join("zeroes");
        File::create(&zeroes).unwrap().set_len(Shared::BYTES as u64).unwrap();
        assert_eq!(Shared::open(&zeroes).unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(Shared::open(Path::new("/nowhere")).is_err());
    }
}
