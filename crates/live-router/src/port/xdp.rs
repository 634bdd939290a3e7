//! AF_XDP: the driver (or the kernel just behind it) copies a frame into a chunk of ours, and back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xdp::nic::NicIndex;
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::{CompletionRing, RingConfigBuilder, RxRing, WakableFillRing, WakableTxRing};

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
    let mut receiver =
        Receiver { rx, fill: rings.fill_ring, socket: socket.clone(), owed: RING as usize };
    receiver.refill(pool);
    let sender =
        Sender { tx, completion: rings.completion_ring, socket: socket.clone(), under_way: 0 };
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

struct Receiver {
    rx: RxRing,
    fill: WakableFillRing,
    socket: Arc<XdpSocket>,
    /// Chunks that the kernel should get.
    owed: usize,
}

impl Receiver {
    fn refill(&mut self, pool: &Pool) {
        // Half of what it has is enough to go on with; each refill has its price.
        if self.owed < PER_CALL {
            return;
        }
        let mut umem = pool.umem();
        // SAFETY: the pool outlives its chunks, see `Slot`.
        let given = unsafe { self.fill.enqueue(&mut umem, self.owed, false) };
        self.owed -= given.unwrap_or(0);
    }
}

impl Receive for Receiver {
    fn receive(
        &mut self,
        pool: &Pool,
        most: usize,
        into: &mut VecDeque<Slot>,
    ) -> io::Result<usize> {
        let room = into.len() + most;
        // SAFETY: the pool outlives its chunks, see `Slot`.
        let found = unsafe { self.rx.recv(&pool.umem(), &mut Queue(into, room)) };
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
}

struct Sender {
    tx: WakableTxRing,
    completion: CompletionRing,
    socket: Arc<XdpSocket>,
    under_way: usize,
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
        self.under_way -= self.completion.dequeue(&mut pool.umem(), self.under_way);
    }
}

impl Transmit for Sender {
    fn send(&mut self, pool: &Pool, slots: &mut VecDeque<Slot>) -> io::Result<()> {
        let mut idle_calls = 0;
        while !(slots.is_empty() && self.under_way == 0) && idle_calls < 64 {
            let most = (RING as usize - self.under_way).min(AT_ONCE).min(slots.len());
            if most > 0 {
                let mut rest = slots.split_off(most);
                // SAFETY: the pool outlives its chunks, see `Slot`.
                let sent = unsafe { self.tx.send(&mut Queue(slots, most), false) };
                self.under_way += sent.unwrap_or(0);
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
}
