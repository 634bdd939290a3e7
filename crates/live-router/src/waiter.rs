//! What the receiver sleeps on: all sockets, and a bell.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use halfwink_units::Time;

use super::ports::Ports;
use halfwink_live::descriptor::owned;

/// Wakes a thread that waits for descriptors from outside.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        // SAFETY: plain numbers; a fresh descriptor is ours alone.
        unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }.map(Bell)
    }

    pub(super) fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes of ours.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

impl AsRawFd for Bell {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// An epoll set of all sockets. It is edge-triggered, which suffices: the waiting thread has found
/// every socket empty since its last edge.
#[derive(Debug)]
pub(super) struct Waiter {
    set: OwnedFd,
    _bell: Arc<Bell>,
}

impl Waiter {
    pub(super) fn new(bell: Arc<Bell>, ports: &Ports) -> io::Result<Waiter> {
        // SAFETY: plain numbers; a fresh descriptor is ours alone.
        let set = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        let waiter = Waiter { set, _bell: bell.clone() };
        waiter.add(bell.as_raw_fd());
        waiter.watch(ports);
        Ok(waiter)
    }

    /// Takes in sockets that were opened since; those that were closed have left by themselves.
    pub(super) fn watch(&self, ports: &Ports) {
        ports.descriptors().for_each(|fd| self.add(fd));
    }

    fn add(&self, fd: RawFd) {
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: 0 };
        // SAFETY: an event of ours; one that is there already is refused, which is as well.
        unsafe {
            libc::epoll_ctl(self.set.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event);
        }
    }

    /// Waits until a frame or the bell, or for this time.
    pub(super) fn wait(&self, most: Time) {
        let ns = most.0 / 1000;
        let timeout = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        let none = std::ptr::null::<libc::sigset_t>();
        // SAFETY: room for eight events, and a time that outlives the call. The bell is not read:
        // its next edge comes with its next ring.
        unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.set.as_raw_fd(),
                events.as_mut_ptr(),
                8,
                &raw const timeout,
                none,
                0usize,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_ring_wakes_each_time_and_time_ends_a_wait() {
        let bell = Arc::new(Bell::new().unwrap());
        // SAFETY: as above.
        let set = unsafe { owned(libc::epoll_create1(0)) }.unwrap();
        let waiter = Waiter { set, _bell: bell.clone() };
        waiter.add(bell.as_raw_fd());
        let long = Time::ns(60_000_000_000);
        for _ in 0..3 {
            bell.ring();
            waiter.wait(long);
        }
        let begun = Instant::now();
        waiter.wait(Time::ns(3_000_000));
        assert!(begun.elapsed() >= Duration::from_millis(2));
    }
}
