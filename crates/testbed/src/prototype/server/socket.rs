//! Listening sockets of both families, and the descriptor that hands events to workers.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::super::Error;
use halfwink_live::descriptor::{owned, set_option};

/// A socket that takes connections; its path goes with it.
pub(super) struct Listener {
    fd: OwnedFd,
    address: String,
    path: Option<PathBuf>,
}

impl Listener {
    /// Opens `HOST:PORT` or `unix:PATH`.
    pub fn open(address: &str) -> Result<Listener, Error> {
        let wrong = |e| Error::os(address, e);
        if let Some(path) = address.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            forget_dead(&path)?;
            let listener = UnixListener::bind(&path).map_err(wrong)?;
            listener.set_nonblocking(true).map_err(wrong)?;
            return Ok(Listener {
                fd: listener.into(),
                address: address.to_owned(),
                path: Some(path),
            });
        }
        if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(Error::input(format!("{address}: expected HOST:PORT or unix:PATH")));
        }
        let listener = TcpListener::bind(address).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?.to_string();
        Ok(Listener { fd: listener.into(), address, path: None })
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A connection that waits.
    pub fn accept(&self) -> Option<OwnedFd> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let none = core::ptr::null_mut();
        // SAFETY: no address is asked for; a descriptor that is made is ours alone.
        let made = unsafe { owned(libc::accept4(self.fd.as_raw_fd(), none, none.cast(), flags)) };
        let Ok(fd) = made else {
            let full = [libc::EMFILE, libc::ENFILE].map(Some);
            if full.contains(&io::Error::last_os_error().raw_os_error()) {
                // The connection stays where it is until others end.
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            return None;
        };
        if self.path.is_none() {
            // An answer is written at once; there is nothing to wait for.
            let _ = set_option(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32);
        }
        Some(fd)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the socket of a server that is gone.
fn forget_dead(path: &Path) -> Result<(), Error> {
    let Ok(there) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    if !there.file_type().is_socket() || !UnixStream::connect(path).is_err_and(refused) {
        let path = path.display();
        return Err(Error::input(format!("unix:{path}: in use: expected a new path")));
    }
    std::fs::remove_file(path).map_err(|e| Error::file(path, e))
}

/// Tells workers of events, each of them one.
pub(super) struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: a plain number.
        Ok(Epoll(unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))? }))
    }

    fn control(&self, what: i32, fd: RawFd, number: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: number };
        // SAFETY: the kernel reads the one structure.
        if unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Watches for input; `once` until told again.
    pub fn add(&self, fd: &OwnedFd, number: u64, once: bool) -> io::Result<()> {
        self.add_raw(fd.as_raw_fd(), number, once)
    }

    pub fn add_raw(&self, fd: RawFd, number: u64, once: bool) -> io::Result<()> {
        let once = if once { libc::EPOLLONESHOT } else { 0 };
        self.control(libc::EPOLL_CTL_ADD, fd, number, libc::EPOLLIN | once)
    }

    /// Watches a descriptor once more.
    pub fn again(&self, fd: RawFd, number: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLONESHOT;
        self.control(libc::EPOLL_CTL_MOD, fd, number, events)
    }

    /// Waits for an event and returns its number.
    pub fn wait(&self) -> Option<u64> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the kernel writes at most the one structure.
        let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, -1) };
        (found == 1).then_some(event.u64)
    }
}

/// A descriptor that is readable once it was rung, for ever.
pub(super) fn bell() -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }
}

/// Wakes the threads that wait for the bell; several rings before that count as one.
pub(super) fn ring(bell: &OwnedFd) {
    let one = 1u64;
    // SAFETY: the kernel reads 8 bytes.
    unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
}
