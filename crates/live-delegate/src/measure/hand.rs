//! Hand-offs between two threads of our own.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use super::{Bench, Rounds};
use crate::mailbox::{life, Mailbox, Patience, Request};
use crate::worker::{serve, NOTHING};
use halfwink_live::line;
use halfwink_live::sys::{self, CpuSet};

/// A word with a cache line, and the next one, to itself.
#[repr(align(128))]
struct Line(AtomicU32);

/// Set in the word to make the other side end.
const END: u32 = u32::MAX;

/// Runs `theirs` on another CPU while `ours` runs here, and then `end`.
pub(super) fn beside(
    cpu: u32,
    theirs: impl FnOnce() + Send,
    ours: impl FnOnce() -> Rounds,
    end: impl FnOnce(),
) -> Result<Rounds, String> {
    let pinned = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let done = CpuSet::one(cpu).pin();
            pinned.store(true, Ordering::Release);
            // Even if it was not allowed, the other side waits for answers.
            theirs();
            done.map_err(|_| format!("CPU {cpu} is not allowed"))
        });
        while !pinned.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let rounds = ours();
        end();
        other.join().map_err(|_| "the other side failed".to_owned())??;
        Ok(rounds)
    })
}

pub(super) fn cache_line(bench: &Bench) -> Result<Rounds, String> {
    let line = line::Line::default();
    beside(bench.there()?, || line.echo(), || bench.repeat(|| line.round_trip()), || line.end())
}

/// Never sleeps, never yields.
const SPINS: Patience = Patience { worker: u64::MAX, caller: u64::MAX, yields: u64::MAX };

/// Calls through a mailbox to a worker on the other CPU, with the very code of delegation.
pub(super) fn by_mailbox(
    bench: &Bench,
    patience: Patience,
    request: Request,
    mut before: impl FnMut(),
) -> Result<Rounds, String> {
    let mailbox = Mailbox::default();
    beside(
        bench.there()?,
        || mailbox.work(patience, |request| serve(request, 0)),
        || {
            while mailbox.life.load(Ordering::Acquire) != life::ALIVE {
                thread::yield_now();
            }
            bench.repeat_ticks(|| {
                before();
                let begun = halfwink_live::clock::ticks();
                let ticket = mailbox.post(&request);
                std::hint::black_box(mailbox.wait(ticket, patience));
                halfwink_live::clock::ticks() - begun
            })
        },
        || mailbox.stop(),
    )
}

fn plain(number: u32) -> Request {
    Request { number, check: 0, args: [0; 6] }
}

pub(super) fn mailbox(bench: &Bench) -> Result<Rounds, String> {
    by_mailbox(bench, SPINS, plain(NOTHING), || ())
}

pub(super) fn mailbox_call(bench: &Bench) -> Result<Rounds, String> {
    by_mailbox(bench, SPINS, plain(libc::SYS_getppid as u32), || ())
}

pub(super) fn yielding(bench: &Bench) -> Result<Rounds, String> {
    by_mailbox(bench, Patience { yields: 0, ..SPINS }, plain(NOTHING), || ())
}

pub(super) fn delegated_read(bench: &Bench) -> Result<Rounds, String> {
    let file = std::env::current_exe().and_then(File::open).map_err(|e| e.to_string())?;
    let mut page = vec![0u8; 4096];
    let args = [file.as_raw_fd() as u64, page.as_mut_ptr() as u64, 4096, 0, 0, 0];
    let request = Request { number: libc::SYS_pread64 as u32, check: 0, args };
    by_mailbox(bench, SPINS, request, || ())
}

/// Wakes each other by a futex, on two CPUs or on one.
fn by_futex(bench: &Bench, cpu: u32) -> Result<Rounds, String> {
    let line = Line(AtomicU32::new(0));
    let word = &line.0;
    let await_parity = |parity: u32| loop {
        let seen = word.load(Ordering::Acquire);
        if seen == END || seen & 1 == parity {
            break seen;
        }
        sys::futex_wait(word, seen, 100_000_000, false);
    };
    let tell = |n: u32| {
        word.store(n, Ordering::Release);
        sys::futex_wake(word, 1);
    };
    let mut n = 0u32;
    beside(
        cpu,
        || loop {
            let seen = await_parity(1);
            if seen == END {
                break;
            }
            tell(seen.wrapping_add(1));
        },
        || {
            bench.repeat(|| {
                tell(n | 1);
                n = await_parity(0) & 0x3fff_ffff;
            })
        },
        || tell(END),
    )
}

pub(super) fn futex(bench: &Bench) -> Result<Rounds, String> {
    by_futex(bench, bench.there()?)
}

pub(super) fn one_cpu(bench: &Bench) -> Result<Rounds, String> {
    by_futex(bench, bench.here)
}

/// A counter of the kernel that a thread can sleep on.
struct EventFd(i32);

impl EventFd {
    fn new() -> Result<EventFd, String> {
        // SAFETY: plain numbers.
        let fd = unsafe { sys::call3(libc::SYS_eventfd2, 0, libc::EFD_CLOEXEC as u64, 0) };
        if sys::is_error(fd) {
            Err(format!("eventfd: error {}", -fd))
        } else {
            Ok(EventFd(fd as i32))
        }
    }

    fn tell(&self, n: u64) {
        // SAFETY: the kernel reads 8 bytes.
        unsafe { sys::call3(libc::SYS_write, self.0 as u64, &raw const n as u64, 8) };
    }

    fn hear(&self) -> u64 {
        let mut n = 0u64;
        // SAFETY: the kernel writes 8 bytes.
        unsafe { sys::call3(libc::SYS_read, self.0 as u64, &raw mut n as u64, 8) };
        n
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it any more.
        unsafe { sys::call3(libc::SYS_close, self.0 as u64, 0, 0) };
    }
}

pub(super) fn eventfd(bench: &Bench) -> Result<Rounds, String> {
    let (go, back) = (EventFd::new()?, EventFd::new()?);
    beside(
        bench.there()?,
        || {
            while go.hear() == 1 {
                back.tell(1);
            }
        },
        || {
            bench.repeat(|| {
                go.tell(1);
                back.hear();
            })
        },
        || go.tell(2),
    )
}
