// SPDX-License-Identifier: GPL-2.0-or-later
//! Waiting for sockets or for a time, with nanosecond resolution.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// An epoll instance, closed on drop.
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poll {
    /// A new instance.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> io::Result<Poll> {
        // SAFETY: the call has no memory arguments.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: prctl with these arguments touches no memory. Timers would be late by 50 us.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the descriptor is new and ours.
        Ok(Poll { fd: unsafe { OwnedFd::from_raw_fd(fd) }, events })
    }

    /// Tells about input on `fd` with `token`, for as long as it is open.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add(&self, fd: RawFd, token: usize) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token as u64 };
        let op = libc::EPOLL_CTL_ADD;
        // SAFETY: the event lives during the call.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), op, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for input, or until `timeout` is over; the tokens replace the contents of `ready`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<usize>) -> io::Result<()> {
        ready.clear();
        let time = timeout.map(|t| libc::timespec {
            tv_sec: t.as_secs() as libc::time_t,
            tv_nsec: t.subsec_nanos().into(),
        });
        let time_ptr = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the array is as long as we say, the time lives during the call, no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                time_ptr,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match usize::try_from(count) {
            Ok(count) => ready.extend(self.events[..count].iter().map(|e| e.u64 as usize)),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
