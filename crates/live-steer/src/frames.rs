//! Frames of HTTP/2 that carry no request and no data: counted before h2 acts on them, because each
//! costs the proxy as much as a request and a client can send a million of them in a second.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::stream::Stream;

/// Frames that a connection may send beyond what it earns. A browser opens with less than ten;
/// gRPC's estimate of the bandwidth takes one PING for each round trip with data.
const MOST: i64 = 1000;
/// Frames that a connection earns in a second.
const PER_S: u64 = 10;
/// Bytes of an answer, or of a body, that earn a frame: windows are extended less often.
const PER_FRAME: u64 = 512;
/// Frames that a request earns: priorities, windows, a PING.
const PER_REQUEST: i64 = 4;
/// Price of a reset: more than its request has earned (CVE-2023-44487, "Rapid Reset").
const RESET: i64 = 5;
/// First bytes of a client (RFC 9113, section 3.4).
const PREFACE: usize = 24;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

/// Counts the frames of a connection.
#[derive(Debug)]
struct Frames {
    /// Bytes until the next frame.
    skip: usize,
    head: [u8; 9],
    /// Bytes of the head that have come.
    have: usize,
    credit: i64,
    /// Bytes that have not earned a frame yet.
    bytes: u64,
    /// Time up to which frames were earned.
    since: Instant,
}

impl Frames {
    fn new() -> Frames {
        let (head, since) = ([0; 9], Instant::now());
        Frames { skip: PREFACE, head, have: 0, credit: MOST, bytes: 0, since }
    }

    /// Counts frames; returns whether the connection may go on.
    fn take(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let wanted = if self.skip > 0 { self.skip } else { self.head.len() - self.have };
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            bytes = later;
            if self.skip > 0 {
                self.skip -= now.len();
                continue;
            }
            self.head[self.have..self.have + now.len()].copy_from_slice(now);
            self.have += now.len();
            if self.have == self.head.len() {
                self.have = 0;
                if !self.frame() {
                    return false;
                }
            }
        }
        true
    }

    fn frame(&mut self) -> bool {
        let [a, b, c, kind, flags, ..] = self.head;
        self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        match kind {
            HEADERS => self.earn(PER_REQUEST),
            DATA if self.skip > 0 => self.moved(self.skip as u64),
            DATA if flags & END_STREAM != 0 => {}
            RST_STREAM => self.credit -= RESET,
            _ => self.credit -= 1,
        }
        self.credit > 0 || self.waited()
    }

    fn earn(&mut self, frames: i64) {
        self.credit = (self.credit + frames).min(MOST);
    }

    /// Earns for bytes of data, either way.
    fn moved(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.earn((self.bytes / PER_FRAME).min(MOST as u64) as i64);
        self.bytes %= PER_FRAME;
    }

    /// Earns for the time that has passed; looked at only when nothing is left.
    fn waited(&mut self) -> bool {
        let frames = self.since.elapsed().as_millis() as u64 * PER_S / 1000;
        if frames > 0 {
            self.since = Instant::now();
            self.earn(frames.min(MOST as u64) as i64);
        }
        self.credit > 0
    }
}

/// A connection of HTTP/2 whose frames are counted. Once there are too many, nothing more is read.
#[derive(Debug)]
pub struct Counted {
    stream: Stream,
    frames: Frames,
    flooded: bool,
    /// Rung when there are too many frames.
    flood: Arc<Notify>,
}

impl Counted {
    /// Creates a connection of which nothing has been read.
    pub fn new(stream: Stream, flood: Arc<Notify>) -> Counted {
        Counted { stream, frames: Frames::new(), flooded: false, flood }
    }
}

impl AsyncRead for Counted {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let it = self.get_mut();
        if it.flooded {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut it.stream).poll_read(cx, buf);
        if !it.frames.take(&buf.filled()[before..]) {
            it.flooded = true;
            buf.set_filled(before);
            it.flood.notify_one();
            return Poll::Pending;
        }
        read
    }
}

impl AsyncWrite for Counted {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let it = self.get_mut();
        let wrote = Pin::new(&mut it.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = wrote {
            it.wrote(count);
        }
        wrote
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl Counted {
    /// Long writes are answers; short ones may be what a flood asks for.
    fn wrote(&mut self, count: usize) {
        if count as u64 >= PER_FRAME {
            self.frames.moved(count as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, 1];
        bytes.resize(9 + length, 0);
        bytes
    }

    /// Number of such groups of frames after which a connection is cut off, up to 5000.
    fn until_flood(group: &[Vec<u8>]) -> usize {
        let mut frames = Frames::new();
        assert!(frames.take(&[0; PREFACE]));
        let bytes = group.concat();
        // In odd pieces, as a network cuts them.
        (0..5000).find(|_| !bytes.chunks(7).all(|piece| frames.take(piece))).unwrap_or(5000)
    }

    #[test]
    fn frames_that_carry_nothing_are_limited() {
        for (kind, length) in [(6, 8), (4, 0), (4, 6), (2, 5), (8, 4), (9, 0), (77, 3), (0, 0)] {
            let found = until_flood(&[frame(kind, 0, length)]);
            assert!((MOST as usize - 1..2 * MOST as usize).contains(&found), "{kind}: {found}");
        }
        let resets = until_flood(&[frame(HEADERS, 5, 20), frame(RST_STREAM, 0, 4)]);
        assert!((900..2 * MOST as usize).contains(&resets), "{resets}");
    }

    #[test]
    fn requests_and_data_earn_their_frames() {
        let request = frame(HEADERS, 4, 30);
        let window = frame(8, 0, 4);
        let priority = frame(2, 0, 5);
        let end = frame(DATA, END_STREAM, 0);
        let honest = [&request, &priority, &window, &window, &end].map(Clone::clone);
        assert_eq!(until_flood(&honest), 5000);
        assert_eq!(until_flood(&[frame(DATA, 0, 1024), window.clone(), window]), 5000);
    }
}
