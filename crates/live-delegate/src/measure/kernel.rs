//! Ways by which the kernel moves work or threads.

use io_uring::{opcode, IoUring};

use super::hand::by_mailbox;
use super::{Bench, Rounds};
use crate::mailbox::{Patience, Request};
use crate::worker::NOTHING;
use halfwink_live::sys::{self, CpuSet};

/// Time for which the worker is idle before it is woken, in nanoseconds.
const ASLEEP_NS: u64 = 2_000_000;

pub(super) fn affinity(bench: &Bench) -> Result<Rounds, String> {
    let here = CpuSet::one(bench.here);
    Ok(bench.repeat(|| {
        let _ = here.pin();
        let _ = here.pin();
    }))
}

/// Measures V1 of Strong (2013, Sec 3.2.2): the kernel's own migration thread.
pub(super) fn migration(bench: &Bench) -> Result<Rounds, String> {
    let (here, there) = (CpuSet::one(bench.here), CpuSet::one(bench.there()?));
    there.pin().map_err(|_| format!("CPU {} is not allowed", bench.there.unwrap_or(0)))?;
    Ok(bench.repeat(|| {
        let _ = there.pin();
        std::hint::black_box(sys::getppid());
        let _ = here.pin();
    }))
}

pub(super) fn wake_up(bench: &Bench) -> Result<Rounds, String> {
    // The worker sleeps at once, the caller never.
    let patience = Patience { worker: 0, caller: u64::MAX, yields: u64::MAX };
    let request = Request { number: NOTHING, check: 0, args: [0; 6] };
    let nap = std::time::Duration::from_nanos(ASLEEP_NS);
    by_mailbox(bench, patience, request, || std::thread::sleep(nap))
}

pub(super) fn uring_enter(bench: &Bench) -> Result<Rounds, String> {
    let ring = IoUring::new(8).map_err(|e| refused(&e))?;
    uring(bench, ring, 1)
}

pub(super) fn uring_poll(bench: &Bench) -> Result<Rounds, String> {
    let ring = IoUring::builder()
        .setup_sqpoll(100)
        .setup_sqpoll_cpu(bench.there()?)
        .build(8)
        .map_err(|e| refused(&e))?;
    uring(bench, ring, 0)
}

fn refused(error: &std::io::Error) -> String {
    format!("io_uring is not allowed here: {error} (see /proc/sys/kernel/io_uring_disabled)")
}

/// No-ops; with `want` 0 the kernel's thread takes them and we look for the end ourselves.
fn uring(bench: &Bench, mut ring: IoUring, want: usize) -> Result<Rounds, String> {
    let mut failed = None;
    let rounds = bench.repeat(|| {
        // SAFETY: a no-op refers to no memory.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        let submitted = if want == 0 { ring.submit() } else { ring.submit_and_wait(want) };
        if let (Ok(()), Ok(_)) = (pushed, submitted) {
            while ring.completion().next().is_none() {
                std::hint::spin_loop();
            }
        } else {
            failed = Some("io_uring took no more".to_owned());
        }
    });
    failed.map_or(Ok(rounds), Err)
}
