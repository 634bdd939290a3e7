//! The thread inside of a server: sleeps until it is asked, and loads lines of its own process.
//!
//! It runs without libc and without thread-local variables, on memory of its own, confined to the
//! few calls that it makes. Nothing that it is asked can bring its process down: prefetches of what
//! is not mapped do nothing, timed loads are made by the kernel, which answers with an error.

use core::arch::x86_64::{_mm_clflush, _mm_lfence, _mm_mfence, _mm_prefetch, _MM_HINT_T0};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::shared::{wake, Operation, Shared, Slot};
use halfwink_live::clock::{ticks, ticks_fenced};
use halfwink_live::sys;

/// Bytes of a line.
const LINE: u64 = 64;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Words of a list between two looks at the deadline.
const CHUNK: usize = 16;
/// Times that a list is walked. Processors drop prefetches that come faster than they can be taken
/// up: on an EPYC of 2024 a fifth to a half of the first walk, none of the third, at a nanosecond a
/// line each.
pub const WALKS: usize = 3;
/// Flag in a list of pages: this run will be written, so pages are copied ahead too.
pub const WRITTEN: u64 = 1 << 6;
/// Longest sleep. Without anything to do the thread never wakes: the kernel needs some number.
const FOREVER_NS: u64 = 1 << 62;

const STACK_WORDS: usize = 4096;
const TLS_WORDS: usize = 1024;

/// Memory of the thread. A process that is forked has its own copy.
#[repr(C, align(64))]
struct Room {
    stack: [u64; STACK_WORDS],
    tls: [u64; TLS_WORDS],
}

static mut ROOM: Room = Room { stack: [0; STACK_WORDS], tls: [0; TLS_WORDS] };
static TID: AtomicU32 = AtomicU32::new(0);
static SLOT: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());

/// Finds a place for this process and starts its thread. Once for each process image, and once in
/// each child of a fork; false if there is no place or no thread to be had.
///
/// # Safety
/// No thread that this function started may still run in this process: not so at a library's
/// beginning and in the child of a fork, which has one thread.
pub unsafe fn start(shared: Shared) -> bool {
    let pid = sys::getpid();
    let Some(slot) = shared.claim(pid) else { return false };
    SLOT.store(core::ptr::from_ref(slot).cast_mut(), Ordering::Release);
    MEASURES.store(u32::from(shared.measures()), Ordering::Relaxed);
    // The server's signals are not for the thread: it begins with what its maker holds back.
    let _held = sys::SignalsHeld::now();
    // SAFETY: by the caller nobody uses the room. The end of the stack is aligned; the word in the
    // middle of zeroes points to itself; all is static, and `run` neither returns nor uses libc.
    unsafe {
        let room = &raw mut ROOM;
        let top = (&raw mut (*room).stack).cast::<u64>().add(STACK_WORDS);
        let tls = (&raw mut (*room).tls).cast::<u64>().add(TLS_WORDS / 2);
        tls.write(tls as u64);
        sys::spawn(top, tls, &TID, run, u64::from(pid)).is_ok()
    }
}

static MEASURES: AtomicU32 = AtomicU32::new(0);

extern "C" fn run(pid: u64) -> ! {
    let name = c"halfwink-heat";
    // SAFETY: the kernel reads a short string.
    unsafe { sys::call3(libc::SYS_prctl, libc::PR_SET_NAME as u64, name.as_ptr() as u64, 0) };
    confine();
    // SAFETY: `start` stored a place of a mapping that lasts.
    let slot = unsafe { &*SLOT.load(Ordering::Acquire) };
    let measures = MEASURES.load(Ordering::Relaxed) != 0;
    let mut seen = slot.done.load(Ordering::Relaxed);
    slot.set_owner(pid as u32, TID.load(Ordering::Relaxed));
    loop {
        while slot.command.load(Ordering::Acquire) == seen {
            sys::futex_wait(&slot.command, seen, FOREVER_NS, true);
            slot.wakes.store(slot.wakes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        seen = slot.command.load(Ordering::Acquire);
        serve(slot, measures);
        slot.done.store(seen, Ordering::Release);
        wake(&slot.done);
    }
}

/// Does what stands in a place.
pub fn serve(slot: &Slot, measures: bool) {
    let operation = Operation::from_number(slot.operation.load(Ordering::Relaxed));
    let count = (slot.count.load(Ordering::Relaxed) as usize).min(slot.words.len());
    let allowed = |o: &Operation| measures || !o.is_for_measurements();
    let Some(operation) = operation.filter(allowed) else {
        slot.refused.store(slot.refused.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        return;
    };
    slot.first_ticks.store(ticks(), Ordering::Relaxed);
    let taken = match operation {
        Operation::Load => load(slot, count),
        Operation::Time => time(slot, count),
        Operation::Flush => flush_list(slot, count),
        Operation::Populate => advise(slot, count, populate),
        Operation::Drop => advise(slot, count, |_| libc::MADV_DONTNEED),
        Operation::Nothing => 0,
    };
    slot.last_ticks.store(ticks(), Ordering::Relaxed);
    slot.taken.store(taken as u32, Ordering::Relaxed);
}

/// Addresses of the lines of a run.
fn addresses(word: u64) -> impl Iterator<Item = u64> {
    let first = word >> 6 << 6;
    (0..=(word & 63)).map(move |n| first.wrapping_add(n * LINE))
}

fn load(slot: &Slot, count: usize) -> usize {
    let until = slot.until_ticks.load(Ordering::Relaxed);
    let mut taken = 0;
    for walk in 0..WALKS {
        for chunk in slot.words[..count].chunks(CHUNK) {
            if until != 0 && ticks() >= until {
                return taken;
            }
            for word in chunk {
                addresses(word.load(Ordering::Relaxed)).for_each(fetch);
            }
            taken += if walk == 0 { chunk.len() } else { 0 };
        }
    }
    taken
}

/// Into all caches: the same machine takes hints for the second cache alone as nothing at all.
#[inline]
fn fetch(address: u64) {
    // SAFETY: a prefetch reads nothing that the program could see, and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) };
}

/// One load of each line, by a system call that reads eight bytes: of the signals to hold back, all
/// of which the thread holds back anyway. Memory that is gone is an error of the kernel's.
fn time(slot: &Slot, count: usize) -> usize {
    for (word, out) in slot.words[..count].iter().zip(&slot.ticks) {
        let address = word.load(Ordering::Relaxed);
        // Elsewhere in its page, so that the time is not that of the translation.
        read(address ^ (PAGE / 2));
        let begun = ticks_fenced();
        let answer = read(address);
        let took = ticks_fenced() - begun;
        let took = if sys::is_error(answer) { u32::MAX } else { took as u32 };
        out.store(took, Ordering::Relaxed);
    }
    count
}

fn read(address: u64) -> i64 {
    let args = [libc::SIG_BLOCK as u64, address & !7, 0, 8, 0, 0];
    // SAFETY: the kernel checks the address, reads there, and writes nowhere.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, args) }
}

fn flush_list(slot: &Slot, count: usize) -> usize {
    for word in &slot.words[..count] {
        for address in addresses(word.load(Ordering::Relaxed)) {
            // SAFETY: only measurements ask for it, of lines that were timed in the same process
            // image just before; a server that unmaps them meanwhile is not measured.
            unsafe { _mm_clflush(address as *const u8) };
        }
    }
    // SAFETY: every x86-64 has it.
    unsafe { _mm_mfence() };
    count
}

/// Pages are mapped as they will be needed.
fn populate(word: u64) -> i32 {
    match word & WRITTEN {
        0 => libc::MADV_POPULATE_READ,
        _ => libc::MADV_POPULATE_WRITE,
    }
}

/// Advice on the pages of runs.
fn advise(slot: &Slot, count: usize, advice: impl Fn(u64) -> i32) -> usize {
    let mut taken = 0;
    for word in &slot.words[..count] {
        let word = word.load(Ordering::Relaxed);
        // In lists of pages the low bits count pages.
        let (address, bytes) = (word & !(PAGE - 1), ((word & 63) + 1) * PAGE);
        let advice = advice(word) as u64;
        // SAFETY: mapping ahead changes nothing; dropping is for measurements only, of pages that
        // the file gives back as they were.
        let answer = unsafe { sys::call3(libc::SYS_madvise, address, bytes, advice) };
        taken += usize::from(!sys::is_error(answer));
    }
    taken
}

/// Restricts the process to the system calls of its thread. An attacker who takes it over gains
/// nothing, although it keeps the rights of when it was started.
fn confine() {
    const ALLOWED: [i64; 5] = [
        libc::SYS_futex,
        libc::SYS_rt_sigprocmask,
        libc::SYS_madvise,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    let mut filter = [op(LOAD, 0, 0); ALLOWED.len() + 3];
    for (n, call) in ALLOWED.iter().enumerate() {
        filter[n + 1] = op(JUMP, (ALLOWED.len() - n) as u8, *call as u32);
    }
    filter[ALLOWED.len() + 1] = op(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    filter[ALLOWED.len() + 2] = op(RETURN, 0, libc::SECCOMP_RET_ALLOW);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let no_new_privileges = libc::PR_SET_NO_NEW_PRIVS as u64;
    // SAFETY: the kernel copies the filter; both hold for this thread alone.
    unsafe {
        sys::call(libc::SYS_prctl, [no_new_privileges, 1, 0, 0, 0, 0]);
        let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
        sys::call3(libc::SYS_seccomp, mode, 0, &raw const program as u64);
    }
}

/// Prefetches lines of the calling process: what the thread does, for comparisons.
pub fn prefetch(words: &[u64]) {
    for _ in 0..WALKS {
        for word in words {
            addresses(*word).for_each(fetch);
        }
    }
    // SAFETY: every x86-64 has it.
    unsafe { _mm_lfence() };
}

/// Flushes lines of the calling process: for comparisons.
///
/// # Safety
/// All of them must be mapped.
pub unsafe fn flush(words: &[u64]) {
    for word in words {
        for address in addresses(*word) {
            // SAFETY: by the caller.
            unsafe { _mm_clflush(address as *const u8) };
        }
    }
    // SAFETY: every x86-64 has it.
    unsafe { _mm_mfence() };
}
