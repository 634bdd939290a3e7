//! One connection: what has come and was not yet answered.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::request::{parse, reason, Parsed, MOST_HEAD};

/// A client that takes nothing for so long is given up, in milliseconds.
const PATIENCE_MS: i32 = 10_000;

/// Connection of a client.
pub(super) struct Connection {
    fd: OwnedFd,
    input: Vec<u8>,
}

/// Result of reading a connection.
pub(super) enum Said {
    /// A request, or bytes that are none.
    Heard(Parsed),
    /// The client is gone.
    Gone,
}

impl Connection {
    pub fn new(fd: OwnedFd) -> Connection {
        Connection { fd, input: Vec::new() }
    }

    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Takes what has come.
    pub fn listen(&mut self) -> Said {
        let mut room = [0u8; 4096];
        loop {
            let parsed = parse(&self.input);
            if parsed != Parsed::Partial {
                return Said::Heard(parsed);
            }
            // SAFETY: the kernel writes at most as many bytes as there is room.
            let came = unsafe {
                let (at, bytes) = (room.as_mut_ptr().cast(), room.len());
                libc::recv(self.fd.as_raw_fd(), at, bytes, libc::MSG_DONTWAIT)
            };
            match came {
                1.. => self.input.extend_from_slice(&room[..came as usize]),
                0 => return Said::Gone,
                _ => match io::Error::last_os_error().kind() {
                    io::ErrorKind::WouldBlock => return Said::Heard(Parsed::Partial),
                    io::ErrorKind::Interrupted => {}
                    _ => return Said::Gone,
                },
            }
            debug_assert!(self.input.len() <= MOST_HEAD + room.len());
        }
    }

    /// Removes the bytes of a request that was read.
    pub fn consume(&mut self, bytes: usize) {
        self.input.drain(..bytes);
    }

    /// Returns whether another whole request has arrived already.
    pub fn has_more(&self) -> bool {
        !self.input.is_empty() && parse(&self.input) != Parsed::Partial
    }

    /// Writes all of both parts; whether the client took them.
    pub fn write(&self, head: &[u8], body: &[u8]) -> bool {
        let mut sent = 0;
        while sent < head.len() + body.len() {
            let (head, body) =
                (&head[sent.min(head.len())..], &body[sent.saturating_sub(head.len())..]);
            match self.send(head, body) {
                Ok(bytes) => sent += bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.waits() => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn send(&self, head: &[u8], body: &[u8]) -> io::Result<usize> {
        let part = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut parts = [part(head), part(body)];
        // SAFETY: zeroes are a valid message; the kernel reads the two parts, which outlive it.
        let sent = unsafe {
            let mut message: libc::msghdr = core::mem::zeroed();
            message.msg_iov = parts.as_mut_ptr();
            message.msg_iovlen = parts.len() as _;
            libc::sendmsg(self.fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Waits until there is room; false if there is none for too long.
    fn waits(&self) -> bool {
        let mut what = libc::pollfd { fd: self.raw(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: the kernel reads and writes the one structure.
        unsafe { libc::poll(&raw mut what, 1, PATIENCE_MS) > 0 }
    }

    /// Says why not, and that this is the end.
    pub fn refuse(&self, status: u16) {
        let head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            reason(status)
        );
        self.write(head.as_bytes(), b"");
    }
}
