//! The sending half of a connection: replies that wait, and how they leave together.

use std::collections::VecDeque;
use std::io;

use halfwink_live::clock::ticks;

use crate::backend::{Backend, Extent};
use crate::lease::Lease;
use crate::proto::handshake::ALLOCATION_ID;
use crate::proto::reply::{self, Head};
use crate::proto::Errno;
use crate::socket;

/// Bytes of a file that are read at once; a longer read goes out in pieces.
pub(crate) const PIECE: usize = 128 << 10;
/// Replies of one system call.
const MOST_REPLIES: usize = 128;
/// Bytes of files that one system call may carry.
const SCRATCH: usize = 4 * PIECE;
/// Extents of one status; a client asks on where they end.
const MOST_EXTENTS: usize = 512;

/// Kind of a pending reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A read; `whole`: in one chunk.
    Read { offset: u64, length: u32, whole: bool },
    /// A block-status query; `one` asks for the first extent only.
    Status { offset: u64, length: u32, one: bool },
    /// Any other request.
    Plain,
}

/// A reply that waits, or a request that is under way to become one.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) cookie: u64,
    pub(crate) what: What,
    pub(crate) error: Option<Errno>,
    /// Bytes of a read that have left.
    pub(crate) sent: u32,
    /// Time at which the request was read, in ticks.
    pub(crate) came: u64,
    /// All bytes of a read, if they are there already.
    pub(crate) data: Option<Lease>,
}

/// Bytes that a full socket did not accept.
#[derive(Debug)]
enum Left {
    Bytes(Vec<u8>, usize),
    /// Bytes of the device's memory, which stay there.
    Memory(*const u8, usize),
}

/// Memory for one system call, which a thread keeps.
#[derive(Debug)]
pub(crate) struct Scratch {
    heads: Vec<Head>,
    pieces: Vec<libc::iovec>,
    /// Whether a piece is the device's own memory.
    stays: Vec<bool>,
    bytes: Vec<u8>,
    used: usize,
    /// Bytes of reads that this call carries.
    leases: Vec<Lease>,
    /// Ticks spent in the device since the last look.
    pub(crate) backend: u64,
    /// Latencies of requests that were answered, in ticks.
    pub(crate) latencies: Vec<u64>,
    /// Replies that said why not.
    pub(crate) errors: u64,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            heads: Vec::with_capacity(MOST_REPLIES),
            pieces: Vec::with_capacity(2 * MOST_REPLIES),
            stays: Vec::with_capacity(2 * MOST_REPLIES),
            bytes: vec![0; SCRATCH],
            used: 0,
            leases: Vec::with_capacity(MOST_REPLIES),
            backend: 0,
            latencies: Vec::with_capacity(4 * MOST_REPLIES),
            errors: 0,
        }
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        self.stays.clear();
        self.leases.clear();
        self.used = 0;
    }

    fn has_room(&self) -> bool {
        self.heads.len() < MOST_REPLIES && self.pieces.len() + 2 <= 2 * MOST_REPLIES
    }

    #[inline]
    fn piece(&mut self, base: *const u8, length: usize, stays: bool) {
        self.pieces.push(libc::iovec { iov_base: base.cast_mut().cast(), iov_len: length });
        self.stays.push(stays);
    }

    /// Heads never move: there is room for all of a call from the beginning.
    #[inline]
    fn head(&mut self, head: Head) {
        self.heads.push(head);
        let (base, length) = self
            .heads
            .last()
            .map_or((std::ptr::null(), 0), |head| (head.bytes().as_ptr(), head.bytes().len()));
        self.piece(base, length, false);
    }
}

/// Result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All bytes were sent.
    All,
    /// The socket is full.
    Blocked,
    /// The connection is of no more use.
    Broken,
}

/// Sending half of a connection.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) queue: VecDeque<Pending>,
    left: VecDeque<Left>,
    left_bytes: usize,
    pub(crate) structured: bool,
    pub(crate) is_broken: bool,
    /// Events that the owner waits for.
    pub(crate) interest: u32,
    /// The owner does not read on until so few requests are under way.
    pub(crate) resumes_at: Option<u32>,
}

// SAFETY: pointers into the device's memory, which outlives every connection; nobody makes
// references of them.
unsafe impl Send for Out {}

impl Out {
    /// Appends bytes of the handshake.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.left_bytes += bytes.len();
        self.left.push_back(Left::Bytes(bytes.to_vec(), 0));
    }

    /// Bytes that a full socket did not take.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.left_bytes
    }

    /// Returns whether the socket has not accepted all bytes.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.left.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.left.is_empty()
    }

    /// Sends what waits; how many replies have left the queue.
    pub(crate) fn flush(
        &mut self,
        fd: i32,
        backend: &dyn Backend,
        scratch: &mut Scratch,
    ) -> (u32, Flushed) {
        let mut gone = 0;
        loop {
            if self.is_broken {
                gone += self.queue.len() as u32;
                self.queue.clear();
                self.left.clear();
                self.left_bytes = 0;
                return (gone, Flushed::Broken);
            }
            scratch.clear();
            if self.left.is_empty() {
                if self.queue.is_empty() {
                    return (gone, Flushed::All);
                }
                gone += self.gather(backend, scratch);
            } else {
                self.gather_left(scratch);
            }
            // SAFETY: heads and bytes of `scratch`, of `left`, and of the device, all alive.
            let sent = unsafe { socket::send(fd, &scratch.pieces) };
            let is_full = matches!(&sent, Err(e) if e.kind() == io::ErrorKind::WouldBlock);
            match sent {
                Ok(sent) if self.left.is_empty() => self.keep(scratch, sent),
                // Whether the socket is full the next call says.
                Ok(sent) => self.drop_left(sent),
                Err(e) if is_full || e.kind() == io::ErrorKind::Interrupted => {
                    if self.left.is_empty() {
                        self.keep(scratch, 0);
                    }
                }
                Err(_) => self.is_broken = true,
            }
            // What did not leave was copied; others may want the room.
            scratch.leases.clear();
            if is_full {
                return (gone, Flushed::Blocked);
            }
        }
    }

    /// Builds one call's worth of replies; how many of them are finished by it.
    fn gather(&mut self, backend: &dyn Backend, scratch: &mut Scratch) -> u32 {
        let mut finished = 0;
        let now = ticks();
        while scratch.has_room() {
            let Some(next) = self.queue.front_mut() else { break };
            let structured = self.structured;
            let whole = match next.what {
                What::Read { offset, length, whole } if next.error.is_none() => {
                    if let Some(lease) = &next.data {
                        scratch.head(head_of(next.cookie, offset, length, structured));
                        scratch.piece(lease.at().cast_const(), length as usize, false);
                        true
                    } else if let Some(window) = backend.window() {
                        scratch.head(head_of(next.cookie, offset, length, structured));
                        if length > 0 {
                            scratch.piece(window.at(offset), length as usize, true);
                        }
                        true
                    } else {
                        let range = (offset, length, whole);
                        match read_piece(next, range, structured, backend, scratch) {
                            Piece::Last => true,
                            Piece::More => false,
                            Piece::Full => break,
                            Piece::Broken => {
                                self.is_broken = true;
                                break;
                            }
                        }
                    }
                }
                What::Status { offset, length, one } if next.error.is_none() => {
                    if !status(next, (offset, length, one), backend, scratch) {
                        break;
                    }
                    true
                }
                What::Read { .. } | What::Status { .. } if structured => {
                    scratch.head(reply::error(next.cookie, next.error.unwrap_or(Errno::Io)));
                    true
                }
                // A simple reply may answer anything but a structured read.
                _ => {
                    scratch.head(reply::simple(next.cookie, next.error));
                    true
                }
            };
            if whole {
                scratch.errors += u64::from(next.error.is_some());
                scratch.latencies.push(now.wrapping_sub(next.came));
                let answered = self.queue.pop_front();
                scratch.leases.extend(answered.and_then(|pending| pending.data));
                finished += 1;
            }
        }
        finished
    }

    fn gather_left(&self, scratch: &mut Scratch) {
        for left in &self.left {
            if scratch.pieces.len() == 2 * MOST_REPLIES {
                break;
            }
            match left {
                Left::Bytes(bytes, at) => {
                    scratch.piece(bytes[*at..].as_ptr(), bytes.len() - at, false);
                }
                Left::Memory(base, length) => scratch.piece(*base, *length, true),
            }
        }
    }

    fn drop_left(&mut self, mut sent: usize) {
        self.left_bytes -= sent.min(self.left_bytes);
        while sent > 0 {
            let Some(first) = self.left.front_mut() else { break };
            let length = match first {
                Left::Bytes(bytes, at) => bytes.len() - *at,
                Left::Memory(_, length) => *length,
            };
            if length <= sent {
                sent -= length;
                self.left.pop_front();
                continue;
            }
            match first {
                Left::Bytes(_, at) => *at += sent,
                Left::Memory(base, length) => {
                    *base = base.wrapping_add(sent);
                    *length -= sent;
                }
            }
            sent = 0;
        }
    }

    /// Keeps what one call did not take.
    fn keep(&mut self, scratch: &Scratch, mut sent: usize) {
        for (piece, &stays) in scratch.pieces.iter().zip(&scratch.stays) {
            let skipped = sent.min(piece.iov_len);
            sent -= skipped;
            let length = piece.iov_len - skipped;
            if length == 0 {
                continue;
            }
            let base = piece.iov_base.cast::<u8>().cast_const().wrapping_add(skipped);
            self.left_bytes += length;
            self.left.push_back(if stays {
                Left::Memory(base, length)
            } else {
                // SAFETY: a piece of `scratch` or of its leases, which nobody else writes.
                Left::Bytes(unsafe { std::slice::from_raw_parts(base, length) }.to_vec(), 0)
            });
        }
    }
}

#[inline]
fn head_of(cookie: u64, offset: u64, length: u32, structured: bool) -> Head {
    match (structured, length) {
        (false, _) => reply::simple(cookie, None),
        // A chunk of data has one byte at least.
        (true, 0) => reply::end(cookie),
        (true, _) => reply::data(cookie, offset, length, true),
    }
}

enum Piece {
    /// The reply is complete.
    Last,
    /// More of it is to be read.
    More,
    /// There is no room for it in this call.
    Full,
    /// A partial reply that can neither be completed nor revoked.
    Broken,
}

/// Says what of a range is a hole; false if there is no room for it in this call.
fn status(
    next: &mut Pending,
    (offset, length, one): (u64, u32, bool),
    backend: &dyn Backend,
    scratch: &mut Scratch,
) -> bool {
    // Before the device is asked: its answer would be lost if it did not fit.
    if scratch.used + MOST_EXTENTS * reply::EXTENT > SCRATCH {
        return false;
    }
    let most = if one { 1 } else { MOST_EXTENTS };
    let mut extents = Vec::new();
    let begun = ticks();
    let found = backend.extents((offset, u64::from(length)), most, &mut extents);
    scratch.backend += ticks().wrapping_sub(begun);
    if let Err(e) = found {
        let error = Errno::of(&e);
        next.error = Some(error);
        scratch.head(reply::error(next.cookie, error));
        return true;
    }
    scratch.head(reply::status(next.cookie, ALLOCATION_ID, extents.len() as u32));
    let from = scratch.used;
    for Extent { length, hole } in extents {
        let bytes = reply::extent(length as u32, hole);
        scratch.bytes[scratch.used..scratch.used + bytes.len()].copy_from_slice(&bytes);
        scratch.used += bytes.len();
    }
    let base = scratch.bytes[from..].as_ptr();
    scratch.piece(base, scratch.used - from, false);
    true
}

/// Reads the next piece of a reply from a device that has no memory to send from.
fn read_piece(
    next: &mut Pending,
    (offset, length, whole): (u64, u32, bool),
    structured: bool,
    backend: &dyn Backend,
    scratch: &mut Scratch,
) -> Piece {
    let count = ((length - next.sent) as usize).min(PIECE);
    if scratch.used + count > SCRATCH {
        return Piece::Full;
    }
    let at = offset + u64::from(next.sent);
    let begun = ticks();
    let into = &mut scratch.bytes[scratch.used..scratch.used + count];
    let read = backend.read(at, into);
    let base = into.as_ptr();
    scratch.backend += ticks().wrapping_sub(begun);
    // NBD_CMD_FLAG_DF demands the whole answer in one chunk.
    let chunks = structured && !whole;
    if let Err(e) = read {
        // The head has promised all bytes: no error can follow in the midst of them.
        if next.sent > 0 && !chunks {
            return Piece::Broken;
        }
        next.error = Some(Errno::of(&e));
        scratch.head(match next.error {
            Some(error) if structured => reply::error(next.cookie, error),
            error => reply::simple(next.cookie, error),
        });
        return Piece::Last;
    }
    let last = next.sent as usize + count == length as usize;
    if chunks && length > 0 {
        scratch.head(reply::data(next.cookie, at, count as u32, last));
    } else if next.sent == 0 {
        scratch.head(head_of(next.cookie, offset, length, structured));
    }
    scratch.piece(base, count, false);
    scratch.used += count;
    next.sent += count as u32;
    if last {
        Piece::Last
    } else {
        Piece::More
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;
    use crate::backend::Ram;
    use crate::lease::Pool;

    fn read_of(pool: &Arc<Pool>, cookie: u64) -> Pending {
        let mut lease = pool.lease(4096).unwrap();
        lease.bytes(4096).fill(cookie as u8);
        let what = What::Read { offset: 0, length: 4096, whole: false };
        Pending { cookie, what, error: None, sent: 0, came: 0, data: Some(lease) }
    }

    #[test]
    fn what_was_fetched_is_kept_until_it_has_left_and_no_longer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (pool, ram) = (Pool::new().unwrap(), Ram::new(1 << 20).unwrap());
        let (mut out, mut scratch) = (Out::default(), Scratch::default());
        out.queue.push_back(read_of(&pool, 1));
        let others: Vec<_> = std::iter::from_fn(|| pool.lease(4096)).collect();
        assert_eq!(out.gather(&ram, &mut scratch), 1);
        assert!(pool.lease(4096).is_none(), "somebody else may write there before it has left");
        scratch.clear();
        assert!(pool.lease(4096).is_some());
        drop(others);
        // More than the socket takes: what is left is a copy.
        (0..200).for_each(|cookie| out.queue.push_back(read_of(&pool, cookie)));
        let (mut gone, flushed) = out.flush(ours.as_raw_fd(), &ram, &mut scratch);
        assert_eq!(flushed, Flushed::Blocked);
        let held = out.queue.len();
        let rest: Vec<_> = std::iter::from_fn(|| pool.lease(4096)).collect();
        assert_eq!(rest.len() + held, 512);
        drop(rest);
        let mut got = vec![0; 200 * (16 + 4096)];
        let mut at = 0;
        while at < got.len() {
            at += theirs.read(&mut got[at..]).unwrap();
            gone += out.flush(ours.as_raw_fd(), &ram, &mut scratch).0;
        }
        assert_eq!(gone, 200);
        for (cookie, reply) in got.chunks(16 + 4096).enumerate() {
            assert!(reply[16..].iter().all(|&byte| byte == cookie as u8));
        }
    }
}
