//! TCP between all hosts: from each to each other one connection that is always full, through the
//! kernel's sockets and the host's device.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;

use crate::load::address;

/// Destination port of connections.
pub const PORT: u16 = 7016;
/// Bytes of one write, and of one read.
const BLOCK: usize = 1 << 16;
/// A write that waits for so long looks whether it is to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counters of a host's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamsReport {
    /// Bytes that programs here have read.
    pub received_bytes: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Time-outs that ran to their end, of connections from here.
    pub timeouts: u64,
    /// The longest smoothed round trip of a connection from here, now, in microseconds.
    pub rtt_us: u32,
    /// Congestion windows of connections from here, now, in segments, added up.
    pub window: u64,
}

/// Connections at work. Dropping them ends them.
pub struct Streams {
    received: Arc<AtomicU64>,
    /// Counters when they were last set to zero.
    base: Mutex<StreamsReport>,
    sending: Vec<TcpStream>,
    receiving: Arc<Mutex<Vec<TcpStream>>>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Has a host take connections. All do before the first sends.
///
/// # Errors
/// If there is no such address here.
pub fn listen(host: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddrV4::new(address(host), PORT))
}

impl Streams {
    /// Begins those of a host to all others, under a congestion control of the kernel's.
    ///
    /// # Errors
    /// If the kernel has no such congestion control, or a host does not answer.
    pub fn start(
        host: u16,
        hosts: u16,
        congestion: &str,
        listener: TcpListener,
    ) -> io::Result<Streams> {
        let received = Arc::new(AtomicU64::new(0));
        let receiving = Arc::new(Mutex::new(Vec::new()));
        let ending = Arc::new(AtomicBool::new(false));
        let mut streams = Streams {
            received,
            base: Mutex::default(),
            sending: Vec::new(),
            receiving,
            ending,
            threads: Vec::new(),
        };
        for _ in 1..hosts {
            let listener = listener.try_clone()?;
            let (received, kept) = (streams.received.clone(), streams.receiving.clone());
            streams.spawn(move || {
                // An end of a connection is the end of a run: nobody is left to be told.
                drop(receive(&listener, &received, &kept));
            })?;
        }
        for to in (0..hosts).filter(|&to| to != host) {
            let stream = open(to, congestion)?;
            streams.sending.push(stream.try_clone()?);
            let ending = streams.ending.clone();
            streams.spawn(move || send(stream, &ending))?;
        }
        Ok(streams)
    }

    fn spawn(&mut self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let builder = std::thread::Builder::new().name("stream".to_owned()).stack_size(1 << 18);
        self.threads.push(builder.spawn(run)?);
        Ok(())
    }

    /// Returns the counters, and sets them to zero if requested. What is counted now stays.
    #[must_use]
    pub fn report(&self, from_zero: bool) -> StreamsReport {
        let now = self.since_begin();
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        let report = StreamsReport {
            received_bytes: now.received_bytes - base.received_bytes,
            retransmitted: now.retransmitted - base.retransmitted,
            ..now.clone()
        };
        if from_zero {
            *base = now;
        }
        report
    }

    fn since_begin(&self) -> StreamsReport {
        let received_bytes = self.received.load(Ordering::Relaxed);
        let mut report = StreamsReport { received_bytes, ..StreamsReport::default() };
        for info in self.sending.iter().filter_map(info) {
            report.retransmitted += u64::from(info.tcpi_total_retrans);
            report.timeouts += u64::from(info.tcpi_backoff > 0);
            report.rtt_us = report.rtt_us.max(info.tcpi_rtt);
            report.window += u64::from(info.tcpi_snd_cwnd);
        }
        report
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let receiving = self.receiving.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in self.sending.iter().chain(receiving.iter()) {
            // One that is closed already has nobody waiting for it.
            drop(stream.shutdown(Shutdown::Both));
        }
        drop(receiving);
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say.
            drop(thread.join());
        }
    }
}

fn open(to: u16, congestion: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(SocketAddrV4::new(address(to), PORT))?;
    // SAFETY: the kernel reads as many bytes as the text has.
    let set = unsafe {
        let len = congestion.len() as libc::socklen_t;
        let text = congestion.as_ptr().cast();
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, text, len)
    };
    if set != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(error.kind(), format!("tcp `{congestion}`: {error}")));
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn send(mut stream: TcpStream, ending: &AtomicBool) {
    let block = vec![0x5a; BLOCK];
    while !ending.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Ok(1..) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

fn receive(
    listener: &TcpListener,
    received: &AtomicU64,
    kept: &Mutex<Vec<TcpStream>>,
) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    kept.lock().unwrap_or_else(PoisonError::into_inner).push(stream.try_clone()?);
    let mut room = vec![0; BLOCK];
    loop {
        match stream.read(&mut room)? {
            0 => return Ok(()),
            len => received.fetch_add(len as u64, Ordering::Relaxed),
        };
    }
}

fn info(stream: &TcpStream) -> Option<libc::tcp_info> {
    // SAFETY: all zeros are valid, and the kernel writes no more than `bytes` bytes.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut bytes = size_of_val(&info) as libc::socklen_t;
        let fd = stream.as_raw_fd();
        let room = (&raw mut info).cast();
        let got = libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, room, &raw mut bytes);
        (got == 0).then_some(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_that_is_not_there_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(info(&stream).is_some_and(|info| info.tcpi_snd_cwnd > 0));
    }
}
