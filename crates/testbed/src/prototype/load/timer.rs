//! Sleeping to the microsecond: a runtime's own timers tick in milliseconds.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;
use tokio::io::Interest;

use halfwink_live::descriptor::owned;

/// A timer of the kernel's.
pub(super) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    pub fn new() -> io::Result<Timer> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: plain numbers.
        let fd = unsafe { owned(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))? };
        // SAFETY: the descriptor is open, and stays so and the same until the timer is dropped.
        Ok(Timer(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? }))
    }

    /// Sleeps until this time of `CLOCK_MONOTONIC`.
    pub async fn sleep_until(&mut self, ns: u64) -> io::Result<()> {
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let at = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            // A time of 0 would disarm it.
            tv_nsec: ((ns % 1_000_000_000) as libc::c_long).max(1),
        };
        let when = libc::itimerspec { it_interval: never, it_value: at };
        let fd = self.0.as_raw_fd();
        let flag = libc::TFD_TIMER_ABSTIME;
        // SAFETY: the kernel reads the one structure.
        if unsafe { libc::timerfd_settime(fd, flag, &raw const when, core::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        loop {
            let mut ready = self.0.readable().await?;
            let mut times = 0u64;
            let read = ready.try_io(|fd| {
                // SAFETY: the kernel writes 8 bytes.
                match unsafe { libc::read(fd.as_raw_fd(), (&raw mut times).cast(), 8) } {
                    8 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
            if let Ok(done) = read {
                return done;
            }
        }
    }
}
