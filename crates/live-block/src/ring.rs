//! A worker's own io_uring: what it has asked of a file, and what has come of it.
//!
//! ```text
//!  requests ──▶ slots ──▶ one io_uring_enter() for all ──▶ done at once, or in flight
//!                          landed ◀── the ring's memory ◀── kernel, which wakes by eventfd
//! ```

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

use io_uring::{opcode, squeue, types, IoUring};

use crate::backend::{is_whole, Backend, Closed, Gate, Rings};
use crate::conn::Conn;
use crate::lease::{Lease, Pool, LONGEST};
use crate::meter::Count;
use crate::out::{Pending, What};
use crate::proto::Errno;
use crate::socket::Bell;

/// I/Os of one worker in the kernel at once.
const MOST_IN_FLIGHT: usize = 256;
/// The file through the page cache and past it, as the ring knows them.
const CACHED: types::Fixed = types::Fixed(0);
const DIRECT: types::Fixed = types::Fixed(1);

/// Counters of a ring. Its worker writes them, other threads read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// I/Os that went through it.
    pub(crate) ios: Count,
    /// Number of these that bypassed the page cache.
    pub(crate) direct: Count,
    /// Reads by a call of their own, of what the page cache had.
    pub(crate) at_once: Count,
    /// Calls into the kernel for them.
    pub(crate) enters: Count,
    /// I/Os that came back unfinished, and were done by a call of their own.
    pub(crate) again: Count,
    /// Writes of parts of pages, which held up those past the page cache.
    pub(crate) parts: Count,
}

/// An I/O that the device has.
#[derive(Debug)]
struct Flight {
    conn: Arc<Conn>,
    pending: Pending,
    lease: Lease,
    offset: u64,
    length: u32,
    kind: Kind,
    direct: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    /// `fua`: stable storage has to follow.
    Write {
        fua: bool,
    },
}

/// An I/O that the device is done with.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) conn: Arc<Conn>,
    pub(crate) pending: Pending,
    /// Stable storage has to follow.
    pub(crate) fua: bool,
}

/// The ring. It belongs to the thread that made it.
pub(crate) struct Ring {
    ring: IoUring,
    bell: Bell,
    gate: Arc<Gate>,
    direct: bool,
    pool: Arc<Pool>,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    in_flight: usize,
    direct_writes: u32,
    queued: bool,
    landed: VecDeque<Landed>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// A ring for the calling thread.
fn set_up() -> io::Result<IoUring> {
    let entries = MOST_IN_FLIGHT as u32;
    // Nothing interrupts the thread: what is done waits until it looks. Linux 6.1.
    let made = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    match made {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        other => other,
    }
}

/// Returns the reason why io_uring is not available here, if there is one.
pub(crate) fn refusal() -> Option<io::Error> {
    let wanted = |ring: IoUring| {
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let has = [opcode::Read::CODE, opcode::Write::CODE].map(|code| probe.is_supported(code));
        if has != [true; 2] {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(())
    };
    set_up().and_then(wanted).err()
}

impl Ring {
    pub(crate) fn new(device: &Rings) -> io::Result<Ring> {
        let mut ring = set_up()?;
        let bell = Bell::new()?;
        let (cached, direct) = device.files();
        ring.submitter()
            .register_files(&[cached.as_raw_fd(), direct.unwrap_or(cached).as_raw_fd()])?;
        ring.submitter().register_eventfd(bell.fd())?;
        ring.completion().disable_eventfd();
        Ok(Ring {
            ring,
            bell,
            gate: Arc::clone(device.gate()),
            direct: direct.is_some(),
            pool: Pool::new()?,
            flights: (0..MOST_IN_FLIGHT).map(|_| None).collect(),
            free: (0..MOST_IN_FLIGHT).rev().collect(),
            in_flight: 0,
            direct_writes: 0,
            queued: false,
            landed: VecDeque::with_capacity(MOST_IN_FLIGHT),
        })
    }

    /// Returns the eventfd that wakes a waiting thread once it is armed. It triggers at every new
    /// event, not until it is read.
    pub(crate) fn bell(&self) -> i32 {
        self.bell.fd()
    }

    /// Asks for the bytes of a read; gives it back if there is no room, or it is too long.
    pub(crate) fn read(&mut self, conn: &Arc<Conn>, pending: Pending) -> Result<(), Pending> {
        let What::Read { offset, length, .. } = pending.what else { return Err(pending) };
        if pending.error.is_some() || length == 0 || length > LONGEST || self.free.is_empty() {
            return Err(pending);
        }
        let Some(lease) = self.pool.lease(length) else { return Err(pending) };
        let direct = self.direct && is_whole(offset, u64::from(length));
        let conn = Arc::clone(conn);
        self.fly(Flight { conn, pending, lease, offset, length, kind: Kind::Read, direct });
        Ok(())
    }

    /// A read alone is had sooner by a call, if the page cache has it; gives it back if not.
    pub(crate) fn at_once(
        &mut self,
        mut pending: Pending,
        device: &Rings,
        counters: &Counters,
    ) -> Result<Pending, Pending> {
        let What::Read { offset, length, .. } = pending.what else { return Err(pending) };
        if self.direct || self.in_flight > 0 || pending.error.is_some() || length == 0 {
            return Err(pending);
        }
        let Some(mut lease) = self.pool.lease(length) else { return Err(pending) };
        if !device.read_at_once(offset, lease.bytes(length as usize)) {
            return Err(pending);
        }
        counters.at_once.add(1);
        pending.data = Some(lease);
        Ok(pending)
    }

    /// Writes past the page cache; gives it back if it cannot go that way: into the cache, a call
    /// of its own is as fast, and a ring would have a kernel thread make it.
    pub(crate) fn write(
        &mut self,
        conn: &Arc<Conn>,
        pending: Pending,
        (offset, body): (u64, &[u8]),
        fua: bool,
    ) -> Result<(), Pending> {
        let length = body.len() as u32;
        let fits = length > 0 && length <= LONGEST && is_whole(offset, u64::from(length));
        if !self.direct || !fits || self.free.is_empty() {
            return Err(pending);
        }
        let Some(mut lease) = self.pool.lease(length) else { return Err(pending) };
        if !self.gate.enter() {
            return Err(pending);
        }
        self.direct_writes += 1;
        lease.bytes(body.len()).copy_from_slice(body);
        let (conn, kind) = (Arc::clone(conn), Kind::Write { fua });
        self.fly(Flight { conn, pending, lease, offset, length, kind, direct: true });
        Ok(())
    }

    fn fly(&mut self, flight: Flight) {
        let Some(number) = self.free.pop() else { return };
        let Flight { ref lease, offset, length, kind, direct, .. } = flight;
        let file = if direct { DIRECT } else { CACHED };
        let entry: squeue::Entry = match kind {
            Kind::Read => opcode::Read::new(file, lease.at(), length).offset(offset).build(),
            Kind::Write { .. } => {
                opcode::Write::new(file, lease.at(), length).offset(offset).build()
            }
        };
        let entry = entry.user_data(number as u64);
        self.flights[number] = Some(flight);
        self.in_flight += 1;
        self.queued = true;
        // SAFETY: the slot is the flight's, which stays here until the kernel is done with it.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // There is an entry for each flight, and none stays behind in a call.
        debug_assert!(pushed.is_ok());
    }

    /// Tells the kernel what was asked for, in one call, and takes what it is done with.
    pub(crate) fn turn(&mut self, backend: &dyn Backend, counters: &Counters) {
        if self.in_flight == 0 {
            return;
        }
        if self.queued || self.ring.submission().taskrun() {
            counters.enters.add(1);
            // What it did not take now it takes next time: `is_ready` says so.
            let _ = self.ring.submit();
            self.queued = !self.ring.submission().is_empty();
        }
        self.reap(backend, counters);
    }

    fn reap(&mut self, backend: &dyn Backend, counters: &Counters) {
        let Ring { ring, flights, free, gate, landed, .. } = self;
        let (mut done, mut direct_writes) = (0, 0);
        for event in ring.completion() {
            let number = event.user_data() as usize;
            let Some(flight) = flights.get_mut(number).and_then(Option::take) else { continue };
            free.push(number);
            done += 1;
            counters.ios.add(1);
            counters.direct.add(u64::from(flight.direct));
            let is_write = flight.kind != Kind::Read;
            landed.push_back(flight.land(event.result(), backend, counters));
            if is_write {
                // Only now: what was left over was written before.
                gate.leave();
                direct_writes += 1;
            }
        }
        self.in_flight -= done;
        self.direct_writes -= direct_writes;
    }

    /// The next that the device is done with.
    pub(crate) fn next(&mut self) -> Option<Landed> {
        self.landed.pop_front()
    }

    /// Has the bell rung from now on; whether something is there already.
    pub(crate) fn arm(&mut self) -> bool {
        if self.in_flight == 0 {
            return false;
        }
        self.ring.completion().enable_eventfd();
        fence(Ordering::SeqCst);
        self.queued || self.ring.submission().taskrun() || !self.ring.completion().is_empty()
    }

    /// Disarms the bell, as no thread waits for it any more.
    pub(crate) fn disarm(&mut self) {
        self.ring.completion().disable_eventfd();
    }

    /// Before a part of a page is written: waits for all writes past the page cache, its own and
    /// others', and keeps new ones from beginning. None if there can be no such writes.
    pub(crate) fn alone(
        &mut self,
        (offset, length): (u64, u64),
        backend: &dyn Backend,
        counters: &Counters,
    ) -> Option<Closed> {
        if !self.direct || is_whole(offset, length) {
            return None;
        }
        counters.parts.add(1);
        while self.direct_writes > 0 {
            self.wait(backend, counters);
        }
        Some(self.gate.close())
    }

    /// Waits for one at least.
    fn wait(&mut self, backend: &dyn Backend, counters: &Counters) {
        counters.enters.add(1);
        // An interrupted call is made again by the caller, who looks what has come.
        let _ = self.ring.submit_and_wait(1);
        self.queued = !self.ring.submission().is_empty();
        self.reap(backend, counters);
    }

    /// Waits for all I/Os in flight.
    pub(crate) fn settle(&mut self, backend: &dyn Backend, counters: &Counters) {
        while self.in_flight > 0 {
            self.wait(backend, counters);
        }
    }
}

impl Flight {
    /// Returns the result of the I/O: all of its bytes, or an error.
    fn land(mut self, result: i32, backend: &dyn Backend, counters: &Counters) -> Landed {
        let length = self.length as usize;
        let mut error = None;
        if result < 0 || result as usize != length {
            // Cut short, refused by a file system after all, or an error, which comes again.
            counters.again.add(1);
            let bytes = self.lease.bytes(length);
            let done = match self.kind {
                Kind::Read => backend.read(self.offset, bytes),
                Kind::Write { .. } => backend.write(self.offset, bytes),
            };
            error = done.err().as_ref().map(Errno::of);
        }
        self.pending.error = error;
        let fua = self.kind == Kind::Write { fua: true } && error.is_none();
        if self.kind == Kind::Read && error.is_none() {
            self.pending.data = Some(self.lease);
        }
        Landed { conn: self.conn, pending: self.pending, fua }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A worker that ends has settled; one that dies has not.
        while self.in_flight > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // The kernel may still write there.
                    mem::forget(mem::take(&mut self.flights));
                    return;
                }
            }
            for event in self.ring.completion() {
                let flight =
                    self.flights.get_mut(event.user_data() as usize).and_then(Option::take);
                let Some(flight) = flight else { continue };
                self.in_flight -= 1;
                if flight.kind != Kind::Read {
                    self.gate.leave();
                }
            }
        }
    }
}
