//! The few calls on sockets that the hot path makes, without a copy or an allocation between.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use halfwink_live::sys;

fn checked(answer: i64) -> io::Result<usize> {
    if sys::is_error(answer) {
        return Err(io::Error::from_raw_os_error(-answer as i32));
    }
    Ok(answer as usize)
}

/// Bytes that have come; zero at the end of the stream.
#[inline]
pub(crate) fn receive(fd: RawFd, into: &mut [u8]) -> io::Result<usize> {
    let flags = (libc::MSG_DONTWAIT) as u64;
    let args = [fd as u64, into.as_mut_ptr() as u64, into.len() as u64, flags, 0, 0];
    // SAFETY: the kernel writes into `into` alone.
    checked(unsafe { sys::call(libc::SYS_recvfrom, args) })
}

/// Sends what `pieces` name; how many bytes went.
///
/// # Safety
/// Each piece must name mapped memory.
#[inline]
pub(crate) unsafe fn send(fd: RawFd, pieces: &[libc::iovec]) -> io::Result<usize> {
    // SAFETY: all-zero is a valid header without a name and without control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len();
    let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u64;
    // SAFETY: the kernel reads the pieces and what they name, by the caller.
    checked(unsafe { sys::call3(libc::SYS_sendmsg, fd as u64, &raw const message as u64, flags) })
}

/// An epoll instance, closed on drop.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

/// Room for what one wait finds.
pub(crate) type Found = [libc::epoll_event; 128];

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: a plain number; the descriptor is ours.
        unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Epoll(OwnedFd::from_raw_fd(fd)))
        }
    }

    fn control(&self, what: i32, fd: RawFd, interest: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest, u64: token };
        // SAFETY: the event outlives the call.
        let answer = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    pub(crate) fn add(&self, fd: RawFd, interest: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, token)
    }

    /// Changes what is waited for. One that has left meanwhile does not matter.
    pub(crate) fn change(&self, fd: RawFd, interest: u32, token: u64) {
        let _ = self.control(libc::EPOLL_CTL_MOD, fd, interest, token);
    }

    pub(crate) fn remove(&self, fd: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    /// Waits for so long at most, for ever if none; how many were found. A signal ends it early.
    #[inline]
    pub(crate) fn wait(&self, found: &mut Found, timeout_ns: Option<u64>) -> usize {
        let time = libc::timespec {
            tv_sec: (timeout_ns.unwrap_or(0) / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns.unwrap_or(0) % 1_000_000_000) as i64,
        };
        let timeout = timeout_ns.map_or(0, |_| &raw const time as u64);
        let room = found.len() as u64;
        let args = [self.0.as_raw_fd() as u64, found.as_mut_ptr() as u64, room, timeout, 0, 8];
        // SAFETY: the kernel writes at most `room` events and reads the time.
        checked(unsafe { sys::call(libc::SYS_epoll_pwait2, args) }).unwrap_or(0)
    }
}

/// A counter (eventfd) that wakes the threads that wait for it.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        // SAFETY: plain numbers; the descriptor is ours.
        unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Bell(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn ring(&self) {
        let one = 1u64;
        // SAFETY: the kernel reads eight bytes.
        unsafe { sys::call3(libc::SYS_write, self.fd() as u64, &raw const one as u64, 8) };
    }

    pub(crate) fn quiet(&self) {
        let mut count = 0u64;
        // SAFETY: the kernel writes eight bytes.
        unsafe { sys::call3(libc::SYS_read, self.fd() as u64, &raw mut count as u64, 8) };
    }
}

/// A descriptor for each connection, as far as this process may have them.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is the caller's.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
