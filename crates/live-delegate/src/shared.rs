//! The file through which a program's processes and the command that started them talk: options one
//! way, counts the other. It is mapped by all, so what was counted survives any end of any process.

use core::mem::size_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::calls::{COUNT, REFUSALS};
use super::histogram::Histogram;
use halfwink_live::clock::Rate;
use halfwink_live::descriptor::reserve;
use halfwink_live::owner::Owner;
use halfwink_live::sys;
use halfwink_policy::offload::{DelegationKind, DelegationParameters};

const MAGIC: u64 = u64::from_le_bytes(*b"halfwnk1");
/// Threads that are counted apart, at most, over all processes at one time.
pub const BLOCKS: usize = 512;
/// Offset of the first block.
const BLOCKS_AT: usize = 4096;

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Policy that decides.
    pub policy: DelegationParameters,
    /// CPU of the threads that make calls for others.
    pub os_cpu: u32,
    /// One of this number of calls in place is timed; at least 1.
    pub time_every: u32,
    /// Time for which a worker spins for its next call before it sleeps, in nanoseconds.
    pub worker_spin_ns: u64,
    /// Time for which a caller spins for its answer before it sleeps, in nanoseconds.
    pub caller_spin_ns: u64,
    /// Rate of the time-stamp counter.
    pub rate: Rate,
    /// Events to record, at most.
    pub log_records: u64,
}

/// Layout of the first page.
#[repr(C)]
#[derive(Debug)]
struct Header {
    magic: AtomicU64,
    kind: AtomicU32,
    os_cpu: AtomicU32,
    n_ns: AtomicU64,
    least_bytes: AtomicU64,
    time_every: AtomicU64,
    worker_spin_ns: AtomicU64,
    caller_spin_ns: AtomicU64,
    rate: AtomicU64,
    log_records: AtomicU64,
    counts: Counts,
}

/// Counters that all processes share.
#[repr(C)]
#[derive(Debug)]
pub struct Counts {
    /// Process images that have loaded the library or are forks of such, so far: their epochs.
    pub epochs: AtomicU64,
    /// Threads that have made a call.
    pub threads: AtomicU64,
    /// Threads for which there was no room: they ran, uncounted and unmoved.
    pub uncounted_threads: AtomicU64,
    /// Threads on the OS CPU that were started.
    pub workers: AtomicU64,
    /// Processes that have forbidden themselves calls (seccomp), so nothing moves any more.
    pub confined: AtomicU64,
    /// Policies that have been created, which number the streams of the log.
    pub streams: AtomicU64,
    /// Times that a thread's clock stepped back, and stood still for its policy.
    pub steps_back: AtomicU64,
    /// Lines of the log, written or, once it is full, dropped.
    pub log_next: AtomicU64,
}

/// One call of one thread.
#[repr(C)]
#[derive(Debug)]
pub struct CallCounts {
    /// Times it was called.
    pub calls: AtomicU64,
    /// Number of these made on the OS CPU.
    pub delegated: AtomicU64,
    /// Number of these made in place although the policy chose to move them; by reason.
    pub refused: [AtomicU64; REFUSALS],
    /// Sum of `here`, in nanoseconds.
    pub here_ns: AtomicU64,
    /// Sum of `there`, in nanoseconds.
    pub there_ns: AtomicU64,
    /// Durations of timed calls in place, as the program sees them.
    pub here: Histogram,
    /// Durations of delegated calls, as the program sees them.
    pub there: Histogram,
}

/// Counters of one thread. Only its owner writes.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Block {
    /// An [`Owner`]; 0 if it is free.
    owner: AtomicU64,
    /// Time at which the thread took the block, in ticks.
    pub begun_ticks: AtomicU64,
    /// Sum of the lives of its earlier owners, in ticks.
    pub lived_ticks: AtomicU64,
    /// Time of the last write, in ticks.
    pub seen_ticks: AtomicU64,
    /// Ticks that the OS CPU worked on its calls.
    pub worked_ticks: AtomicU64,
    /// Ticks that its delegated calls took in all.
    pub waited_ticks: AtomicU64,
    /// Estimate of the ticks it spent in calls in place that do not wait: timed ones, extrapolated.
    pub stayed_ticks: AtomicU64,
    /// Times that its worker had to be woken.
    pub worker_wakes: AtomicU64,
    /// Times that it slept for an answer.
    pub caller_naps: AtomicU64,
    /// Predictions that were compared with what came.
    pub predictions: AtomicU64,
    /// Number of these within 5 %.
    pub within_5_percent: AtomicU64,
    /// Number of these on the right side of N.
    pub right_side: AtomicU64,
    /// N at the end, in nanoseconds.
    pub n_ns: AtomicU64,
    /// Decisions that were timed.
    pub timed_decisions: AtomicU64,
    /// Sum of their durations, in ticks, with one reading of the counter in each.
    pub decision_ticks: AtomicU64,
    /// Cost of moving beyond the call itself, per delegated call.
    pub hand_off: Histogram,
    /// See `hand_off`, as a sum in ticks.
    pub hand_off_ticks: AtomicU64,
    /// Counters by call.
    pub calls: [CallCounts; COUNT],
}

/// Adds without a lock: only one thread writes.
#[inline]
pub fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// One event that a policy was told, and what it asked for.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// 0 while it is empty; see `log`.
    pub kind: AtomicU32,
    /// Number of the policy object.
    pub stream: AtomicU32,
    /// Place where it wants the call to run; 0 if it requested nothing.
    pub place: AtomicU32,
    /// Cycles that it calls its decision.
    pub cycles: AtomicU32,
    /// Number of the system call.
    pub number: AtomicU32,
    /// Time in picoseconds.
    pub now_ps: AtomicU64,
    /// Bytes in memory, or `u64::MAX` if they are not known.
    pub bytes: AtomicU64,
    /// Arguments, a length, or a sample.
    pub values: [AtomicU64; 6],
}

/// The file, mapped. It stays mapped for as long as the process lives, unless it is [`Mapped`].
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    base: *const u8,
    log_records: u64,
}

/// The file, mapped for as long as this is there.
#[derive(Debug)]
pub struct Mapped {
    shared: Shared,
    bytes: usize,
}

impl Mapped {
    /// Opens a file as [`Shared::open`] does.
    ///
    /// # Errors
    /// The same.
    pub fn open(path: &Path) -> std::io::Result<(Mapped, Options)> {
        let mut how = File::options();
        // A FIFO of that name would wait for its other end.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = how.read(true).write(true).custom_flags(flags).open(path)?;
        let about = file.metadata()?;
        let length = about.len() as usize;
        let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidData);
        let is_ours = about.is_file() && about.uid() == sys::geteuid();
        if !is_ours || length < Shared::bytes(0) {
            return Err(wrong());
        }
        let mut mapped = Mapped { shared: Shared::map(&file, length, 0)?, bytes: length };
        let h = mapped.shared.header();
        let is_whole = h.magic.load(Ordering::Acquire) == MAGIC;
        let records = h.log_records.load(Ordering::Relaxed);
        let kind = DelegationKind::from_number(h.kind.load(Ordering::Relaxed)).ok_or_else(wrong)?;
        let fits = (length - Shared::bytes(0)) as u64 / size_of::<Record>() as u64 >= records;
        if !is_whole || !fits {
            return Err(wrong());
        }
        let n = h.n_ns.load(Ordering::Relaxed);
        let options = Options {
            policy: DelegationParameters {
                kind,
                n_ns: (n != u64::MAX).then_some(n),
                least_bytes: h.least_bytes.load(Ordering::Relaxed),
            },
            os_cpu: h.os_cpu.load(Ordering::Relaxed),
            time_every: (h.time_every.load(Ordering::Relaxed) as u32).max(1),
            worker_spin_ns: h.worker_spin_ns.load(Ordering::Relaxed),
            caller_spin_ns: h.caller_spin_ns.load(Ordering::Relaxed),
            rate: Rate(h.rate.load(Ordering::Relaxed).max(1)),
            log_records: records,
        };
        mapped.shared.log_records = records;
        Ok((mapped, options))
    }

    /// Creates a file as [`Shared::create`] does.
    ///
    /// # Errors
    /// The same.
    pub fn create(file: &File, options: &Options) -> std::io::Result<Mapped> {
        let shared = Shared::create(file, options)?;
        Ok(Mapped { shared, bytes: Shared::bytes(options.log_records) })
    }

    /// Leaks the mapping, which stays for as long as the process lives.
    fn keep(self) -> Shared {
        std::mem::ManuallyDrop::new(self).shared
    }

    /// Returns the counters that all processes share.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        self.shared.counts()
    }

    /// Returns all blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        self.shared.blocks()
    }

    /// Returns the records of the log.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        self.shared.records()
    }

    /// Bytes that are mapped.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // A file that nobody names any more keeps its memory for as long as it is mapped.
        // SAFETY: what was borrowed from the mapping was borrowed from us.
        unsafe { self.shared.unmap(self.bytes) };
    }
}

// SAFETY: all that the mapping holds is atomic, and it is not unmapped while it is used.
unsafe impl Send for Shared {}
// SAFETY: see above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes the file, which must be empty, and maps it. All of it is reserved.
    ///
    /// # Errors
    /// Those of the file system; no room.
    pub fn create(file: &File, options: &Options) -> std::io::Result<Shared> {
        let bytes = Shared::bytes(options.log_records);
        reserve(file, bytes)?;
        let shared = Shared::map(file, bytes, options.log_records)?;
        let h = shared.header();
        let n = options.policy.n_ns.unwrap_or(u64::MAX);
        h.kind.store(options.policy.kind as u32, Ordering::Relaxed);
        h.os_cpu.store(options.os_cpu, Ordering::Relaxed);
        for (field, value) in [
            (&h.n_ns, n),
            (&h.least_bytes, options.policy.least_bytes),
            (&h.time_every, u64::from(options.time_every.max(1))),
            (&h.worker_spin_ns, options.worker_spin_ns),
            (&h.caller_spin_ns, options.caller_spin_ns),
            (&h.rate, options.rate.0),
            (&h.log_records, options.log_records),
        ] {
            field.store(value, Ordering::Relaxed);
        }
        h.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Maps the file of another process of the same user; its options.
    ///
    /// # Errors
    /// Those of the file system; it is not such a file, or another user's, who could cut it short
    /// under a program that writes.
    pub fn open(path: &Path) -> std::io::Result<(Shared, Options)> {
        let (mapped, options) = Mapped::open(path)?;
        Ok((mapped.keep(), options))
    }

    /// Length of a segment with so many records.
    #[must_use]
    pub fn bytes(log_records: u64) -> usize {
        BLOCKS_AT + BLOCKS * size_of::<Block>() + log_records as usize * size_of::<Record>()
    }

    fn map(file: &File, bytes: usize, log_records: u64) -> std::io::Result<Shared> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let (flags, fd) = (libc::MAP_SHARED as u64, file.as_raw_fd() as u64);
        // SAFETY: the kernel chooses the place, so nothing is overwritten.
        let answer =
            unsafe { sys::call(libc::SYS_mmap, [0, bytes as u64, protection, flags, fd, 0]) };
        if sys::is_error(answer) {
            return Err(std::io::Error::from_raw_os_error(-answer as i32));
        }
        Ok(Shared { base: answer as *const u8, log_records })
    }

    /// Gives the mapping of so many bytes back.
    ///
    /// # Safety
    /// Nothing of it is used any more, nor any copy of this.
    unsafe fn unmap(self, bytes: usize) {
        // SAFETY: as the caller promises.
        unsafe { sys::call(libc::SYS_munmap, [self.base as u64, bytes as u64, 0, 0, 0, 0]) };
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, which is all atomics, and lasts.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// Returns the counters that all processes share.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.header().counts
    }

    /// Returns all blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        // SAFETY: the mapping holds so many blocks there, all atomics, and lasts.
        unsafe { core::slice::from_raw_parts(self.base.add(BLOCKS_AT).cast::<Block>(), BLOCKS) }
    }

    /// Returns the records of the log.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        let at = BLOCKS_AT + BLOCKS * size_of::<Block>();
        let count = self.log_records as usize;
        // SAFETY: as for the blocks; `open` has checked that they fit.
        unsafe { core::slice::from_raw_parts(self.base.add(at).cast::<Record>(), count) }
    }

    /// A free block for a thread of the calling process, whose [`mark`](halfwink_live::owner::mark)
    /// this is, or one whose process has died.
    #[must_use]
    pub fn claim(&self, pid: u32, tid: u32, mark: u32) -> Option<&Block> {
        let Owner(ours) = Owner::new(pid, tid, mark);
        let take = |block: &Block, from: u64| {
            block.owner.compare_exchange(from, ours, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let found = self.blocks().iter().find(|block| {
            let owner = block.owner.load(Ordering::Relaxed);
            // A thread that has replaced its program (exec) left its block behind.
            (owner == 0 || owner == ours) && take(block, owner)
        });
        let dead = |block: &&Block| {
            let owner = block.owner.load(Ordering::Relaxed);
            Owner(owner).is_dead(mark) && take(block, owner)
        };
        let block = found.or_else(|| self.blocks().iter().find(dead))?;
        block.end_life();
        block.begun_ticks.store(halfwink_live::clock::ticks(), Ordering::Relaxed);
        Some(block)
    }
}

impl Block {
    /// Releases the block of an owner that is done.
    pub fn release(&self) {
        self.end_life();
        self.owner.store(0, Ordering::Release);
    }

    /// Ticks that its owners have lived, up to when they were last seen.
    #[must_use]
    pub fn life_ticks(&self) -> u64 {
        let begun = self.begun_ticks.load(Ordering::Relaxed);
        let now = self.seen_ticks.load(Ordering::Relaxed).saturating_sub(begun);
        self.lived_ticks.load(Ordering::Relaxed) + if begun == 0 { 0 } else { now }
    }

    fn end_life(&self) {
        self.lived_ticks.store(self.life_ticks(), Ordering::Relaxed);
        self.begun_ticks.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use halfwink_live::owner;

    /// A file of its own, with these options.
    pub(crate) fn scratch(
        kind: DelegationKind,
        log_records: u64,
    ) -> (std::path::PathBuf, Shared, Options) {
        use std::sync::atomic::AtomicU32 as Serial;
        static SERIAL: Serial = Serial::new(0);
        let n = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("halfwink-test-{}-{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = Options {
            policy: DelegationParameters { kind, n_ns: Some(1_000), least_bytes: 4096 },
            os_cpu: CpuOf::last(),
            time_every: 4,
            worker_spin_ns: 50_000,
            caller_spin_ns: 20_000,
            rate: Rate::measure(),
            log_records,
        };
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let shared = Shared::create(&file, &options).unwrap();
        (path, shared, options)
    }

    struct CpuOf;

    impl CpuOf {
        fn last() -> u32 {
            halfwink_live::sys::CpuSet::allowed().iter().last().unwrap_or(0)
        }
    }

    #[test]
    fn options_go_through_the_file() {
        let (path, shared, options) = scratch(DelegationKind::Predicted, 100);
        let (theirs, read) = Shared::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, options);
        shared.counts().threads.store(7, Ordering::Relaxed);
        assert_eq!(theirs.counts().threads.load(Ordering::Relaxed), 7);
        assert_eq!(theirs.records().len(), 100);
    }

    #[test]
    fn another_file_is_refused() {
        let path = std::env::temp_dir().join(format!("halfwink-wrong-{}", std::process::id()));
        for length in [0, 100, Shared::bytes(0) as u64 + 10] {
            let file = File::create(&path).unwrap();
            file.set_len(length).unwrap();
            assert!(Shared::open(&path).is_err(), "{length}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn blocks_are_claimed_once_and_given_back() {
        let (path, shared, _) = scratch(DelegationKind::Never, 0);
        std::fs::remove_file(&path).unwrap();
        let (me, mark) = (sys::getpid(), owner::mark());
        let claim = |tid| shared.claim(me, tid, mark);
        let taken: Vec<_> = (0..BLOCKS as u32).map(|t| claim(10 + t).unwrap()).collect();
        assert!(claim(5_000).is_none());
        // The same thread again has replaced its program.
        assert!(core::ptr::eq(claim(12).unwrap(), taken[2]));
        taken[7].release();
        assert!(core::ptr::eq(claim(5_000).unwrap(), taken[7]));
        // Of a process that has died, and of one that has died and whose number lives on.
        taken[9].owner.store(Owner::new(0x3f_fffe, 1, mark).0, Ordering::Relaxed);
        assert!(core::ptr::eq(claim(5_001).unwrap(), taken[9]));
        taken[11].owner.store(Owner::new(me, 1, mark ^ 2).0, Ordering::Relaxed);
        assert!(core::ptr::eq(claim(5_002).unwrap(), taken[11]));
        // Of one in a namespace that cannot be seen into.
        taken[13].owner.store(Owner::new(0x3f_fffe, 1, mark ^ 1 << 10).0, Ordering::Relaxed);
        assert!(claim(5_003).is_none());
    }

    #[test]
    fn all_of_it_is_there_before_it_is_written() {
        let (path, shared, options) = scratch(DelegationKind::Never, 1_000);
        let about = std::fs::metadata(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(shared.records().len(), options.log_records as usize);
        assert!(about.blocks() * 512 >= about.len(), "{} of {}", about.blocks() * 512, about.len());
    }

    #[test]
    fn files_of_others_are_refused() {
        let (path, _, _) = scratch(DelegationKind::Never, 0);
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Shared::open(&link).is_err(), "a link");
        std::fs::remove_file(&link).unwrap();
        assert!(Shared::open(&path).is_ok());
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(Shared::open(&path).is_err(), "of another user");
        }
        std::fs::remove_file(&path).unwrap();
        let fifo = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the path ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        assert!(Shared::open(&path).is_err(), "a FIFO");
        std::fs::remove_file(&path).unwrap();
    }

    /// Mappings of a file in this process.
    fn mappings(path: &Path) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains(path.to_str().unwrap())).count()
    }

    #[test]
    fn a_run_that_is_over_and_a_file_that_is_refused_stay_mapped_for_nobody() {
        let (taken, _, options) = scratch(DelegationKind::Always, 3);
        let path = taken.with_extension("run");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let run = Mapped::create(&file, &options).unwrap();
        assert_eq!(mappings(&path), 1);
        let refused = taken.with_extension("refused");
        let file = File::create(&refused).unwrap();
        file.set_len(Shared::bytes(0) as u64).unwrap();
        assert!(Shared::open(&refused).is_err());
        assert_eq!(mappings(&refused), 0, "zeros are no segment");
        drop(run);
        assert_eq!(mappings(&path), 0, "the run is over");
        for file in [taken, path, refused] {
            std::fs::remove_file(file).unwrap();
        }
    }
}
