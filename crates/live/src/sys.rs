//! System calls without libc: nothing here touches `errno`, allocates, or is seen by wrappers that
//! are preloaded, so all of it may run in signal handlers and in threads that libc does not know.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

/// A system call. The kernel's answer as it is: results, or `-errno` in -4095 to -1.
///
/// # Safety
/// As the call itself: whatever memory the arguments name must be fit for it.
#[inline(always)]
pub unsafe fn call(number: i64, args: [u64; 6]) -> i64 {
    let answer: i64;
    // SAFETY: the kernel's convention on x86-64: it clobbers rcx and r11 and keeps the rest.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// True if the kernel's answer is an error.
#[inline]
#[must_use]
pub const fn is_error(answer: i64) -> bool {
    answer < 0 && answer >= -4095
}

/// A call of up to three plain numbers, which can do no harm to memory.
///
/// # Safety
/// None of the arguments may be an address that the call writes to.
#[inline]
pub unsafe fn call3(number: i64, a: u64, b: u64, c: u64) -> i64 {
    // SAFETY: by the caller.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

/// Number of the calling thread.
#[must_use]
pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    (unsafe { call3(libc::SYS_gettid, 0, 0, 0) }) as u32
}

/// Number of the process.
#[must_use]
pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    (unsafe { call3(libc::SYS_getpid, 0, 0, 0) }) as u32
}

/// The cheapest call that does something: the parent's number.
#[inline]
pub fn getppid() -> i64 {
    // SAFETY: no arguments.
    unsafe { call3(libc::SYS_getppid, 0, 0, 0) }
}

/// Lets another thread of this CPU run.
pub fn yield_now() {
    // SAFETY: no arguments.
    unsafe { call3(libc::SYS_sched_yield, 0, 0, 0) };
}

/// Returns whether a process exists, as far as this one may know.
#[must_use]
pub fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 is only a question.
    (unsafe { call3(libc::SYS_kill, u64::from(pid), 0, 0) }) != -i64::from(libc::ESRCH)
}

/// Copies words of this process's own memory, which may not be there: none or all of them.
///
/// It is the kernel that reads, so a bad address is an answer and no signal.
///
/// # Errors
/// The kernel's number: `EFAULT`, or that it does not allow this.
pub fn copy_memory(from: u64, to: &mut [u64]) -> Result<(), i64> {
    let bytes = size_of_val(to) as u64;
    let (here, there) = ([to.as_mut_ptr() as u64, bytes], [from, bytes]);
    let (ours, theirs) = (here.as_ptr() as u64, there.as_ptr() as u64);
    let args = [u64::from(getpid()), ours, 1, theirs, 1, 0];
    // SAFETY: the kernel writes at most the bytes of `to`, and checks the other address itself.
    let answer = unsafe { call(libc::SYS_process_vm_readv, args) };
    match answer {
        n if n == bytes as i64 => Ok(()),
        n if is_error(n) => Err(-n),
        _ => Err(i64::from(libc::EFAULT)),
    }
}

/// Returns the effective user of the process, as for file permissions.
#[must_use]
pub fn geteuid() -> u32 {
    // SAFETY: no arguments.
    (unsafe { call3(libc::SYS_geteuid, 0, 0, 0) }) as u32
}

/// Sleeps while `word` is `expected`, for `timeout_ns` at most. May return early.
///
/// `shared` if the word lies in memory of several processes, or if the kernel itself wakes
/// (`CLONE_CHILD_CLEARTID`).
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout_ns: u64, shared: bool) {
    let private = if shared { 0 } else { libc::FUTEX_PRIVATE_FLAG };
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as i64,
        tv_nsec: (timeout_ns % 1_000_000_000) as i64,
    };
    let args = [
        core::ptr::from_ref(word) as u64,
        (libc::FUTEX_WAIT | private) as u64,
        u64::from(expected),
        &raw const timeout as u64,
        0,
        0,
    ];
    // SAFETY: the word and the timeout outlive the call, which writes to neither.
    unsafe { call(libc::SYS_futex, args) };
}

/// Wakes at most `count` of those who sleep on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
    // SAFETY: the kernel reads the address only to find the sleepers.
    unsafe {
        call3(libc::SYS_futex, core::ptr::from_ref(word) as u64, operation, u64::from(count))
    };
}

/// The calling process is killed when its parent dies.
pub fn die_with_parent() {
    // SAFETY: plain numbers.
    unsafe { call3(libc::SYS_prctl, libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64, 0) };
}

/// A set of CPUs, as the kernel takes it: up to 1,024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSet([u64; 16]);

impl CpuSet {
    /// One CPU; numbers from 1,024 on are none.
    #[must_use]
    pub fn one(cpu: u32) -> CpuSet {
        let mut set = CpuSet::default();
        if let Some(word) = set.0.get_mut(cpu as usize / 64) {
            *word = 1 << (cpu % 64);
        }
        set
    }

    /// Returns the CPUs on which the calling thread may run.
    #[must_use]
    pub fn allowed() -> CpuSet {
        let mut set = CpuSet::default();
        let bytes = size_of_val(&set.0) as u64;
        // SAFETY: the kernel writes at most `bytes` bytes of the set.
        unsafe { call3(libc::SYS_sched_getaffinity, 0, bytes, set.0.as_mut_ptr() as u64) };
        set
    }

    /// Returns the members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..1024u32).filter(|cpu| self.0[*cpu as usize / 64] >> (cpu % 64) & 1 == 1)
    }

    /// Keeps the calling thread to these CPUs.
    ///
    /// # Errors
    /// The kernel's number, if it refuses.
    pub fn pin(&self) -> Result<(), i64> {
        let bytes = size_of_val(&self.0) as u64;
        // SAFETY: the kernel reads `bytes` bytes of the set.
        let answer =
            unsafe { call3(libc::SYS_sched_setaffinity, 0, bytes, self.0.as_ptr() as u64) };
        if is_error(answer) {
            Err(-answer)
        } else {
            Ok(())
        }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> CpuSet {
        cpus.into_iter().map(CpuSet::one).fold(CpuSet::default(), |mut all, one| {
            all.0.iter_mut().zip(one.0).for_each(|(word, more)| *word |= more);
            all
        })
    }
}

/// All signals, even those that libc keeps for itself, are held back while this lives.
pub struct SignalsHeld(u64);

impl SignalsHeld {
    /// Holds them back from the calling thread.
    #[must_use]
    pub fn now() -> SignalsHeld {
        let (all, mut before) = (u64::MAX, 0u64);
        // SAFETY: both masks are the 8 bytes that the kernel is told of.
        unsafe {
            call(
                libc::SYS_rt_sigprocmask,
                [libc::SIG_SETMASK as u64, &raw const all as u64, &raw mut before as u64, 8, 0, 0],
            )
        };
        SignalsHeld(before)
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: the mask is the 8 bytes that the kernel is told of.
        unsafe {
            call(
                libc::SYS_rt_sigprocmask,
                [libc::SIG_SETMASK as u64, &raw const self.0 as u64, 0, 8, 0, 0],
            )
        };
    }
}

/// Flags of a thread that shares all with its maker and that libc knows nothing of.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// Starts a thread that libc knows nothing of: a program with one thread keeps having one, as far
/// as libc goes, and nothing is allocated. `tid` holds its number until it has ended.
///
/// # Errors
/// The kernel's number, if it refuses.
///
/// # Safety
/// `top` must be the 16-byte aligned end of a stack, and `tls` point to itself and to enough zeroed
/// memory on both sides for libc's thread descriptor. Both must outlive the thread, as must what
/// `argument` names. `run` may use neither thread-local variables nor libc, and must not return.
pub unsafe fn spawn(
    top: *mut u64,
    tls: *mut u64,
    tid: &AtomicU32,
    run: extern "C" fn(u64) -> !,
    argument: u64,
) -> Result<(), i64> {
    let answer: i64;
    // SAFETY: the new thread begins behind `syscall` with rax = 0 on its own stack, from which it
    // takes what it shall run; the old one goes on with registers as the kernel keeps them.
    unsafe {
        top.sub(1).write(argument);
        top.sub(2).write(run as usize as u64);
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "pop rax",
            "pop rdi",
            "call rax",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone => answer,
            in("rdi") THREAD as u64,
            in("rsi") top.sub(2),
            in("rdx") core::ptr::from_ref(tid),
            in("r10") core::ptr::from_ref(tid),
            in("r8") tls,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    if is_error(answer) {
        Err(-answer)
    } else {
        Ok(())
    }
}

/// Ends the calling thread, not the process.
pub fn exit_thread() -> ! {
    loop {
        // SAFETY: a plain number.
        unsafe { call3(libc::SYS_exit, 0, 0, 0) };
    }
}

/// Fresh memory of so many bytes, read and write; `None` if there is none.
#[must_use]
pub fn map_memory(bytes: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64;
    let args = [0, bytes as u64, protection, flags, u64::MAX, 0];
    // SAFETY: the kernel chooses the place, so nothing is overwritten.
    let answer = unsafe { call(libc::SYS_mmap, args) };
    (!is_error(answer)).then_some(answer as *mut u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    #[test]
    fn cpu_set_lists_its_cpus_and_empty_set_is_refused() {
        let allowed = CpuSet::allowed();
        assert!(allowed.iter().count() >= 1);
        assert_eq!(CpuSet::one(65).iter().collect::<Vec<_>>(), [65]);
        assert_eq!(CpuSet::one(5_000), CpuSet::default());
        assert_eq!(CpuSet::default().pin(), Err(i64::from(libc::EINVAL)));
    }

    #[test]
    fn a_futex_does_not_sleep_on_another_value() {
        let word = AtomicU32::new(3);
        futex_wait(&word, 4, u64::MAX / 2, false);
        futex_wait(&word, 3, 1_000, false);
        futex_wake(&word, 1);
        assert_eq!(word.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn memory_that_is_not_there_is_no_signal() {
        let (from, mut to) = ([5u64, 6, 7], [0u64; 3]);
        assert_eq!(copy_memory(from.as_ptr() as u64, &mut to), Ok(()));
        assert_eq!(to, from);
        assert_eq!(copy_memory(8, &mut to), Err(i64::from(libc::EFAULT)));
        assert_eq!(copy_memory(u64::MAX - 64, &mut to), Err(i64::from(libc::EFAULT)));
        // Pages end behind the first word.
        let page = map_memory(8192).unwrap();
        // SAFETY: the second half of what was just mapped.
        unsafe { call3(libc::SYS_munmap, page as u64 + 4096, 4096, 0) };
        let edge = page as u64 + 4096 - 8;
        assert_eq!(copy_memory(edge, &mut to), Err(i64::from(libc::EFAULT)));
        assert_eq!(copy_memory(edge, &mut to[..1]), Ok(()));
    }

    #[test]
    fn own_process_exists_and_unused_id_does_not() {
        assert!(exists(getpid()));
        assert!(!exists(0x3fff_fffe));
        assert!(gettid() > 0 && getppid() > 0);
    }
}
