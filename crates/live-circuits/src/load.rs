//! Datagrams from each host to all others, through the kernel's sockets and the host's device: a
//! program that keeps queues full without running all the time.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use halfwink_live::descriptor::owned;
use serde::Serialize;

/// Destination port of datagrams.
pub const PORT: u16 = 7015;
/// Sender, receiver and number: the first bytes of a datagram.
const STAMP: usize = 16;
/// Datagrams for one call.
const AT_ONCE: usize = 64;
/// Bytes of datagrams that may wait to be sent, or to be counted.
const ROOM: libc::c_int = 64 << 20;

/// Counters of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadReport {
    /// Datagrams sent to the device.
    pub sent: u64,
    /// Number of datagrams received.
    pub received: u64,
    /// Bytes of their frames.
    pub received_bytes: u64,
    /// Number of these with an earlier sequence number than the one before.
    pub reordered: u64,
    /// Numbers that were passed over.
    pub missing: u64,
    /// Datagrams that are none of ours.
    pub foreign: u64,
    /// CPU time of its thread, in nanoseconds.
    pub cpu_ns: u64,
}

impl LoadReport {
    /// Returns the difference to an earlier report.
    fn since(&self, then: &LoadReport) -> LoadReport {
        LoadReport {
            sent: self.sent - then.sent,
            received: self.received - then.received,
            received_bytes: self.received_bytes - then.received_bytes,
            reordered: self.reordered - then.reordered,
            missing: self.missing - then.missing,
            foreign: self.foreign - then.foreign,
            cpu_ns: self.cpu_ns - then.cpu_ns,
        }
    }
}

/// Counters that a shaper shares with its load.
#[derive(Debug)]
pub struct Level {
    /// Frames for each host that have left its queue, one way or another.
    pub left: Vec<AtomicU64>,
    /// A frame has come through the device. What is sent before its carrier is up is lost.
    pub is_open: AtomicBool,
}

impl Level {
    /// Creates the counters for `hosts` hosts.
    #[must_use]
    pub fn new(hosts: u16) -> Arc<Level> {
        let left = (0..hosts).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Level { left, is_open: AtomicBool::new(false) })
    }
}

/// Settings of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadConfig {
    /// Number of this host.
    pub host: u16,
    /// Number of hosts.
    pub hosts: u16,
    /// Bytes of a frame, with its headers.
    pub frame_bytes: u16,
    /// Frames that are kept waiting for each host.
    pub frames: u64,
    /// Interval between checks.
    pub every: Duration,
    /// Ask for real-time priority.
    pub realtime: bool,
}

/// A load at work.
pub struct Load {
    report: Arc<Mutex<LoadReport>>,
    /// Counters when they were last set to zero; those of the thread go on.
    base: Mutex<LoadReport>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The address of a host's device.
#[must_use]
pub fn address(host: u16) -> Ipv4Addr {
    let [high, low] = (host + 1).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

/// Number of frames that a load sends to one host.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    is_open: bool,
    /// Frames that were sent before the device was open, and may be lost.
    early: u64,
}

impl Pace {
    /// Returns the number of frames to send now, so that `frames` wait.
    fn wanted(&mut self, frames: u64, sent: u64, left: u64, is_open: bool) -> u64 {
        if !is_open {
            // One a look, or a full queue of lost frames would be taken for one that waits.
            return 1;
        }
        if !std::mem::replace(&mut self.is_open, true) {
            self.early = sent.saturating_sub(left);
        }
        frames.saturating_sub(sent.saturating_sub(left + self.early))
    }
}

struct Worker {
    config: LoadConfig,
    socket: UdpSocket,
    level: Arc<Level>,
    sent: Vec<u64>,
    pace: Vec<Pace>,
    heard: Vec<u64>,
    datagram: Vec<u8>,
    report: LoadReport,
}

impl Load {
    /// Begins one.
    ///
    /// # Errors
    /// If there is no such address here, or no thread.
    pub fn start(config: LoadConfig, level: Arc<Level>) -> io::Result<Load> {
        let socket = UdpSocket::bind(SocketAddrV4::new(address(config.host), PORT))?;
        socket.set_nonblocking(true)?;
        // SAFETY: a second descriptor of the socket, which is ours to close.
        let descriptor = unsafe { owned(libc::dup(socket.as_raw_fd())) }?;
        let set = halfwink_live::descriptor::set_option;
        // What waits in the kernel for one host must not keep the others' from being sent.
        for (forced, asked) in
            [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            if set(&descriptor, libc::SOL_SOCKET, forced, &ROOM).is_err() {
                set(&descriptor, libc::SOL_SOCKET, asked, &ROOM)?;
            }
        }
        let report = Arc::new(Mutex::new(LoadReport::default()));
        let ending = Arc::new(AtomicBool::new(false));
        let n = usize::from(config.hosts);
        let mut worker = Worker {
            config,
            socket,
            level,
            sent: vec![0; n],
            pace: vec![Pace::default(); n],
            heard: vec![0; n],
            // Ethernet, IPv4 and UDP headers are not the datagram's.
            datagram: vec![0; usize::from(config.frame_bytes).saturating_sub(42).max(STAMP)],
            report: LoadReport::default(),
        };
        let (shared, end) = (report.clone(), ending.clone());
        let run = move || {
            crate::time::be_punctual(if config.realtime { crate::LOAD_PRIORITY } else { 0 });
            while !end.load(Ordering::Relaxed) {
                worker.count();
                worker.fill();
                worker.report.cpu_ns = crate::time::thread_cpu_ns();
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = worker.report.clone();
                std::thread::sleep(config.every);
            }
        };
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(run)?;
        Ok(Load { report, base: Mutex::default(), ending, thread: Some(thread) })
    }

    /// Returns the counters, and sets them to zero if requested.
    #[must_use]
    pub fn report(&self, from_zero: bool) -> LoadReport {
        let now = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        let report = now.since(&base);
        if from_zero {
            *base = now;
        }
        report
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to say.
            drop(thread.join());
        }
    }
}

impl Worker {
    /// Sends as many as are missing from each queue.
    fn fill(&mut self) {
        for to in (0..self.config.hosts).filter(|&to| to != self.config.host) {
            let n = usize::from(to);
            let left = self.level.left[n].load(Ordering::Relaxed);
            let is_open = self.level.is_open.load(Ordering::Relaxed);
            let wanted = self.pace[n].wanted(self.config.frames, self.sent[n], left, is_open);
            for _ in 0..wanted {
                self.datagram[..2].copy_from_slice(&self.config.host.to_le_bytes());
                self.datagram[2..4].copy_from_slice(&to.to_le_bytes());
                self.datagram[8..STAMP].copy_from_slice(&(self.sent[n] + 1).to_le_bytes());
                let whom = SocketAddrV4::new(address(to), PORT);
                if self.socket.send_to(&self.datagram, whom).is_err() {
                    break;
                }
                self.sent[n] += 1;
                self.report.sent += 1;
            }
        }
    }

    /// Counts the received datagrams.
    fn count(&mut self) {
        let mut rooms = [[0u8; STAMP]; AT_ONCE];
        loop {
            // SAFETY: all zeros are valid vectors and headers.
            let mut vectors: [libc::iovec; AT_ONCE] = unsafe { std::mem::zeroed() };
            // SAFETY: as above.
            let mut headers: [libc::mmsghdr; AT_ONCE] = unsafe { std::mem::zeroed() };
            for (n, room) in rooms.iter_mut().enumerate() {
                vectors[n] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: STAMP };
                headers[n].msg_hdr.msg_iov = &raw mut vectors[n];
                headers[n].msg_hdr.msg_iovlen = 1;
            }
            // SAFETY: each vector names a room of ours. Of a datagram only its stamp is copied, and
            // its length told.
            let got = unsafe {
                let (fd, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
                let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
                libc::recvmmsg(fd, headers.as_mut_ptr(), AT_ONCE as _, flags as _, none)
            };
            let Ok(got @ 1..) = usize::try_from(got) else { return };
            for (header, room) in headers[..got].iter().zip(&rooms) {
                self.hear(room, header.msg_len as usize);
            }
        }
    }

    fn hear(&mut self, stamp: &[u8; STAMP], len: usize) {
        let half = |at: usize| u16::from_le_bytes([stamp[at], stamp[at + 1]]);
        let number = u64::from_le_bytes(stamp[8..].try_into().unwrap_or_default());
        let known = half(2) == self.config.host && len >= STAMP;
        let Some(heard) = self.heard.get_mut(usize::from(half(0))).filter(|_| known) else {
            self.report.foreign += 1;
            return;
        };
        self.report.received += 1;
        self.report.received_bytes += len as u64 + 42;
        if number <= *heard {
            self.report.reordered += 1;
            return;
        }
        self.report.missing += number - *heard - 1;
        *heard = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_whose_first_frames_were_lost_fills_its_queue() {
        let (mut pace, mut sent) = (Pace::default(), 0);
        for _ in 0..3 {
            sent += pace.wanted(66, sent, 0, false);
        }
        assert_eq!(sent, 3, "one frame a look until the device is open");
        sent += pace.wanted(66, sent, 0, true);
        assert_eq!(sent, 69, "the queue is filled beside what may be lost");
        assert_eq!(pace.wanted(66, sent, 0, true), 0);
        assert_eq!(pace.wanted(66, sent, 10, true), 10);
    }
}
