//! Connections of all kinds, with what has been read of them.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::address::Address;

/// A connection of any transport.
#[derive(Debug)]
pub enum Stream {
    /// A connection of TCP.
    Tcp(TcpStream),
    /// A socket of this machine.
    Unix(UnixStream),
    /// A connection of TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// One of which something has been read already.
    Read(Box<Stream>, Buffer),
}

impl Stream {
    /// Connects to a machine.
    ///
    /// # Errors
    /// As the kernel says.
    pub async fn connect(address: &Address) -> io::Result<Stream> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
        }
    }

    /// Returns whether an idle connection has received nothing, not even its end. Costs no system
    /// call unless data has arrived.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Stream::Tcp(stream) => stream.try_read(&mut byte),
            Stream::Unix(stream) => stream.try_read(&mut byte),
            Stream::Tls(_) | Stream::Read(..) => return false,
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Returns the number of received bytes that were not read: for TLS, at least as many as are in
    /// them.
    ///
    /// It asks the kernel itself. The runtime knows only the result of its last poll, and data that
    /// came since then would be missed.
    pub fn unread(&mut self) -> usize {
        match self {
            Stream::Tcp(stream) => queued(stream),
            Stream::Unix(stream) => queued(stream),
            Stream::Tls(stream) => {
                let (stream, session) = stream.get_mut();
                let held = session.process_new_packets().map_or(0, |s| s.plaintext_bytes_to_read());
                held + queued(stream)
            }
            Stream::Read(stream, before) => before.len() + stream.unread(),
        }
    }
}

/// Bytes in a socket's receive queue; of a socket with an error, none.
fn queued(socket: &impl AsRawFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, to a variable that outlives the call.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut count) } != 0;
    if failed {
        return 0;
    }
    usize::try_from(count).unwrap_or(0)
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Read(stream, before) if before.is_empty() => {
                Pin::new(&mut **stream).poll_read(cx, buf)
            }
            Stream::Read(_, before) => {
                let count = before.len().min(buf.remaining());
                buf.put_slice(&before.get()[..count]);
                before.take(count);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Read(stream, _) => Pin::new(&mut **stream).poll_write(cx, buf),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // What is written is with the kernel.
            Stream::Tcp(_) | Stream::Unix(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Read(stream, _) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Read(stream, _) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}

/// A connection with what has come and what is to go.
#[derive(Debug)]
pub struct Conn {
    /// Stream of the connection.
    pub io: Stream,
    /// Bytes that were read and not yet taken.
    pub input: Buffer,
    /// Bytes to write.
    pub output: Buffer,
    /// Whether its end has been read.
    pub ended: bool,
    /// Bytes that have come.
    pub read: u64,
    /// Bytes that have gone.
    pub written: u64,
}

/// Bytes: put at the end, taken at the front.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    from: usize,
}

impl Buffer {
    /// Creates a buffer with these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Buffer {
        Buffer { bytes: bytes.to_vec(), from: 0 }
    }

    /// Returns the bytes in the buffer.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Returns the number of bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// Returns whether the buffer is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes so many bytes away.
    #[inline]
    pub fn take(&mut self, count: usize) {
        self.from += count;
        debug_assert!(self.from <= self.bytes.len());
        if self.from >= self.bytes.len() {
            self.clear();
        } else if self.from > Buffer::KEPT && self.from >= self.len() {
            // Amortised: as many bytes have been taken as are moved.
            self.compact();
            if self.bytes.capacity() / 4 > self.bytes.len() {
                self.bytes.shrink_to(self.bytes.len() * 2);
            }
        }
    }

    /// Empties the buffer.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.from = 0;
        if self.bytes.capacity() > Buffer::KEPT {
            self.bytes.shrink_to(Buffer::KEPT);
        }
    }

    /// Memory that an empty one keeps.
    const KEPT: usize = 64 << 10;

    /// Returns the end of the buffer, for appending.
    #[inline]
    pub fn end(&mut self) -> &mut Vec<u8> {
        if self.from >= self.len() {
            self.compact();
        }
        &mut self.bytes
    }

    /// Moves the bytes to the front of their memory.
    fn compact(&mut self) {
        if self.from > 0 {
            self.bytes.drain(..self.from);
            self.from = 0;
        }
    }
}

impl Conn {
    /// Creates a connection with nothing read.
    #[must_use]
    pub fn new(io: Stream) -> Conn {
        Conn {
            io,
            input: Buffer::default(),
            output: Buffer::default(),
            ended: false,
            read: 0,
            written: 0,
        }
    }

    /// Bytes that have come and gone.
    #[inline]
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.read + self.written
    }

    /// Reads once, at most so much: how much came; nothing at the end.
    ///
    /// # Errors
    /// As the kernel says.
    #[inline]
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Ok(0));
        }
        let bytes = self.input.end();
        bytes.reserve(most);
        let mut space = ReadBuf::uninit(&mut bytes.spare_capacity_mut()[..most]);
        let read = Pin::new(&mut self.io).poll_read(cx, &mut space);
        let count = space.filled().len();
        match read {
            Poll::Ready(Ok(())) => {
                let length = bytes.len() + count;
                // SAFETY: the first `count` bytes of the space have been filled.
                unsafe { bytes.set_len(length) };
                self.ended = count == 0;
                self.read += count as u64;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Writes some of this, past what waits, which must be nothing: how much.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn poll_pass(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        debug_assert!(self.output.is_empty());
        match Pin::new(&mut self.io).poll_write(cx, data) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                self.written += count as u64;
                Poll::Ready(Ok(count))
            }
            other => other,
        }
    }

    /// Says that nothing more will be written.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Writes all that is to be written: whether anything was.
    ///
    /// # Errors
    /// As the kernel says.
    #[inline]
    pub fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut wrote = false;
        while !self.output.is_empty() {
            match Pin::new(&mut self.io).poll_write(cx, self.output.get()) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.written += count as u64;
                    self.output.take(count);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if wrote => return Poll::Ready(Ok(true)),
                Poll::Pending => return Poll::Pending,
            }
            wrote = true;
        }
        match Pin::new(&mut self.io).poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Ok(wrote)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_in_their_order() {
        let mut buffer = Buffer::default();
        buffer.end().extend(b"abcdef");
        buffer.take(2);
        buffer.end().extend(b"gh");
        assert_eq!((buffer.get(), buffer.len()), (&b"cdefgh"[..], 6));
        buffer.take(6);
        assert!(buffer.is_empty());
    }
}
