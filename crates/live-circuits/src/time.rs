//! The clock that switch and hosts share, sleep that ends in time, and the CPU that a thread took.
//!
//! All are on one machine, and its monotonic clock is the same in all network namespaces. Hosts of
//! their own would need PTP.

use std::os::fd::RawFd;

use halfwink_units::Time;

/// Nanoseconds of a timespec.
#[must_use]
pub fn ns(at: &libc::timespec) -> u64 {
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec of ours.
    unsafe { libc::clock_gettime(clock, &raw mut at) };
    ns(&at)
}

/// Nanoseconds of the monotonic clock.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the clock as a policy's time.
#[inline]
#[must_use]
pub fn now() -> Time {
    Time::ns(now_ns())
}

/// Returns the lead of the real-time clock, which may be set, over the monotonic one.
#[must_use]
pub fn real_offset_ns() -> u64 {
    let (before, real, after) = (now_ns(), read(libc::CLOCK_REALTIME), now_ns());
    real.wrapping_sub(before + (after - before) / 2)
}

/// CPU time of this thread.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Waits until a descriptor has something, or until then.
pub fn wait(descriptors: &[RawFd], until_ns: u64) {
    let left = until_ns.saturating_sub(now_ns());
    if left == 0 {
        return;
    }
    let mut sets: [libc::pollfd; 80] =
        std::array::from_fn(|_| libc::pollfd { fd: -1, events: 0, revents: 0 });
    for (set, &fd) in sets.iter_mut().zip(descriptors) {
        (set.fd, set.events) = (fd, libc::POLLIN);
    }
    let timeout = libc::timespec {
        tv_sec: (left / 1_000_000_000) as i64,
        tv_nsec: (left % 1_000_000_000) as i64,
    };
    let count = descriptors.len().min(sets.len()) as libc::nfds_t;
    // SAFETY: as many sets as are counted, and a time that outlives the call.
    unsafe { libc::ppoll(sets.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
}

/// Has this thread woken when its time has come: by real-time priority if that is allowed, else
/// without slack. Whether it is allowed.
pub fn be_punctual(priority: i32) -> bool {
    // SAFETY: plain numbers, and a structure that outlives the call.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0, 0, 0);
        let parameter = libc::sched_param { sched_priority: priority };
        priority > 0 && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) == 0
    }
}
