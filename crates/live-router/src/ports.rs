//! All ports of a router: their receiving halves in one thread, their sending halves shared. A port
//! whose interface goes away is tried again until it is back.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use halfwink_live::program::config::plain;

use super::claim::Claim;
use super::interface::Interface;
use super::pool::{Pool, Slot, MTU};
use super::port::{self, Io, Receive, Transmit};

/// Between two tries to open a port that is gone.
const AGAIN: Duration = Duration::from_millis(250);

type Half = Mutex<Option<Box<dyn Transmit>>>;

/// Sending halves of a port, by lane.
struct Lanes {
    halves: Vec<Half>,
    /// Number of lanes in use, from the first: an interface may come back with fewer queues.
    open: AtomicUsize,
    /// Chunks of halves that have ended.
    ended: Mutex<Vec<Slot>>,
}

impl Lanes {
    fn end(&self, half: &mut Option<Box<dyn Transmit>>) {
        if let Some(sender) = half.take() {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).extend(sender.close());
        }
    }
}

/// Sending halves, by port and lane.
#[derive(Clone)]
pub(super) struct Senders(Arc<Vec<Lanes>>);

impl Senders {
    pub(super) fn ports(&self) -> usize {
        self.0.len()
    }

    /// Sends by the lane of a worker; what stays in `slots` could not be sent.
    pub(super) fn send(&self, port: usize, worker: usize, pool: &Pool, slots: &mut VecDeque<Slot>) {
        let lanes = &self.0[port];
        // A worker that still has the number of before finds no half in a lane that is gone, as it
        // does while the port is closed: the number orders nothing.
        let open = lanes.open.load(Ordering::Relaxed);
        // More workers than lanes share them, hence the lock.
        let lane = &lanes.halves[worker % open];
        let mut half = lane.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = half.as_mut().is_some_and(|sender| sender.send(pool, slots).is_err());
        // The thread that receives finds no sender here, and closes the port.
        if gone {
            lanes.end(&mut half);
        }
    }

    /// Ends the halves of a port; returns the chunks that they had.
    fn close(&self, port: usize) -> Vec<Slot> {
        let lanes = &self.0[port];
        for half in &lanes.halves {
            lanes.end(&mut half.lock().unwrap_or_else(PoisonError::into_inner));
        }
        std::mem::take(&mut lanes.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens as many lanes of a closed port as there are halves: at least one, and at most as many
    /// as the port began with.
    fn open(&self, port: usize, halves: Vec<Box<dyn Transmit>>) {
        let lanes = &self.0[port];
        lanes.open.store(halves.len(), Ordering::Relaxed);
        for (lane, half) in lanes.halves.iter().zip(halves) {
            *lane.lock().unwrap_or_else(PoisonError::into_inner) = Some(half);
        }
    }

    fn has(&self, port: usize, lane: usize) -> bool {
        let half = &self.0[port].halves[lane];
        half.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// State and counters of a port.
#[derive(Clone, Debug, Serialize)]
pub struct PortSeen {
    /// Name of the interface.
    pub interface: String,
    /// Interface to the kernel that was opened.
    pub io: Io,
    /// Number of queues in use.
    pub queues: usize,
    /// Whether the interface is present.
    pub up: bool,
    /// Frames taken from it.
    pub received: u64,
    /// Frames that the kernel dropped for want of room.
    pub lost: u64,
    /// Frames that came cut off ([`Receive::too_long`]); they are in `received`, and dropped.
    pub too_long: u64,
    /// Times that it went away.
    pub gone: u64,
}

/// State of a port.
struct Port {
    name: String,
    wanted: Io,
    queues: Option<u32>,
    interface: Interface,
    receivers: Vec<Box<dyn Receive>>,
    keep: Option<Box<dyn std::any::Any + Send>>,
    retry: Option<Instant>,
    /// Chunks that the kernel had when the port was closed.
    ended: Vec<Slot>,
    /// Lost and too long at sockets that are closed.
    lost_before: (u64, u64),
    seen: PortSeen,
    _claim: Claim,
}

impl Port {
    /// Frames that were lost and too long since the router began.
    fn lost(&mut self) -> (u64, u64) {
        let now = self.receivers.iter_mut().map(|r| (r.lost(), r.too_long()));
        now.fold(self.lost_before, |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }
}

/// Receiving halves of all ports.
pub(super) struct Ports {
    pool: Pool,
    ports: Vec<Port>,
    senders: Senders,
    seen: Arc<Mutex<Vec<PortSeen>>>,
    next: usize,
}

impl Ports {
    /// Claims all, and opens them: (interface, by what, queues at most).
    pub(super) fn open(
        wanted: &[(String, Io, Option<u32>)],
        pool: &Pool,
    ) -> Result<(Ports, Senders), String> {
        let mut ports = Vec::new();
        let mut halves = Vec::new();
        for (name, io, queues) in wanted {
            // Before it is opened: a socket would take frames that another router forwards.
            let claim = Claim::new(name)?;
            let opened = port::open(name, *io, *queues, pool)?;
            let (receivers, senders): (Vec<_>, Vec<_>) =
                opened.lanes.into_iter().map(|l| (l.receiver, Mutex::new(Some(l.sender)))).unzip();
            let (open, ended) = (AtomicUsize::new(receivers.len()), Mutex::default());
            let seen = PortSeen {
                interface: name.clone(),
                io: opened.io,
                queues: receivers.len(),
                up: true,
                received: 0,
                lost: 0,
                too_long: 0,
                gone: 0,
            };
            halves.push(Lanes { halves: senders, open, ended });
            ports.push(Port {
                name: name.clone(),
                // Not what was opened: the interface may come back without native XDP.
                wanted: *io,
                queues: Some(receivers.len() as u32),
                interface: opened.interface,
                receivers,
                keep: opened.keep,
                retry: None,
                ended: Vec::new(),
                lost_before: (0, 0),
                seen,
                _claim: claim,
            });
        }
        let senders = Senders(Arc::new(halves));
        let seen = Arc::new(Mutex::new(ports.iter().map(|p| p.seen.clone()).collect()));
        Ok((Ports { pool: pool.clone(), ports, senders: senders.clone(), seen, next: 0 }, senders))
    }

    pub(super) fn interfaces(&self) -> impl Iterator<Item = &Interface> {
        self.ports.iter().map(|port| &port.interface)
    }

    pub(super) fn seen(&self) -> Arc<Mutex<Vec<PortSeen>>> {
        self.seen.clone()
    }

    /// Returns the descriptors to wait for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.ports.iter().flat_map(|port| port.receivers.iter().map(|r| r.descriptor()))
    }

    /// Takes up to `most` frames from every lane, by turns; gives each to `put`.
    pub(super) fn receive(
        &mut self,
        most: usize,
        frames: &mut VecDeque<Slot>,
        mut put: impl FnMut(u16, Slot),
    ) -> usize {
        let mut total = 0;
        let count = self.ports.len();
        for turn in 0..count {
            let n = (self.next + turn) % count;
            let port = &mut self.ports[n];
            let mut gone = false;
            for receiver in &mut port.receivers {
                gone |= receiver.receive(&self.pool, most, frames).is_err();
                port.seen.received += frames.len() as u64;
                total += frames.len();
                frames.drain(..).for_each(|slot| put(n as u16, slot));
            }
            if gone {
                self.close(n);
            }
        }
        // Another port begins next time, so that none always comes last when queues are full.
        self.next = (self.next + 1) % count;
        total
    }

    /// Shows what was counted, closes ports that are gone, opens those that are back: these.
    pub(super) fn look_after(&mut self) -> Vec<u16> {
        let mut back = Vec::new();
        for n in 0..self.ports.len() {
            let port = &self.ports[n];
            let found = Interface::find(&port.name);
            let deaf = (0..port.receivers.len()).any(|lane| !self.senders.has(n, lane));
            let index = port.interface.index;
            // A new interface may have the old name, but has another index.
            let replaced = found.as_ref().map_or(true, |i| i.index != index || !i.up);
            if port.retry.is_none() && (deaf || replaced) {
                self.close(n);
            } else if let (None, Ok(found)) = (port.retry, found) {
                if self.follow_mtu(n, found) {
                    back.push(n as u16);
                }
            }
            if self.reopen(n) {
                back.push(n as u16);
            }
            let port = &mut self.ports[n];
            let (lost, too_long) = port.lost();
            port.seen.lost = lost;
            port.seen.too_long = too_long;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone_from_slice(&self.ports.iter().map(|p| p.seen.clone()).collect::<Vec<_>>());
        back
    }

    /// Notices that the MTU of an interface has changed. Returns whether it has to be forwarded by.
    fn follow_mtu(&mut self, n: usize, found: Interface) -> bool {
        let port = &mut self.ports[n];
        let (before, now) = (port.interface.mtu, found.mtu);
        if before == now {
            return false;
        }
        let name = plain(&port.name);
        let more = if now > MTU {
            format!("; frames above {MTU} do not fit and are lost: ip link set {name} mtu {MTU}")
        } else {
            String::new()
        };
        halfwink_live::say!("halfwink: {name}: MTU changed from {before} to {now} bytes{more}");
        port.interface = found;
        true
    }

    fn close(&mut self, n: usize) {
        let port = &mut self.ports[n];
        if port.wanted == Io::Tap {
            // Its device is ours: it cannot go away, only be down for a while.
            return;
        }
        port.lost_before = port.lost();
        port.ended.extend(self.senders.close(n));
        port.ended.extend(port.receivers.drain(..).flat_map(|receiver| receiver.close()));
        port.keep = None;
        port.retry = Some(Instant::now());
        port.seen.up = false;
        port.seen.gone += 1;
        halfwink_live::say!(
            "halfwink: {}: gone; forwards nothing until it is back",
            plain(&port.name)
        );
    }

    fn reopen(&mut self, n: usize) -> bool {
        let port = &mut self.ports[n];
        if port.retry.is_none_or(|at| Instant::now() < at) {
            return false;
        }
        // Whoever took it down brings it up again; this is not ours to do.
        let there = Interface::find(&port.name).is_ok_and(|i| i.up);
        if there {
            // The port has no socket any more through which the kernel would write there.
            self.pool.free(&mut port.ended);
        }
        let opened = there.then(|| port::open(&port.name, port.wanted, port.queues, &self.pool));
        let Some(Ok(opened)) = opened else {
            port.retry = Some(Instant::now() + AGAIN);
            return false;
        };
        port.retry = None;
        let (name, now, before) = (plain(&port.name), opened.io.name(), port.seen.io.name());
        let no_longer =
            if now == before { String::new() } else { format!(", no longer by {before}") };
        halfwink_live::say!("halfwink: {name}: back by {now}{no_longer}");
        port.seen.io = opened.io;
        port.interface = opened.interface;
        port.keep = opened.keep;
        port.seen.up = true;
        let (receivers, senders) = opened.lanes.into_iter().map(|l| (l.receiver, l.sender)).unzip();
        port.receivers = receivers;
        port.seen.queues = port.receivers.len();
        self.senders.open(n, senders);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what it sends.
    struct Count(Arc<AtomicUsize>);

    impl Transmit for Count {
        fn send(&mut self, _: &Pool, slots: &mut VecDeque<Slot>) -> std::io::Result<()> {
            self.0.fetch_add(slots.drain(..).count(), Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn workers_share_the_lanes_that_an_interface_comes_back_with() {
        let pool = Pool::new(64).unwrap();
        let (halves, open) = ((0..4).map(|_| Mutex::new(None)).collect(), AtomicUsize::new(4));
        let lanes = Lanes { halves, open, ended: Mutex::default() };
        let senders = Senders(Arc::new(vec![lanes]));
        for queues in [4, 1, 3] {
            let counts: Vec<Arc<AtomicUsize>> = (0..queues).map(|_| Arc::default()).collect();
            senders.close(0);
            let halves = counts.iter().map(|count| Box::new(Count(Arc::clone(count))) as _);
            senders.open(0, halves.collect());
            for worker in 0..4 {
                let mut taken = Vec::new();
                pool.take(1, &mut taken);
                let mut slots = VecDeque::from(taken);
                assert_eq!(slots.len(), 1);
                senders.send(0, worker, &pool, &mut slots);
                assert!(slots.is_empty(), "worker {worker} with {queues} queues");
            }
            let counts: Vec<usize> = counts.iter().map(|n| n.load(Ordering::Relaxed)).collect();
            assert!(counts.iter().all(|&n| n > 0), "{counts:?}");
        }
    }
}
