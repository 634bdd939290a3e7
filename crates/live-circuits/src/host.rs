//! A host's side: a device for unmodified programs, queues by destination, and tokens that say when
//! a frame may go.
//!
//! Sync frames announce days, and all clocks are one; so a host sleeps until shortly before its day
//! and is awake when it begins. While nothing waits it sleeps until something does.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use halfwink_engine::Histogram;
use halfwink_policy::circuits::host::{HostEvent, Scheme, TokenParameters, Tokens};
use halfwink_policy::circuits::sync::{self, Kind, Listener, Sync};
use halfwink_policy::circuits::NOBODY;
use halfwink_policy::Host;
use halfwink_units::Time;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::config::HostConfig;
use crate::load::{Level, Load, LoadConfig};
use crate::port::{host_mac, host_of, switch_mac, Port, LONGEST};
use crate::queues::Queues;
use crate::report::{take_refused, HostReport, Quantiles};
use crate::{time, HOST_PRIORITY};

impl HostConfig {
    /// The load, if it is to have one.
    pub(crate) fn load(&self, level: &Arc<Level>) -> Result<Option<Load>, String> {
        let Some(frame_bytes) = self.load_frame_bytes else { return Ok(None) };
        let load = LoadConfig {
            host: self.host,
            hosts: self.hosts,
            frame_bytes,
            // Less than a queue holds, so that none of it is dropped.
            frames: (self.queue_bytes * 3 / 4 / u64::from(frame_bytes.max(1))).max(1),
            every: Duration::from_nanos((self.load_every_us * 1e3) as u64),
            realtime: self.realtime,
        };
        Load::start(load, level.clone()).map(Some).map_err(|e| format!("load: {e}"))
    }
}

/// Frames for one pass.
const AT_ONCE: usize = 64;
/// Longest between two looks, whatever happens.
const LOOK_NS: u64 = 100_000_000;
/// Between two passes while frames come or go: a part of a day, within limits.
const PASSES: u64 = 10;
const PASS_NS: (u64, u64) = (50_000, 250_000);
/// assumption: what a frame takes between wire and device, so that as many are taken in one pass as
/// there is time for before the next day or the next frame that may go.
const FRAME_NS: u64 = 8_000;
/// Interval at which a host with data reminds a resting switch.
const NAG_NS: u64 = 1_000_000;

/// A host at work. Dropping it ends it.
pub struct Shaper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    load: Option<Load>,
}

#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    ending: AtomicBool,
}

#[derive(Default)]
struct Counts {
    report: HostReport,
    begun_ns: u64,
    /// CPU time of the thread at the beginning, and now.
    cpu_ns: (u64, u64),
    spun_ns: u64,
    sync: Histogram,
    begin: Histogram,
}

impl Shaper {
    /// Opens device and wire, and starts.
    ///
    /// # Errors
    /// Something is missing or may not be used; the line says what.
    pub fn start(config: &HostConfig) -> Result<Shaper, String> {
        let worker = Worker::open(config)?;
        let (level, mut worker) = (worker.level.clone(), worker);
        let shared = Arc::new(Shared::default());
        shared.counts().begun_ns = time::now_ns();
        shared.counts().report.host = config.host;
        let (seen, realtime) = (shared.clone(), config.realtime);
        let run = move || {
            let is_realtime = time::be_punctual(if realtime { HOST_PRIORITY } else { 0 });
            seen.counts().report.is_realtime = is_realtime;
            worker.run(&seen)
        };
        let thread = std::thread::Builder::new().name("shaper".to_owned()).spawn(run);
        let thread = Some(thread.map_err(|e| format!("thread of the shaper: {e}"))?);
        Ok(Shaper { shared, thread, load: config.load(&level)? })
    }

    /// Returns the counters, and sets them to zero if requested.
    #[must_use]
    pub fn report(&self, from_zero: bool) -> HostReport {
        let mut counts = self.shared.counts();
        let now_ns = time::now_ns();
        let report = HostReport {
            at_s: now_ns as f64 * 1e-9,
            duration_s: (now_ns - counts.begun_ns) as f64 * 1e-9,
            cpu_s: (counts.cpu_ns.1 - counts.cpu_ns.0) as f64 * 1e-9,
            spun_s: counts.spun_ns as f64 * 1e-9,
            sync: Quantiles::of(&counts.sync),
            begin: Quantiles::of(&counts.begin),
            load: self.load.as_ref().map(|load| load.report(from_zero)),
            ..counts.report.clone()
        };
        if from_zero {
            let HostReport { host, is_realtime, .. } = report;
            let fresh = HostReport { host, is_realtime, ..HostReport::default() };
            let cpu_ns = (counts.cpu_ns.1, counts.cpu_ns.1);
            *counts = Counts { report: fresh, begun_ns: now_ns, cpu_ns, ..Counts::default() };
        }
        report
    }

    /// Returns whether the thread is running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it had ended before, and why.
    pub fn stop(&mut self) -> Result<(), String> {
        self.load = None;
        self.shared.ending.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended = thread.join().map_err(|_| "the shaper's thread has died".to_owned())?;
        ended.map_err(|e| format!("shaper: {e}"))
    }
}

impl Drop for Shaper {
    fn drop(&mut self) {
        // Who wants to know how it ended has stopped it.
        drop(self.stop());
    }
}

impl Shared {
    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Day in which it may send, and to which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Day {
    peer: u16,
    begins_ns: u64,
    ends_ns: u64,
}

struct Worker {
    config: HostConfig,
    device: SyncDevice,
    uplink: Port,
    listener: Listener,
    tokens: Host<Tokens>,
    queues: Queues,
    level: Arc<Level>,
    today: Option<Day>,
    next: Option<Day>,
    /// Time at which tokens may release another frame.
    again_ns: u64,
    /// Interval between two passes.
    pass_ns: u64,
    /// Whether no frame was sent on this day yet.
    is_dawn: bool,
    /// The next pass is due as soon as any may be.
    is_soon: bool,
    is_resting: bool,
    owes_reply: bool,
    nag_ns: u64,
    nagged_ns: u64,
    epoch: u64,
    sequence: u64,
    batch: Vec<Vec<u8>>,
    room: Vec<u8>,
    began_ns: u64,
    /// Since it was last counted, and before.
    spun_ns: (u64, u64),
}

impl Worker {
    fn open(config: &HostConfig) -> Result<Worker, String> {
        let device = DeviceBuilder::new().name(&config.device).layer(Layer::L2).build_sync();
        let device = device.map_err(|e| {
            let needed = match e.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => ": needs CAP_NET_ADMIN",
                Some(libc::EBUSY) => ": somebody else has it",
                _ => "",
            };
            format!("device {}: {e}{needed}", config.device)
        })?;
        let name = &config.device;
        device.set_nonblocking(true).map_err(|e| format!("device {name}: {e}"))?;
        // A description with another name was refused before.
        let scheme = Scheme::named(&config.tokens).unwrap_or(Scheme::Pacing);
        let parameters = TokenParameters {
            scheme,
            bytes_per_us: config.bytes_per_us,
            margin: Time::from_ns(config.margin_us * 1e3),
            backlog_bytes: config.backlog_bytes,
            overdraws: false,
        };
        let now = time::now_ns();
        Ok(Worker {
            device,
            uplink: Port::open(&config.interface)?,
            listener: Listener::host(config.host, switch_mac(config.host)),
            tokens: Host::new(Tokens::new(parameters)),
            queues: Queues::new(config.hosts, config.queue_bytes),
            level: Level::new(config.hosts),
            today: None,
            next: None,
            again_ns: 0,
            pass_ns: PASS_NS.1,
            is_dawn: false,
            is_soon: false,
            is_resting: true,
            owes_reply: false,
            nag_ns: NAG_NS,
            nagged_ns: now,
            epoch: now,
            sequence: 0,
            batch: Vec::with_capacity(AT_ONCE),
            room: vec![0; LONGEST + 2],
            config: config.clone(),
            began_ns: now,
            spun_ns: (0, 0),
        })
    }

    fn run(&mut self, shared: &Shared) -> io::Result<()> {
        while !shared.ending.load(Ordering::Relaxed) {
            let mut counts = shared.counts();
            // A day's begin waits for nobody; all else can.
            self.turn(&mut counts);
            let sent = self.send(&mut counts);
            if self.is_soon {
                // Other hosts begin now, too, and some of them on this CPU: all else waits.
                drop(counts);
                self.rest(true, 0);
                continue;
            }
            let came = self.receive(&mut counts)?;
            let taken = self.take(&mut counts)?;
            self.answer(&mut counts)?;
            counts.spun_ns += std::mem::take(&mut self.spun_ns.0);
            drop(counts);
            self.rest(came + sent > 0, taken);
        }
        Ok(())
    }

    /// Takes what came over the wire.
    fn receive(&mut self, counts: &mut Counts) -> io::Result<usize> {
        let most = self.frames_in_time();
        let Worker { uplink, listener, device, .. } = self;
        let mut syncs = Vec::new();
        let came = uplink.receive(most)?;
        let total = came.len();
        for frame in came {
            if frame.bytes.get(12..14) == Some(&sync::ETHERTYPE.to_be_bytes()[..]) {
                syncs.extend(listener.hear(frame.bytes).ok().map(|(sync, _)| sync));
                continue;
            }
            counts.report.received += 1;
            counts.report.received_bytes += frame.bytes.len() as u64;
            counts.report.untaken += u64::from(device.send(frame.bytes).is_err());
        }
        take_refused(&mut counts.report.refused, &mut self.listener.refused);
        counts.report.lost.take(&mut self.uplink.lost);
        for sync in syncs {
            self.heed(&sync, counts);
        }
        Ok(total)
    }

    fn heed(&mut self, sync: &Sync, counts: &mut Counts) {
        counts.report.syncs += 1;
        counts.cpu_ns.1 = time::thread_cpu_ns();
        if sync.ask {
            self.owes_reply = true;
            self.uplink.count_overflows();
        }
        self.is_resting = sync.kind == Kind::Rest;
        self.nag_ns = NAG_NS;
        // A switch that rests has taken its promise back: no day comes before it wakes.
        if self.is_resting {
            self.next = None;
            return;
        }
        let now = time::now_ns();
        if sync.kind == Kind::Day {
            counts.sync.record(Time::ns(now.saturating_sub(sync.begins_ns)));
        }
        let known = [self.today, self.next].into_iter().flatten();
        let is_known = known.into_iter().any(|day| day.begins_ns == sync.begins_ns);
        if !is_known && sync.ends_ns > now {
            let Sync { peer, begins_ns, ends_ns, .. } = *sync;
            self.next = (peer != NOBODY).then_some(Day { peer, begins_ns, ends_ns });
        }
    }

    /// Frames for which there is time before something is due.
    fn frames_in_time(&self) -> usize {
        let now = time::now_ns();
        let dawn = self.next.map_or(u64::MAX, |day| day.begins_ns);
        // Where tokens let a frame go at once, the next pass is what is due.
        let again = if self.again_ns > now { self.again_ns } else { now + self.pass_ns };
        let again = self.today.map_or(u64::MAX, |_| again);
        let left = dawn.min(again).saturating_sub(now) / FRAME_NS;
        left.clamp(4, AT_ONCE as u64) as usize
    }

    /// Takes what programs have sent.
    fn take(&mut self, counts: &mut Counts) -> io::Result<usize> {
        let (mut taken, most) = (0, self.frames_in_time());
        while taken < most {
            let len = match self.device.recv(&mut self.room) {
                Ok(len) => len,
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => break,
                    _ => return Err(e),
                },
            };
            taken += 1;
            self.level.is_open.store(true, Ordering::Relaxed);
            let frame = &self.room[..len];
            let to = frame.get(..6).and_then(host_of);
            let to = to.filter(|&to| to < self.config.hosts && to != self.config.host);
            let Some(to) = to.filter(|_| len <= LONGEST) else {
                counts.report.for_nobody += 1;
                continue;
            };
            if !self.queues.push(to, frame) {
                // A frame without room has left as well: the load puts another in its place.
                self.level.left[usize::from(to)].fetch_add(1, Ordering::Relaxed);
            }
        }
        counts.report.overflowed += std::mem::take(&mut self.queues.overflowed);
        counts.report.taken += taken as u64;
        counts.report.waiting_bytes = self.queues.all().sum();
        Ok(taken)
    }

    /// A day ends, or begins.
    fn turn(&mut self, counts: &mut Counts) {
        let now = time::now_ns();
        if self.today.is_some_and(|day| now >= day.ends_ns) {
            self.today = None;
            self.tokens.decide(Time::ns(now), &HostEvent::Night);
        }
        let Some(day) = self.next.filter(|day| now >= day.begins_ns && self.today.is_none()) else {
            return;
        };
        self.next = None;
        if now >= day.ends_ns {
            return;
        }
        self.today = Some(day);
        let length = Time::ns(day.ends_ns - now);
        self.tokens.decide(Time::ns(now), &HostEvent::Day { peer: day.peer, length });
        (self.again_ns, self.is_dawn) = (now, true);
        self.pass_ns = ((day.ends_ns - day.begins_ns) / PASSES).clamp(PASS_NS.0, PASS_NS.1);
        if self.queues.bytes(day.peer) > 0 {
            counts.report.days += 1;
            counts.begin.record(Time::ns(now - day.begins_ns));
        }
    }

    /// Sends what tokens let go; how many frames.
    fn send(&mut self, counts: &mut Counts) -> usize {
        let Some(Day { peer, .. }) = self.today else { return 0 };
        if time::now_ns() < self.again_ns {
            return 0;
        }
        let Worker { queues, tokens, batch, .. } = self;
        // At first only what keeps the wire busy until the next pass, which comes soon: other hosts
        // begin now, too.
        let first = std::mem::take(&mut self.is_dawn);
        self.is_soon = first;
        let head_ns = queues.head(peer) * 1000 / u64::from(self.config.bytes_per_us.max(1));
        let some = (2 * PASS_NS.0).div_ceil(head_ns.max(1));
        let most = if first { some.min(AT_ONCE as u64) as usize } else { AT_ONCE };
        let again = queues.take(tokens, peer, time::now, most, batch);
        self.again_ns = again.map_or(0, |at| at.0 / 1000);
        let sent = self.batch.len();
        if sent > 0 {
            self.uplink.send(&self.batch);
            counts.report.sent += sent as u64;
            let bytes: usize = self.batch.iter().map(Vec::len).sum();
            counts.report.sent_bytes += bytes as u64;
            self.level.left[usize::from(peer)].fetch_add(sent as u64, Ordering::Relaxed);
            self.queues.give_back(&mut self.batch);
        }
        sent
    }

    /// Tells the switch what waits, if it has asked, or rests and does not know.
    fn answer(&mut self, counts: &mut Counts) -> io::Result<()> {
        let now = time::now_ns();
        let nags = self.is_resting && !self.queues.is_empty();
        let nags = nags && now - self.nagged_ns >= self.nag_ns;
        if !nags && !self.owes_reply {
            return Ok(());
        }
        if nags {
            self.nag_ns = (self.nag_ns * 2).min(LOOK_NS);
        }
        (self.owes_reply, self.nagged_ns) = (false, now);
        self.sequence += 1;
        let reply = Sync {
            kind: Kind::Reply,
            ask: false,
            host: self.config.host,
            peer: NOBODY,
            slot: 0,
            epoch: self.epoch,
            sequence: self.sequence,
            begins_ns: 0,
            ends_ns: 0,
        };
        let mut frame = [0; sync::BYTES + 8 * sync::MOST_HOSTS as usize];
        let macs = (switch_mac(self.config.host), host_mac(self.config.host));
        let demand: Vec<u64> = self.queues.all().collect();
        let len = sync::encode(&reply, macs, &demand, &mut frame).map_err(io::Error::other)?;
        counts.cpu_ns.1 = time::thread_cpu_ns();
        self.uplink.send(&[&frame[..len]]);
        Ok(())
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self, is_busy: bool, taken: usize) {
        let now = time::now_ns();
        let pass_ns = if std::mem::take(&mut self.is_soon) { PASS_NS.0 } else { self.pass_ns };
        // As many as a pass takes: more may be there already.
        if taken == AT_ONCE {
            return;
        }
        let mut until = now + LOOK_NS;
        // `ppoll` passes over a negative descriptor.
        let mut descriptors: [RawFd; 2] = [self.uplink.descriptor(), -1];
        if self.is_resting {
            descriptors[1] = self.device.as_raw_fd();
            if !self.queues.is_empty() {
                until = until.min(self.nagged_ns + self.nag_ns);
            }
        }
        if let Some(day) = self.today {
            until = until.min(day.ends_ns);
            if self.queues.bytes(day.peer) > 0 {
                until = until.min(self.again_ns.max(now + pass_ns));
            } else {
                descriptors[1] = self.device.as_raw_fd();
            }
        }
        let dawn = self.next.filter(|_| self.today.is_none()).map(|day| day.begins_ns);
        let spin_ns = dawn.map_or(0, |_| (self.config.spin_us * 1e3) as u64);
        until = until.min(dawn.map_or(u64::MAX, |at| at.saturating_sub(spin_ns)));
        if is_busy && !self.is_resting {
            // More will come: let it, and take all of it at once.
            time::wait(&[], until.min(now + pass_ns));
        } else {
            time::wait(&descriptors, until);
        }
        if let Some(dawn) = dawn {
            self.spin(dawn, spin_ns);
        }
    }

    /// Waits awake for a day that begins at once, if that is within its budget.
    fn spin(&mut self, dawn: u64, most_ns: u64) {
        let begun = time::now_ns();
        let budget = (begun - self.began_ns) as f64 * self.config.spin_share;
        if begun >= dawn || dawn - begun > most_ns || self.spun_ns.1 as f64 > budget {
            return;
        }
        while time::now_ns() < dawn {
            std::hint::spin_loop();
        }
        let spun = time::now_ns() - begun;
        self.spun_ns = (self.spun_ns.0 + spun, self.spun_ns.1 + spun);
    }
}
