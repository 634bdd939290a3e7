//! A connection: its receiving half belongs to one thread, its sending half to whoever completes.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use halfwink_live::clock::ticks;

use crate::backend::{Backend, Closed};
use crate::out::{Flushed, Out, Pending, Scratch, What};
use crate::proto::handshake::greeting;
use crate::proto::request::HEAD;
use crate::proto::{Command, Errno, Export, Handshake, Request, Session, Step};
use crate::ring::{Counters, Ring};
use crate::socket::{self, Epoll};

/// Requests of one connection that may be under way; then it is not read any more.
pub(crate) const MOST_UNDER_WAY: u32 = 1024;
/// Bytes that are read at once.
const BUFFER: usize = 128 << 10;
/// A write that is longer is written as it comes.
const WHOLE: u32 = 64 << 10;
/// Pieces of a write end at multiples of this.
const BLOCK: u64 = 4096;
/// Bytes of answers that a client in its handshake may leave unread.
const MOST_UNREAD: usize = 64 << 10;

/// State of a connection that all threads share.
#[derive(Debug)]
pub(crate) struct Conn {
    fd: OwnedFd,
    token: u64,
    epoll: Arc<Epoll>,
    /// The worker that its client is near to.
    pub(crate) issuer: u16,
    under_way: AtomicU32,
    out: Mutex<Out>,
}

impl Conn {
    pub(crate) fn new(fd: OwnedFd, token: u64, epoll: Arc<Epoll>, issuer: u16) -> Arc<Conn> {
        let mut out = Out::default();
        out.interest = libc::EPOLLIN as u32;
        let under_way = AtomicU32::new(0);
        Arc::new(Conn { fd, token, epoll, issuer, under_way, out: Mutex::new(out) })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts the connection down in both directions, although other threads may still hold parts of
    /// it.
    pub(crate) fn hang_up(&self) {
        // SAFETY: plain numbers.
        unsafe { libc::shutdown(self.fd(), libc::SHUT_RDWR) };
    }

    /// Sends what waits, and sees to it that the owner goes on when it may.
    pub(crate) fn flush(&self, out: &mut Out, backend: &dyn Backend, scratch: &mut Scratch) {
        let (gone, flushed) = out.flush(self.fd(), backend, scratch);
        let left = self.under_way.fetch_sub(gone, Ordering::Relaxed) - gone;
        let resumes = out.resumes_at.is_some_and(|at| left <= at);
        let mut interest = 0;
        if out.resumes_at.is_none() {
            interest |= libc::EPOLLIN as u32;
        }
        // A socket that can be written is how the owner hears that it may read on.
        if flushed != Flushed::All || resumes {
            interest |= libc::EPOLLOUT as u32;
        }
        if interest != out.interest {
            out.interest = interest;
            self.epoll.change(self.fd(), interest, self.token);
        }
    }

    /// Answers one request, from any thread.
    pub(crate) fn answer(&self, pending: Pending, backend: &dyn Backend, scratch: &mut Scratch) {
        let mut out = self.out();
        out.queue.push_back(pending);
        self.flush(&mut out, backend, scratch);
    }
}

/// Reason why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Client and server parted in good order.
    Done,
    /// The client has vanished.
    Gone,
    /// The client violated the protocol.
    Refused,
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake, Instant),
    Requests,
    /// A long write comes, so many bytes of which are missing.
    Write {
        pending: Pending,
        at: u64,
        left: u32,
        fua: bool,
    },
    /// Reads nothing more, and ends once all requests are answered.
    Draining(Over),
}

/// Results of the requests that were read together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Requests that the device has finished, or finishes when the reply is sent.
    pub(crate) done: Vec<Pending>,
    /// Requests that wait for stable storage.
    pub(crate) slow: Vec<Pending>,
    pub(crate) counts: Counts,
    /// Ticks in the device, and in reading.
    pub(crate) backend: u64,
    pub(crate) read: u64,
    /// The thread's own way to a file.
    pub(crate) ring: Option<Ring>,
    pub(crate) ring_counters: Arc<Counters>,
}

impl Batch {
    /// While a part of a page is written.
    fn alone(&mut self, offset: u64, length: u64, backend: &dyn Backend) -> Option<Closed> {
        let ring = self.ring.as_mut()?;
        ring.alone((offset, length), backend, &self.ring_counters)
    }
}

/// Number of requests by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of trims.
    pub trims: u64,
    /// Number of write-zeroes requests.
    pub zeroes: u64,
    /// Number of cache requests (`NBD_CMD_CACHE`).
    pub caches: u64,
    /// Questions what is a hole.
    pub statuses: u64,
    /// Number of rejected requests.
    pub refused: u64,
    /// Number of bytes that were asked to be read, also by requests that failed.
    pub read_bytes: u64,
    /// Number of bytes that were asked to be written, also by requests that failed.
    pub written_bytes: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, more: &Counts) {
        self.reads += more.reads;
        self.writes += more.writes;
        self.flushes += more.flushes;
        self.trims += more.trims;
        self.zeroes += more.zeroes;
        self.caches += more.caches;
        self.statuses += more.statuses;
        self.refused += more.refused;
        self.read_bytes += more.read_bytes;
        self.written_bytes += more.written_bytes;
    }
}

/// The receiving half, which one thread owns.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) conn: Arc<Conn>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    phase: Phase,
    session: Session,
    /// No more will come.
    ended: bool,
}

impl Reader {
    pub(crate) fn new(conn: Arc<Conn>) -> Reader {
        conn.out().say(&greeting());
        let phase = Phase::Handshake(Handshake::default(), Instant::now());
        let (buffer, session) = (vec![0; BUFFER], Session::default());
        Reader { conn, buffer, start: 0, end: 0, phase, session, ended: false }
    }

    /// Returns when the handshake began, if it is not over.
    pub(crate) fn haggles_since(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Handshake(_, since) => Some(*since),
            _ => None,
        }
    }

    /// Returns whether reading has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// Reads what has come and does what the device does at once. Replies are the caller's.
    ///
    /// # Errors
    /// Why the connection is over.
    pub(crate) fn take(
        &mut self,
        export: &Export,
        backend: &dyn Backend,
        batch: &mut Batch,
    ) -> Result<(), Over> {
        // What was left when there was too much under way comes first.
        self.parse(export, backend, batch)?;
        if self.is_full() || matches!(self.phase, Phase::Draining(_)) || self.ended {
            return self.rest();
        }
        self.compact();
        // A read into no room returns 0, as the end of the stream does.
        if self.end == self.buffer.len() {
            return self.rest();
        }
        let begun = ticks();
        let got = socket::receive(self.conn.fd(), &mut self.buffer[self.end..]);
        batch.read += ticks().wrapping_sub(begun);
        match got {
            Ok(0) => {
                // Replies that are under way still leave: the client may have closed its sending
                // half alone.
                self.ended = true;
                self.hold(Over::Gone);
            }
            Ok(count) => {
                self.end += count;
                self.parse(export, backend, batch)?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Over::Gone),
        }
        self.rest()
    }

    fn under_way(&self) -> u32 {
        self.conn.under_way.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.under_way() >= MOST_UNDER_WAY
    }

    /// Reads nothing more until all is answered.
    fn hold(&mut self, over: Over) {
        self.phase = Phase::Draining(over);
        // Nothing more is read; the owner hears of the connection when its last reply has left.
        self.conn.out().resumes_at = Some(0);
    }

    /// Says whether to go on, and what has to happen first.
    pub(crate) fn rest(&mut self) -> Result<(), Over> {
        let mut out = self.conn.out();
        if out.is_broken {
            return Err(Over::Gone);
        }
        if let Phase::Draining(over) = self.phase {
            return if self.under_way() == 0 && out.is_empty() { Err(over) } else { Ok(()) };
        }
        // At half, so that a full connection does not stop and resume with each reply.
        out.resumes_at = self.is_full().then_some(MOST_UNDER_WAY / 2);
        Ok(())
    }

    fn compact(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.buffer.len() - self.end < WHOLE as usize + HEAD {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    fn parse(
        &mut self,
        export: &Export,
        backend: &dyn Backend,
        batch: &mut Batch,
    ) -> Result<(), Over> {
        while self.start < self.end {
            let goes_on = match &mut self.phase {
                Phase::Handshake(..) => self.haggle(export)?,
                Phase::Requests => !self.is_full() && self.request(export, backend, batch)?,
                Phase::Write { .. } => self.write_on(backend, batch),
                Phase::Draining(_) => false,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn haggle(&mut self, export: &Export) -> Result<bool, Over> {
        let Phase::Handshake(handshake, _) = &mut self.phase else { return Ok(false) };
        let mut answers = Vec::new();
        let fed = handshake.feed(export, &self.buffer[self.start..self.end], &mut answers);
        let mut out = self.conn.out();
        if !answers.is_empty() {
            out.say(&answers);
        }
        if out.waiting_bytes() > MOST_UNREAD {
            return Err(Over::Refused);
        }
        let (taken, step) = fed.map_err(|_| Over::Refused)?;
        self.start += taken;
        match step {
            Step::More => Ok(taken > 0),
            Step::Go(session) => {
                out.structured = session.structured;
                self.session = session;
                self.phase = Phase::Requests;
                Ok(true)
            }
            Step::End => {
                drop(out);
                self.hold(Over::Done);
                Ok(false)
            }
        }
    }

    /// Takes one request, if it is whole or long; whether it did.
    fn request(
        &mut self,
        export: &Export,
        backend: &dyn Backend,
        batch: &mut Batch,
    ) -> Result<bool, Over> {
        let input = &self.buffer[self.start..self.end];
        let Some(request) = Request::parse(input).map_err(|_| Over::Refused)? else {
            return Ok(false);
        };
        let (cookie, came) = (request.cookie, ticks());
        let plain = What::Plain;
        let mut pending = Pending { cookie, what: plain, error: None, sent: 0, came, data: None };
        let payload = request.payload();
        let is_whole = input.len() >= HEAD + payload as usize;
        if !is_whole && payload <= WHOLE {
            return Ok(false);
        }
        let mut command = request.command(export);
        // The protocol has such a query only for a client that has chosen the context.
        if matches!(command, Ok(Command::Status { .. })) && !self.session.allocation {
            command = Err(Errno::Inval);
        }
        self.start += HEAD;
        if let Ok(Command::Disconnect) = command {
            self.hold(Over::Done);
            return Ok(false);
        }
        self.conn.under_way.fetch_add(1, Ordering::Relaxed);
        // The next request is behind a payload that is too long to be read away.
        if request.is_endless() {
            batch.counts.refused += 1;
            pending.error = Some(Errno::Overflow);
            batch.done.push(pending);
            self.hold(Over::Refused);
            return Ok(false);
        }
        if !is_whole || command.is_err() && payload > 0 {
            // Written, or thrown away, as it comes.
            pending.error = command.err();
            let fua = matches!(command, Ok(Command::Write { fua: true }));
            self.phase = Phase::Write { pending, at: request.offset, left: payload, fua };
            return Ok(true);
        }
        let body = self.start..self.start + payload as usize;
        self.start += payload as usize;
        let body = &self.buffer[body];
        if let (Ok(Command::Write { fua }), Some(ring)) = (command, &mut batch.ring) {
            match ring.write(&self.conn, pending, (request.offset, body), fua) {
                Ok(()) => {
                    batch.counts.writes += 1;
                    batch.counts.written_bytes += u64::from(payload);
                    return Ok(true);
                }
                Err(back) => pending = back,
            }
        }
        let slow = perform(&request, command, body, backend, &mut pending, batch);
        if slow && pending.error.is_none() {
            batch.slow.push(pending);
        } else {
            batch.done.push(pending);
        }
        Ok(true)
    }

    /// Takes more of a long write; whether it took any.
    fn write_on(&mut self, backend: &dyn Backend, batch: &mut Batch) -> bool {
        let Phase::Write { pending, at, left, fua } = &mut self.phase else { return false };
        let mut count = (self.end - self.start).min(*left as usize);
        if count < *left as usize && pending.error.is_none() {
            // A block is never written by halves.
            let end = (*at + count as u64) / BLOCK * BLOCK;
            count = end.saturating_sub(*at) as usize;
        }
        if count == 0 && *left > 0 {
            return false;
        }
        if pending.error.is_none() {
            let begun = ticks();
            let _alone = batch.alone(*at, count as u64, backend);
            let written = backend.write(*at, &self.buffer[self.start..self.start + count]);
            batch.backend += ticks().wrapping_sub(begun);
            pending.error = written.err().as_ref().map(Errno::of);
            batch.counts.written_bytes += count as u64;
        }
        self.start += count;
        // The offset of a rejected write may be any number.
        *at = at.wrapping_add(count as u64);
        *left -= count as u32;
        if *left == 0 {
            let fua = *fua;
            let was = std::mem::replace(&mut self.phase, Phase::Requests);
            let Phase::Write { pending, .. } = was else { return true };
            if pending.error.is_some() {
                batch.counts.refused += 1;
            } else {
                batch.counts.writes += 1;
            }
            if fua && pending.error.is_none() && backend.is_flushed_slowly() {
                batch.slow.push(pending);
            } else {
                batch.done.push(pending);
            }
        }
        true
    }
}

/// Has the device do what it does at once; whether stable storage has to follow.
#[inline]
fn perform(
    request: &Request,
    command: Result<Command, Errno>,
    body: &[u8],
    backend: &dyn Backend,
    pending: &mut Pending,
    batch: &mut Batch,
) -> bool {
    let Request { offset, length, .. } = *request;
    let writes = matches!(command, Ok(Command::Write { .. } | Command::WriteZeroes { .. }));
    let _alone = if writes { batch.alone(offset, u64::from(length), backend) } else { None };
    let counts = &mut batch.counts;
    let command = match command {
        Ok(Command::Read { whole }) => {
            counts.reads += 1;
            counts.read_bytes += u64::from(length);
            // Data is fetched when the reply is sent.
            pending.what = What::Read { offset, length, whole };
            return false;
        }
        Ok(Command::Status { one }) => {
            counts.statuses += 1;
            pending.what = What::Status { offset, length, one };
            return false;
        }
        Ok(command) => command,
        Err(error) => {
            counts.refused += 1;
            pending.error = Some(error);
            // In structured replies an error of a read is a chunk, unlike that of other requests.
            if request.is_read() {
                pending.what = What::Read { offset, length: 0, whole: false };
            }
            return false;
        }
    };
    let begun = ticks();
    let long = u64::from(length);
    let (result, fua) = match command {
        Command::Write { fua } => {
            counts.writes += 1;
            counts.written_bytes += long;
            (backend.write(offset, body), fua)
        }
        Command::Trim { fua } => {
            counts.trims += 1;
            (backend.trim(offset, long), fua)
        }
        Command::WriteZeroes { fua, keep, fast } => {
            counts.zeroes += 1;
            (backend.zero(offset, long, keep, fast), fua)
        }
        Command::Cache => {
            counts.caches += 1;
            backend.cache(offset, long);
            (Ok(()), false)
        }
        Command::Flush => {
            counts.flushes += 1;
            // The thread that flushes does it, where the device has anything to flush.
            (Ok(()), true)
        }
        Command::Read { .. } | Command::Status { .. } | Command::Disconnect => (Ok(()), false),
    };
    batch.backend += ticks().wrapping_sub(begun);
    pending.error = result.err().as_ref().map(Errno::of);
    fua && backend.is_flushed_slowly()
}
