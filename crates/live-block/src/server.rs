//! A device at work: threads, connections, and what they have done.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use halfwink_live::clock::Rate;
use halfwink_policy::completion::Hears;

use crate::backend::Backend;
use crate::conn::{Conn, Over};
use crate::control::{Clock, Control, Decides, EventLog};
use crate::crew::Crew;
use crate::out::{Pending, Scratch};
use crate::proto::{Errno, Export};
use crate::report::{Measured, Report};
use crate::socket::Bell;
use crate::sync::Syncer;
use crate::worker::{Boxes, Post, Worker, MAILBOX};

/// Address at which clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A socket in the file system, which is made and removed again.
    Unix(PathBuf),
    /// An address of this machine. Every client that can reach it may read and write.
    Tcp(SocketAddr),
}

/// Settings of a server.
pub struct Setting {
    /// Address at which clients connect.
    pub listen: Listen,
    /// Name of the export.
    pub name: String,
    /// Rejects all writes.
    pub read_only: bool,
    /// A thread for each, kept to this CPU; to none if it is none.
    pub cpus: Vec<Option<u32>>,
    /// Largest number of simultaneous connections.
    pub connections: u64,
    /// A client has so long to say what it wants.
    pub handshake: Duration,
}

/// Counters of connections.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    accepted: AtomicU64,
    open: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
    done: AtomicU64,
    gone: AtomicU64,
    wrong: AtomicU64,
    late: AtomicU64,
}

/// Number of connections, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Connections {
    /// Number of accepted connections.
    pub accepted: u64,
    /// Number of open connections.
    pub open: u64,
    /// At once, at most.
    pub peak: u64,
    /// Closed at once, because there were as many as may be.
    pub refused: u64,
    /// Ended in good order.
    pub done: u64,
    /// Number whose client vanished.
    pub vanished: u64,
    /// Number whose client violated the protocol, or took too long in the handshake.
    pub wrong: u64,
    /// Number of these whose client took too long.
    pub late: u64,
}

impl Traffic {
    fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(open, Ordering::Relaxed);
    }

    pub(crate) fn timed_out(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self, over: Over) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        let count = match over {
            Over::Done => &self.done,
            Over::Gone => &self.gone,
            Over::Refused => &self.wrong,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn look(&self) -> Connections {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Connections {
            accepted: get(&self.accepted),
            open: get(&self.open),
            peak: get(&self.peak),
            refused: get(&self.refused),
            done: get(&self.done),
            vanished: get(&self.gone),
            wrong: get(&self.wrong),
            late: get(&self.late),
        }
    }
}

/// State that all threads share.
pub(crate) struct Shared {
    pub(crate) export: Export,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) posts: Vec<Post>,
    pub(crate) control: Control,
    pub(crate) syncer: Syncer<(Arc<Conn>, Pending)>,
    pub(crate) traffic: Traffic,
    pub(crate) ends: AtomicBool,
    /// Round-robin counter of connections.
    turn: AtomicU64,
    limit: AtomicU64,
    pub(crate) handshake: Duration,
    stop: Bell,
    pub(crate) begun: [Instant; 2],
}

impl Shared {
    /// Returns the worker that counts as the issuer of a new connection. The protocol does not say
    /// where a client runs, so connections take turns; with completions signalled to the issuer, it
    /// is the worker that reads the connection.
    pub(crate) fn issuer(&self, reads: u16) -> u16 {
        match self.control.ways.hears {
            Hears::One => {
                (self.turn.fetch_add(1, Ordering::Relaxed) % self.posts.len() as u64) as u16
            }
            Hears::Issuer | Hears::Polled => reads,
        }
    }

    fn reader(&self) -> usize {
        match self.control.ways.hears {
            Hears::One => 0,
            Hears::Issuer | Hears::Polled => {
                (self.turn.fetch_add(1, Ordering::Relaxed) % self.posts.len() as u64) as usize
            }
        }
    }
}

enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// A device at work. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    crew: Crew,
    address: String,
    /// Path of the socket, and which file it was when it was bound.
    path: Option<(PathBuf, (u64, u64))>,
}

impl Server {
    /// Begins to serve.
    ///
    /// # Errors
    /// What the machine does not allow.
    pub fn start(
        setting: &Setting,
        backend: Box<dyn Backend>,
        policy: impl Into<Decides>,
        log: Option<EventLog>,
    ) -> Result<Server, String> {
        let said = |e: io::Error| e.to_string();
        let (listener, address) = listen(&setting.listen)?;
        let earliest = Instant::now();
        let clock = Clock::start(Rate::measure());
        let posts = setting.cpus.iter().map(|&cpu| Post::new(cpu)).collect::<Result<_, _>>();
        let export = Export {
            name: setting.name.clone(),
            size: backend.size(),
            read_only: setting.read_only,
        };
        let shared = Arc::new(Shared {
            export,
            backend,
            posts: posts.map_err(said)?,
            control: Control::new(policy, clock, log),
            syncer: Syncer::default(),
            traffic: Traffic::default(),
            ends: AtomicBool::new(false),
            turn: AtomicU64::new(0),
            limit: AtomicU64::new(setting.connections),
            handshake: setting.handshake,
            stop: Bell::new().map_err(said)?,
            begun: [earliest, Instant::now()],
        });
        let path = match &listener {
            Listener::Unix(_, path) => identity(path).ok().map(|bound| (path.clone(), bound)),
            Listener::Tcp(_) => None,
        };
        let server = Server { shared: Arc::clone(&shared), crew: Crew::default(), address, path };
        for (number, boxes) in (0u16..).zip(mailboxes(shared.posts.len())) {
            let own = Arc::clone(&shared);
            let body = move || Worker::new(number, own, boxes).run();
            server.crew.spawn(format!("block {number}"), body).map_err(said)?;
        }
        let own = Arc::clone(&shared);
        server.crew.spawn_syncer(move || flush(&own)).map_err(said)?;
        server.crew.spawn("block accept", move || accept(&listener, &shared)).map_err(said)?;
        Ok(server)
    }

    /// Returns the address as an NBD URI.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn control(&self) -> &Control {
        &self.shared.control
    }

    /// Changes the largest number of connections. Those that are open stay.
    pub(crate) fn limit(&self, connections: u64) {
        self.shared.limit.store(connections, Ordering::Relaxed);
    }

    /// Returns whether all its threads are running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.crew.is_running()
    }

    /// Returns the report up to now.
    #[must_use]
    pub fn report(&self) -> Report {
        let shared = &self.shared;
        Report::of(&Measured {
            control: &shared.control,
            backend: &*shared.backend,
            posts: &shared.posts,
            synced: shared.syncer.look(),
            connections: Some(shared.traffic.look()),
            begun: shared.begun,
        })
    }

    /// Takes nothing more, and ends; what was answered is on stable storage then.
    ///
    /// # Errors
    /// The device's last flush failed.
    pub fn stop(&self) -> Result<(), String> {
        let shared = &self.shared;
        let tell = || {
            shared.ends.store(true, Ordering::Relaxed);
            shared.stop.ring();
            shared.posts.iter().for_each(|post| post.bell.ring());
        };
        if !self.crew.end(&shared.syncer, || (), tell) {
            return Ok(());
        }
        shared.control.end_log();
        if let Some((path, bound)) = &self.path {
            // Another server may have put its own there since.
            if identity(path).is_ok_and(|found| found == *bound) {
                let _ = fs::remove_file(path);
            }
        }
        // Writes without FUA are answered before they are on stable storage.
        let flushed = shared.backend.flush();
        flushed.map_err(|e| format!("the last flush of the device failed: {e}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever wanted to know has stopped it.
        let _ = self.stop();
    }
}

/// A mailbox from each worker to each, itself included.
fn mailboxes(count: usize) -> Vec<Boxes> {
    let mut all: Vec<Boxes> =
        (0..count).map(|_| Boxes { to: Vec::new(), from: Vec::new() }).collect();
    for from in 0..count {
        for to in 0..count {
            // One for each pair has one writer and one reader, and needs no lock.
            let (producer, consumer) = rtrb::RingBuffer::new(MAILBOX);
            all[from].to.push(producer);
            all[to].from.push(consumer);
        }
    }
    all
}

/// Returns the device and the number of the file that a path names, itself if it is a link.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

fn listen(at: &Listen) -> Result<(Listener, String), String> {
    match at {
        Listen::Tcp(address) => {
            let wrong = |e: io::Error| format!("{address}: {e}");
            let listener = TcpListener::bind(address).map_err(wrong)?;
            listener.set_nonblocking(true).map_err(wrong)?;
            let bound = listener.local_addr().map_err(wrong)?;
            Ok((Listener::Tcp(listener), format!("nbd://{bound}")))
        }
        Listen::Unix(path) => {
            let wrong = |e: io::Error| format!("{}: {e}", path.display());
            // A socket that nobody listens at is what a killed server left.
            let is_socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
            if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
                fs::remove_file(path).map_err(wrong)?;
            }
            let listener = UnixListener::bind(path).map_err(wrong)?;
            listener.set_nonblocking(true).map_err(wrong)?;
            let uri = format!("nbd+unix:///?socket={}", path.display());
            Ok((Listener::Unix(listener, path.clone()), uri))
        }
    }
}

/// Answers flushes until the server ends.
fn flush(shared: &Shared) {
    let (backend, mut scratch) = (&*shared.backend, Scratch::default());
    shared.syncer.run(backend, |(conn, mut pending), error| {
        pending.error = error.map(Errno::of);
        conn.answer(pending, backend, &mut scratch);
        scratch.latencies.clear();
    });
}

/// Takes connections until the server ends.
fn accept(listener: &Listener, shared: &Shared) {
    let fd = match listener {
        Listener::Unix(listener, _) => listener.as_raw_fd(),
        Listener::Tcp(listener) => listener.as_raw_fd(),
    };
    let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut wanted = [poll(fd), poll(shared.stop.fd())];
    while !shared.ends.load(Ordering::Relaxed) {
        // SAFETY: two descriptors of ours.
        unsafe { libc::poll(wanted.as_mut_ptr(), 2, -1) };
        match take(listener) {
            Ok(client) => {
                // Only this thread opens connections: the number cannot grow before the next one is
                // counted.
                let limit = shared.limit.load(Ordering::Relaxed);
                if shared.traffic.open.load(Ordering::Relaxed) >= limit {
                    shared.traffic.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                shared.traffic.accept();
                shared.posts[shared.reader()].welcome(client);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            // No descriptors or no memory: some connection will end.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn take(listener: &Listener) -> io::Result<OwnedFd> {
    let fd = match listener {
        Listener::Unix(listener, _) => listener.accept()?.0.into_raw_fd(),
        Listener::Tcp(listener) => {
            let stream = listener.accept()?.0;
            // Else a reply waits until the client has acknowledged the one before it.
            stream.set_nodelay(true)?;
            stream.into_raw_fd()
        }
    };
    // SAFETY: it was just given to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
