//! Hears of requests that will come, and has their lines loaded as a policy decides.
//!
//! One thread, on the server's CPU: what it loads is then where it will be needed. It sleeps until
//! a datagram, a SYN or a time of its own comes; without those, never wakes. Everything that it has
//! in the kernel goes with its descriptors, however it ends.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use halfwink_eventlog::Tap;
use halfwink_live::sys::{self, CpuSet};
use halfwink_policy::preheat::announce::{Receiver, Refused};
use halfwink_policy::preheat::{Action, Event, PreheatPolicy, SetId};
use halfwink_policy::{Host, Snapshot};
use halfwink_units::Time;
use serde::Serialize;

use crate::bpf::Sockets;
use crate::load::{monotonic_ns, Loader};
use crate::place::{give_way, prefer, Rank};
use crate::set::Lines;

mod syn;

pub use syn::Syn;

/// A policy with the tap of its log, if it has one.
pub type Hosted = Host<PreheatPolicy, Option<Tap<Event, Action>>>;

/// Latencies that are kept.
const KEPT: usize = 1 << 14;

/// Sources of request events beside announcements, and of restart events.
#[derive(Debug, Default)]
pub struct Triggers {
    /// A handshake begins; how long after it the request is expected.
    pub syn: Option<(Syn, Duration)>,
    /// The thread never sleeps: no interrupt has to reach its CPU before it can begin.
    pub awake: Option<Awake>,
    /// Period of regular loads.
    pub every: Option<Duration>,
    /// Listening sockets that go. Without it, restarts are seen by processes that come.
    pub sockets: Option<Sockets>,
}

/// Priority of a thread that never sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awake {
    /// Everything else runs first.
    Polite,
    /// Only a measured server does.
    Measured,
}

impl Awake {
    fn wait(self) {
        match self {
            Awake::Polite => give_way(0),
            Awake::Measured => prefer(0, Rank::Awake),
        }
    }
}

/// Counters up to now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Announcements that were believed.
    pub heard: u64,
    /// Datagrams that were not, by reason.
    pub refused: std::collections::BTreeMap<&'static str, i64>,
    /// Accepted announcements of services that this machine has no set of.
    pub unknown: u64,
    /// Handshakes that were taken for announcements.
    pub handshakes: u64,
    /// Number of loads.
    pub loads: u64,
    /// Lines of the kernel that were loaded.
    pub kernel_lines: u64,
    /// Number of failed loads.
    pub failed: u64,
    /// Restarts that were seen.
    pub restarts: u64,
    /// Actions of the policy that cannot be carried out on an unmodified server.
    pub not_done: u64,
    /// Times that the thread woke.
    pub wakes: u64,
    /// Times from a datagram's reception to the first load, in microseconds, of the last loads.
    #[serde(skip)]
    pub latency_us: Vec<f64>,
    /// State of the policy.
    #[serde(skip)]
    pub policy: Snapshot,
}

/// The thread and what it counts.
pub struct Daemon {
    /// Address on which it receives.
    pub address: SocketAddr,
    counts: Arc<Mutex<Counts>>,
    /// Time at which the last load issued its first line, by the monotonic clock.
    first_ns: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    loader: Arc<Mutex<Loader>>,
    /// The loader has another set than the policy knows.
    is_other: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Daemon {
    /// Starts it, on the CPU of its loader.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn start(
        socket: UdpSocket,
        receiver: Receiver,
        host: Hosted,
        loader: Arc<Mutex<Loader>>,
        (service, triggers): (u16, Triggers),
    ) -> Result<Daemon, String> {
        let why = |e: io::Error| format!("announcements: {e}");
        let address = socket.local_addr().map_err(why)?;
        socket.set_nonblocking(true).map_err(why)?;
        let counts = Arc::new(Mutex::new(Counts::default()));
        let (first_ns, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let is_other = Arc::new(AtomicBool::new(false));
        let cpu = loader.lock().map_err(|_| "another thread failed")?.cpu;
        let state = State {
            socket,
            receiver,
            host,
            loader: Arc::clone(&loader),
            is_other: Arc::clone(&is_other),
            service,
            gone: triggers.sockets.as_ref().map_or(0, |sockets| sockets.gone(service)),
            triggers,
            next_ns: 0,
            zero_ns: monotonic_ns(),
            counts: Counts::default(),
            shown: Arc::clone(&counts),
            first_ns: Arc::clone(&first_ns),
            dumps: 0,
        };
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("preheat".into()).spawn(move || {
            // Where that is not allowed, lines end up in another second cache.
            let _ = CpuSet::one(cpu).pin();
            match state.triggers.awake {
                Some(awake) => awake.wait(),
                None => prefer(0, Rank::First),
            }
            state.run(&told);
        });
        let thread = Some(thread.map_err(why)?);
        Ok(Daemon { address, counts, first_ns, stop, loader, is_other, thread })
    }

    /// Returns the counters up to now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.lock().map(|counts| counts.clone()).unwrap_or_default()
    }

    /// Returns the time at which the last load issued its first line, by the monotonic clock; 0
    /// before any.
    #[must_use]
    pub fn first_ns(&self) -> u64 {
        self.first_ns.load(Ordering::Acquire)
    }

    /// Loads these lines from the next request on. Returns whether they are other ones than before.
    ///
    /// # Errors
    /// One of the kernel's may not be read.
    pub fn load(&self, lines: Lines) -> Result<bool, String> {
        let mut loader = self.loader.lock().map_err(|_| "another thread failed")?;
        let is_other = *loader.lines() != lines;
        loader.set(lines, "")?;
        drop(loader);
        // The thread looks before its next load: to wake it now would be in vain.
        self.is_other.store(true, Ordering::Release);
        Ok(is_other)
    }

    /// Returns whether its thread is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the thread; without effect if it has ended.
    pub fn stop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        self.stop.store(true, Ordering::Release);
        // Anything wakes it, even what it does not believe.
        if let Ok(socket) = UdpSocket::bind("127.0.0.1:0") {
            let _ = socket.send_to(&[], self.address);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

struct State {
    socket: UdpSocket,
    receiver: Receiver,
    host: Hosted,
    loader: Arc<Mutex<Loader>>,
    is_other: Arc<AtomicBool>,
    service: u16,
    /// Listening sockets of the service that have gone.
    gone: u32,
    triggers: Triggers,
    /// Time of the next regular load.
    next_ns: u64,
    /// Time zero of the policy, by the monotonic clock: times of policies reach 213 days.
    zero_ns: u64,
    counts: Counts,
    shown: Arc<Mutex<Counts>>,
    first_ns: Arc<AtomicU64>,
    dumps: u32,
}

impl State {
    fn now(&self) -> Time {
        Time::ns(monotonic_ns() - self.zero_ns)
    }

    /// Converts a policy's time to the monotonic clock.
    fn ns_of(&self, at: Time) -> u64 {
        self.zero_ns + at.as_ps() / 1_000
    }

    fn run(mut self, stop: &AtomicBool) {
        let lines = self.lines();
        self.tell(self.now(), Event::Built { service: self.service, lines });
        self.show();
        while !stop.load(Ordering::Acquire) {
            let mut bytes = [0u8; 64];
            let mut received = self.socket.recv_from(&mut bytes);
            if received.is_err() && self.triggers.awake.is_some() {
                if !self.is_due() {
                    core::hint::spin_loop();
                    continue;
                }
            } else if received.is_err() {
                self.sleep();
                // A SYN or a deadline ends the sleep as well: then there is no datagram.
                received = self.socket.recv_from(&mut bytes);
            }
            let ends = |length| length == 0 && stop.load(Ordering::Acquire);
            // The datagram that tells of the end is no announcement, and is not counted.
            if received.as_ref().is_ok_and(|(length, _)| ends(*length)) {
                break;
            }
            self.counts.wakes += 1;
            if self.triggers.awake.is_some() {
                // The server needs what is loaded now before it runs.
                prefer(0, Rank::First);
            }
            while let Ok((length, _)) = received {
                if ends(length) {
                    break;
                }
                self.heard(&bytes[..length]);
                received = self.socket.recv_from(&mut bytes);
            }
            self.handshakes();
            self.regular();
            let (at, mut asked) = (self.now(), Vec::new());
            if self.host.ring(at, |_, action| asked.push(action)).is_err() {
                self.counts.not_done += 1;
            }
            self.act(at, asked);
            self.show();
            if let Some(awake) = self.triggers.awake {
                awake.wait();
            }
        }
    }

    /// Returns whether the thread must not sleep.
    fn is_due(&self) -> bool {
        self.triggers.syn.is_some()
            || self.triggers.every.is_some()
            || self.host.due() <= self.now()
    }

    /// Sleeps until a datagram or a deadline.
    fn sleep(&self) {
        let mut fds: Vec<libc::pollfd> = [Some(self.socket.as_raw_fd()), self.syn_fd()]
            .into_iter()
            .flatten()
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let due = match (self.host.due(), self.next_ns) {
            (Time::NEVER, 0) => None,
            (due, 0) => Some(self.ns_of(due)),
            (due, next) => Some(next.min(self.ns_of(due))),
        };
        let left = due.map(|due| due.saturating_sub(monotonic_ns()));
        let timeout = left.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let at = timeout.as_ref().map_or(0, |t| core::ptr::from_ref(t) as u64);
        let args = [fds.as_mut_ptr() as u64, fds.len() as u64, at, 0, 0, 0];
        // SAFETY: the kernel writes to so many entries, and reads the time, which outlives the
        // call.
        unsafe { sys::call(libc::SYS_ppoll, args) };
    }

    fn syn_fd(&self) -> Option<RawFd> {
        self.triggers.syn.as_ref().map(|(syn, _)| syn.as_raw_fd())
    }

    fn heard(&mut self, bytes: &[u8]) {
        let at = self.now();
        let Ok(announcement) = self.receiver.hear(at, bytes) else { return };
        self.counts.heard += 1;
        if announcement.port != self.service {
            self.counts.unknown += 1;
            return;
        }
        self.announced(at, at.saturating_add(announcement.lead));
    }

    fn announced(&mut self, at: Time, due: Time) {
        if self.is_other.swap(false, Ordering::Acquire) {
            let lines = self.lines();
            self.tell(at, Event::Built { service: self.service, lines });
        }
        self.look_for_restarts(at);
        self.tell(at, Event::Announced { service: self.service, due });
    }

    fn handshakes(&mut self) {
        let Some((syn, lead)) = &self.triggers.syn else { return };
        let (found, lead) = (syn.drain(), Time::ns(lead.as_nanos() as u64));
        self.counts.handshakes += found;
        if found > 0 {
            let at = self.now();
            self.announced(at, at.saturating_add(lead));
        }
    }

    fn regular(&mut self) {
        let Some(every) = self.triggers.every else { return };
        let (at, every) = (monotonic_ns(), every.as_nanos() as u64);
        if at >= self.next_ns {
            // The first call only sets the time of the next.
            if self.next_ns > 0 {
                let now = self.now();
                self.announced(now, now.saturating_add(Time::ns(every)));
            }
            // From now on, so that a thread which is late does not make up for it by several loads.
            self.next_ns = at + every;
        }
    }

    /// Checks for restarts. It is called only before a load, since earlier checks would wake the
    /// thread in vain.
    fn look_for_restarts(&mut self, at: Time) {
        let sockets = self.triggers.sockets.as_ref();
        let gone = sockets.map_or(self.gone, |sockets| sockets.gone(self.service));
        if gone != self.gone {
            self.gone = gone;
            self.counts.restarts += 1;
            self.tell(at, Event::Closed { port: self.service });
        }
    }

    fn tell(&mut self, at: Time, event: Event) {
        let mut asked = Vec::new();
        self.host.deliver(at, &event, |_, action| asked.push(action));
        self.act(at, asked);
    }

    fn act(&mut self, at: Time, asked: Vec<Action>) {
        for action in asked {
            match action {
                Action::Load { service, until, .. } => self.load(at, service, until),
                // The set was seen in files and in the kernel, which a restart leaves as they are:
                // what is left of it stands for each dump that the policy wants.
                Action::Dump { service } => {
                    self.dumps += 1;
                    let lines = self.lines();
                    self.tell(at, Event::Dumped { service, set: SetId(self.dumps), lines });
                }
                Action::Subtract { service } | Action::Build { service } => {
                    let lines = self.lines();
                    self.tell(at, Event::Built { service, lines });
                }
                // Memory of the server that was.
                Action::Forget { .. } => {
                    if let Ok(mut loader) = self.loader.lock() {
                        loader.forget_memory();
                    }
                }
                Action::Wake | Action::Estimate { .. } | Action::Abandon { .. } => {}
                Action::Intersect { .. } | Action::Unite { .. } | Action::Discard { .. } => {}
                Action::Stop { .. } | Action::Hold { .. } | Action::Sham { .. } => {
                    self.counts.not_done += 1;
                }
                Action::Record { .. } | Action::Fetch { .. } | Action::Place { .. } => {
                    self.counts.not_done += 1;
                }
            }
        }
    }

    fn load(&mut self, at: Time, service: u16, until: Option<Time>) {
        let (until_ns, heard_ns) = (until.map_or(0, |until| self.ns_of(until)), self.ns_of(at));
        let loaded = match self.loader.lock() {
            Ok(mut loader) => {
                // Server processes may have come since the last load.
                loader.bind();
                loader.load(until_ns)
            }
            Err(_) => Err("another thread failed".to_owned()),
        };
        match loaded {
            Ok(loaded) => {
                self.counts.loads += 1;
                self.counts.kernel_lines += loaded.kernel_lines as u64;
                if loaded.first_ns > 0 {
                    self.first_ns.store(loaded.first_ns, Ordering::Release);
                    if self.counts.latency_us.len() < KEPT {
                        let ns = loaded.first_ns.saturating_sub(heard_ns);
                        self.counts.latency_us.push(ns as f64 / 1e3);
                    }
                }
            }
            Err(_) => self.counts.failed += 1,
        }
        self.tell(self.now(), Event::Loaded { service });
    }

    /// Returns the number of lines to load.
    fn lines(&self) -> u32 {
        self.loader.lock().map(|loader| count(loader.lines())).unwrap_or_default()
    }

    fn show(&mut self) {
        let refused: Refused = self.receiver.refused();
        self.counts.refused = refused.snapshot().into_iter().collect();
        self.counts.policy = self.host.snapshot();
        if let Ok(mut shown) = self.shown.lock() {
            shown.clone_from(&self.counts);
        }
    }
}

fn count(lines: &Lines) -> u32 {
    let files: usize = lines.files.iter().map(|(_, set)| set.len()).sum();
    (lines.kernel.len() + files + lines.memory.len()) as u32
}
