//! AF_XDP: the driver (or the kernel just behind it) copies a frame into a chunk of ours, and back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xdp::nic::NicIndex;
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::{CompletionRing, RingConfigBuilder, RxRing, Umem, WakableFillRing, WakableTxRing};

use super::{last, Interface, Io, Lane, Opened, Receive, Transmit};
use crate::bpf::Redirect;
use crate::pool::{Pool, Queue, Slot};

/// Descriptors of each ring: room for the frames that arrive while the receiver's CPU is taken by
/// others for 10 ms and more.
pub(super) const RING: u32 = 4096;
/// The kernel sends so many frames for one call.
const PER_CALL: usize = 32;
/// A queue that was in use a moment ago answers EBUSY for that long at most.
const PATIENCE: Duration = Duration::from_millis(500);
/// Frames handed over to the sending ring at a time.
const AT_ONCE: usize = 256;

pub(super) fn open(
    interface: Interface,
    generic: bool,
    queues: Option<u32>,
    pool: &Pool,
) -> io::Result<Opened> {
    let redirect = Redirect::attach(interface.index, generic)?;
    if !generic && !redirect.is_native() {
        return Err(io::Error::other("its driver runs no XDP programs; use af-xdp-generic"));
    }
    let queues = queues.unwrap_or(interface.queues).clamp(1, interface.queues);
    let mut lanes = Vec::new();
    for queue in 0..queues {
        let (lane, socket) = lane(interface.index, queue, pool)?;
        redirect.hand(queue, socket.as_raw_fd())?;
        lanes.push(lane);
    }
    let io = if redirect.is_native() { Io::AfXdp } else { Io::AfXdpGeneric };
    Ok(Opened { lanes, io, interface, keep: Some(Box::new(redirect)) })
}

fn lane(interface: u32, queue: u32, pool: &Pool) -> io::Result<(Lane, Arc<XdpSocket>)> {
    let rings = RingConfigBuilder {
        rx_count: RING,
        tx_count: RING,
        fill_count: RING,
        completion_count: RING,
    };
    let config = rings.build().map_err(|e| io::Error::other(format!("{e:?}")))?;
    let begun = Instant::now();
    let (rings, socket) = loop {
        let mut builder = XdpSocketBuilder::new().map_err(kernel)?;
        let (rings, flags) = builder.build_wakable_rings(&pool.umem(), config).map_err(kernel)?;
        match builder.bind(NicIndex::new(interface), queue, flags).map_err(kernel) {
            Ok(socket) => break (rings, Arc::new(socket)),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) => return Err(e),
        }
    };
    let (Some(rx), Some(tx)) = (rings.rx_ring, rings.tx_ring) else {
        return Err(io::Error::other("no rings"));
    };
    let (fill, owed, lent) = (rings.fill_ring, RING as usize, Lent::default());
    let mut receiver = Receiver { rx, fill, socket: socket.clone(), owed, lent };
    receiver.refill(pool);
    let (completion, lent) = (rings.completion_ring, Lent::default());
    let sender = Sender { tx, completion, socket: socket.clone(), under_way: 0, lent };
    Ok((Lane { receiver: Box::new(receiver), sender: Box::new(sender) }, socket))
}

fn kernel(error: SocketError) -> io::Error {
    match error {
        SocketError::SocketCreation(e) | SocketError::Bind(e) => e,
        SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => inner,
    }
}

/// Chunks that the kernel has by a ring. When its socket is closed it returns none of them.
#[derive(Default)]
struct Lent {
    /// Slots of these chunks, by the number of the chunk.
    slots: Vec<Option<Slot>>,
    /// Chunks on their way into a ring or out of it.
    passing: Vec<Slot>,
}

impl Lent {
    /// Names the chunks that `umem` gives away next, and leaves them there: rings take chunks from
    /// its front, and put them back there, without a word.
    fn pass(&mut self, umem: &mut Umem, most: usize) {
        self.passing.clear();
        // SAFETY: each goes back at once, in the order that keeps the front as it was; its other
        // name is used only while the kernel has the chunk.
        unsafe {
            while self.passing.len() < most {
                let Some(packet) = umem.alloc() else { break };
                self.passing.push(Slot::received(packet));
            }
            for slot in self.passing.iter().rev() {
                umem.free_packet(slot.named_twice().into_packet());
            }
        }
    }

    /// Notes that the kernel has the first of those that pass.
    fn add(&mut self, pool: &Pool, count: usize) {
        for slot in self.passing.drain(..count) {
            let number = pool.number(&slot);
            if number >= self.slots.len() {
                self.slots.resize_with(number + 1, || None);
            }
            debug_assert!(self.slots[number].is_none(), "chunk {number} was lent already");
            self.slots[number] = Some(slot);
        }
    }

    fn remove(&mut self, pool: &Pool, slot: &Slot) {
        let lent = self.slots.get_mut(pool.number(slot)).and_then(Option::take);
        debug_assert!(lent.is_some(), "the kernel returned a chunk that it had not");
    }

    fn into_slots(self) -> Vec<Slot> {
        self.slots.into_iter().flatten().collect()
    }
}

struct Receiver {
    rx: RxRing,
    fill: WakableFillRing,
    socket: Arc<XdpSocket>,
    /// Chunks that the kernel should get.
    owed: usize,
    lent: Lent,
}

impl Receiver {
    fn refill(&mut self, pool: &Pool) {
        // Half of what it has is enough to go on with; each refill has its price.
        if self.owed < PER_CALL {
            return;
        }
        let mut umem = pool.umem();
        self.lent.pass(&mut umem, self.owed);
        // SAFETY: the pool outlives its chunks, see `Slot`.
        let given = unsafe { self.fill.enqueue(&mut umem, self.owed, false) }.unwrap_or(0);
        self.lent.add(pool, given);
        self.owed -= given;
    }
}

impl Receive for Receiver {
    fn receive(
        &mut self,
        pool: &Pool,
        most: usize,
        into: &mut VecDeque<Slot>,
    ) -> io::Result<usize> {
        let before = into.len();
        let room = before + most;
        // SAFETY: the pool outlives its chunks, see `Slot`.
        let found = unsafe { self.rx.recv(&pool.umem(), &mut Queue(into, room)) };
        into.range(before..).for_each(|slot| self.lent.remove(pool, slot));
        self.owed += found;
        self.refill(pool);
        Ok(found)
    }

    fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn lost(&mut self) -> u64 {
        self.socket.statistics().map_or(0, |s| s.rx_dropped + s.rx_ring_full)
    }

    fn close(self: Box<Self>) -> Vec<Slot> {
        self.lent.into_slots()
    }
}

struct Sender {
    tx: WakableTxRing,
    completion: CompletionRing,
    socket: Arc<XdpSocket>,
    under_way: usize,
    lent: Lent,
}

impl Sender {
    /// Has the kernel send; in copy mode all that fits into a call has left when it returns.
    fn kick(&self) -> io::Result<()> {
        // SAFETY: no addresses.
        let sent = unsafe {
            let none = std::ptr::null();
            libc::sendto(self.socket.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = last();
        match error.raw_os_error() {
            // More is to be sent than fits into a call, or the queue behind is full.
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
            _ => Err(error),
        }
    }

    fn collect(&mut self, pool: &Pool) {
        let mut umem = pool.umem();
        let back = self.completion.dequeue(&mut umem, self.under_way);
        self.under_way -= back;
        self.lent.pass(&mut umem, back);
        while let Some(slot) = self.lent.passing.pop() {
            self.lent.remove(pool, &slot);
        }
    }
}

impl Transmit for Sender {
    fn send(&mut self, pool: &Pool, slots: &mut VecDeque<Slot>) -> io::Result<()> {
        let mut idle_calls = 0;
        while !(slots.is_empty() && self.under_way == 0) && idle_calls < 64 {
            let most = (RING as usize - self.under_way).min(AT_ONCE).min(slots.len());
            if most > 0 {
                let mut rest = slots.split_off(most);
                self.lent.passing.clear();
                // SAFETY: a slot that is sent is used no more by its first name.
                self.lent.passing.extend(slots.iter().map(|slot| unsafe { slot.named_twice() }));
                // SAFETY: the pool outlives its chunks, see `Slot`.
                let sent = unsafe { self.tx.send(&mut Queue(slots, most), false) }.unwrap_or(0);
                self.lent.add(pool, sent);
                self.under_way += sent;
                slots.append(&mut rest);
            }
            let before = self.under_way;
            self.kick()?;
            self.collect(pool);
            if self.under_way == before {
                idle_calls += 1;
                std::hint::spin_loop();
            } else {
                idle_calls = 0;
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Vec<Slot> {
        self.lent.into_slots()
    }
}
