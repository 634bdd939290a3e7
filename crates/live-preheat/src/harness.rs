//! Response times of a server with warm, cold and preheated caches, and after a sham request
//! (Gottschlag 2016, Sec 5.1), interleaved in one run.
//!
//! The server stays on one CPU, the client on another. Before each measured request: caches are
//! emptied or not; then what prepares the machine, or nothing; then, a fixed time later, the
//! request. All requests are the same and have no effects.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use halfwink_live::clock::{ticks_fenced, Rate};
use halfwink_live::sys::CpuSet;
use halfwink_policy::preheat::announce::{
    encode, Announcement, Key, Mode, Receiver, ReceiverParameters,
};
use halfwink_policy::preheat::PreheatPolicy;
use halfwink_units::Time;
use serde::Serialize;

use crate::bpf;
use crate::client::{Client, Dialogue};
use crate::daemon::{Awake, Counts, Daemon, Triggers};
use crate::helper::{self, prefetch};
use crate::kernel::Image;
use crate::learn::{Learned, Learner};
use crate::load::{monotonic_ns, Loader};
use crate::maps::{self, Seen};
use crate::place::{cache_bytes, prefer, Evictor, Place, Rank};
use crate::set;
use crate::shared::{Operation, Shared, Slot};
use crate::statistics::{sign_test, Summary};

/// What happened to the caches before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cold {
    /// The second cache lost all, the last one kept it: what core C6 does.
    L2,
    /// As that, and all user lines of the set were flushed to memory.
    UserDram,
    /// The last cache lost all too, as far as reading much else makes it.
    Llc,
}

impl Cold {
    /// All of them.
    pub const ALL: [Cold; 3] = [Cold::L2, Cold::UserDram, Cold::Llc];

    /// How it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cold::L2 => "L2-cold",
            Cold::UserDram => "DRAM-cold (user lines)",
            Cold::Llc => "LLC-cold (streamed)",
        }
    }
}

/// How a request was prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Other requests just before it, nothing emptied.
    Warm,
    /// Emptied.
    Cold,
    /// Emptied, then preheated.
    Preheated,
    /// Emptied, then another request on another connection.
    Sham,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] = [Class::Warm, Class::Cold, Class::Preheated, Class::Sham];
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What is said to it.
    pub dialogue: Dialogue,
    /// The process that answers; 0 for the one that says so when greeted (PostgreSQL), or the only
    /// one that has a helper thread.
    pub pid: u32,
    /// Its CPU, and the client's.
    pub cpus: (u32, u32),
}

/// Response times under one kind of cold, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What was cold.
    pub cold: &'static str,
    /// By class.
    pub classes: Vec<Row>,
    /// Of the median penalty (cold less warm), removed by preheating.
    pub removed_by_preheat: f64,
    /// And by a sham request.
    pub removed_by_sham: f64,
    /// Sign tests of pairs: warm below preheated, preheated below cold, sham below preheated.
    pub p_warm_preheated: f64,
    /// See `p_warm_preheated`.
    pub p_preheated_cold: f64,
    /// See `p_warm_preheated`.
    pub p_sham_preheated: f64,
    /// Times in the order of rounds, by class.
    #[serde(skip)]
    pub times: Vec<Vec<f64>>,
}

/// A class and its quantiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Which.
    pub class: Class,
    /// Its response times in microseconds.
    #[serde(flatten)]
    pub summary: Summary,
}

/// A server with the preload library beside one without.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Beside {
    /// With it.
    pub here: Summary,
    /// Without it.
    pub there: Summary,
    /// Of medians.
    pub ratio: f64,
    /// Times that the library's thread woke.
    pub wakes: u64,
}

/// Nanoseconds a line.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rates {
    /// The BPF program, all lines cached.
    pub kernel_warm: f64,
    /// The same after the second cache was emptied.
    pub kernel_cold: f64,
    /// The server's thread, lines flushed; all walks of the list together.
    pub user: f64,
    /// A plain loop of prefetches over as many lines of our own, laid out likewise.
    pub best_prefetch: f64,
    /// The former by the latter.
    pub ratio: f64,
}

/// A server with its client, and all that prepares its machine.
#[derive(Debug)]
pub struct Harness {
    subject: Subject,
    place: Place,
    client: Client,
    sham: Client,
    evictor: Evictor,
    second_bytes: usize,
    last_bytes: usize,
    kernel: (Arc<Mutex<bpf::Lines>>, Image),
    slot: Option<&'static Slot>,
    loader: Arc<Mutex<Loader>>,
    /// Files of the set, to be flushed.
    seen: Arc<Vec<(Seen, Vec<u64>)>>,
    /// Who is told that a request will come, and how.
    announcer: Option<Announcer>,
    /// From preparation to request.
    pub lead: Duration,
    /// From sending an announcement to the first load, in microseconds, of all that led to one.
    pub first_us: Vec<f64>,
}

#[derive(Debug)]
struct Announcer {
    daemon: Daemon,
    socket: UdpSocket,
    key: Key,
    sequence: u64,
}

impl Harness {
    /// Connects to a server, and loads the programs.
    ///
    /// # Errors
    /// What is missing or does not work, in one line.
    pub fn open(subject: Subject, shared: Shared) -> Result<Harness, String> {
        let (server_cpu, client_cpu) = subject.cpus;
        CpuSet::one(client_cpu).pin().map_err(|e| format!("CPU {client_cpu}: error {e}"))?;
        let image = Image::running()?;
        let kernel = Arc::new(Mutex::new(bpf::Lines::open(&image)?));
        let (second_bytes, last_bytes) = cache_bytes(server_cpu)?;
        let evictor = Evictor::new(3 * last_bytes)?;
        let sham = Client::connect(subject.address, &subject.dialogue)?;
        let client = Client::connect(subject.address, &subject.dialogue)?;
        let slot = slot_of(&subject, &client, shared)?;
        let (pid, helper) = slot.and_then(Slot::owner).unwrap_or((subject.pid, 0));
        threads(pid).into_iter().chain([helper]).for_each(|tid| prefer(tid, Rank::Server));
        prefer(0, Rank::First);
        let loader = Loader::new(Some(Arc::clone(&kernel)), shared, server_cpu);
        Ok(Harness {
            place: Place::awake(server_cpu),
            client,
            sham,
            evictor,
            second_bytes,
            last_bytes,
            kernel: (kernel, image),
            slot,
            loader: Arc::new(Mutex::new(loader)),
            seen: Arc::default(),
            announcer: None,
            lead: Duration::from_micros(500),
            first_us: Vec::new(),
            subject,
        })
    }

    /// The process that answers.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.slot.and_then(Slot::owner).map_or(self.subject.pid, |(pid, _)| pid)
    }

    /// Lines that are loaded.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_set(&self, path: &std::path::Path) -> Result<(), String> {
        let loader = self.loader.lock().map_err(|_| FAILED)?;
        set::write(path, loader.lines(), &self.kernel.1)
    }

    /// Finds out which lines a request uses, and loads those from now on.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn learn(&mut self, requests: u32) -> Result<Learned, String> {
        let pid = self.pid();
        let learner = Learner {
            place: &self.place,
            evictor: (self.evictor, 3 * self.last_bytes, 4 * self.second_bytes),
            kernel: self.kernel.clone(),
            slot: self.slot,
            pid,
            requests,
        };
        let client = &mut self.client;
        let learned = learner.learn(&mut || client.ask().map(drop))?;
        let start = set::start_of(&maps::mappings(pid)?);
        let seen = learned
            .lines
            .files
            .iter()
            .map(|(path, set)| Ok((Seen::open(path)?, set.as_slice().to_vec())));
        self.seen = Arc::new(seen.collect::<Result<_, String>>()?);
        self.loader.lock().map_err(|_| FAILED)?.set(learned.lines.clone(), &start)?;
        Ok(learned)
    }

    /// Has requests announced to a daemon from now on, under a policy.
    ///
    /// # Errors
    /// Those of sockets.
    pub fn announce(&mut self, policy: PreheatPolicy) -> Result<(), String> {
        let why = |e: std::io::Error| format!("announcements: {e}");
        let key = Key(*b"of a measurement");
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(why)?;
        let receiver = Receiver::new(key, ReceiverParameters::default());
        let triggers = Triggers { awake: Some(Awake::Measured), ..Triggers::default() };
        let service = (self.subject.address.port(), triggers);
        let daemon = Daemon::start(socket, receiver, policy, Arc::clone(&self.loader), service)?;
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(why)?;
        socket.connect(daemon.address).map_err(why)?;
        self.place.rest();
        self.announcer = Some(Announcer { daemon, socket, key, sequence: 0 });
        Ok(())
    }

    /// What the daemon counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.announcer.as_ref().map(|a| a.daemon.counts()).unwrap_or_default()
    }

    /// Measures all classes, so many rounds.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn measure(&mut self, cold: Cold, rounds: usize) -> Result<Table, String> {
        let mut times = vec![Vec::with_capacity(rounds); Class::ALL.len()];
        for round in 0..rounds {
            // Each class comes in each place, and after each other.
            for k in 0..Class::ALL.len() {
                let at = (round + k * if round / 4 % 2 == 0 { 1 } else { 3 }) % Class::ALL.len();
                times[at].push(self.sample(Class::ALL[at], cold)?);
            }
        }
        Ok(table(cold, times))
    }

    /// One request.
    fn sample(&mut self, class: Class, cold: Cold) -> Result<f64, String> {
        for _ in 0..3 {
            self.client.ask()?;
        }
        if class != Class::Warm {
            self.empty(cold)?;
        }
        let (begun, begun_ns) = (Instant::now(), monotonic_ns());
        match class {
            Class::Warm | Class::Cold => {}
            Class::Preheated => self.preheat()?,
            Class::Sham => drop(self.sham.ask()?),
        }
        while begun.elapsed() < self.lead {
            core::hint::spin_loop();
        }
        let took = self.client.ask()?;
        if class == Class::Preheated {
            self.note_first(begun_ns);
        }
        Ok(took)
    }

    /// From sending an announcement to its first load, with everything warm and the CPU awake.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn latency(&mut self, rounds: usize) -> Result<Summary, String> {
        self.first_us.clear();
        for _ in 0..rounds {
            let (begun, begun_ns) = (Instant::now(), monotonic_ns());
            self.preheat()?;
            while begun.elapsed() < self.lead + Duration::from_micros(100) {
                core::hint::spin_loop();
            }
            self.note_first(begun_ns);
        }
        Ok(Summary::of(&self.first_us))
    }

    /// Response times here and of another server, in turn, with everything warm and nothing
    /// announced: what the preload library costs. And how often its thread woke meanwhile.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn beside(&mut self, other: SocketAddr, rounds: usize) -> Result<Beside, String> {
        let mut other = Client::connect(other, &self.subject.dialogue)?;
        let wakes = || self.slot.map_or(0, |slot| slot.wakes.load(Ordering::Relaxed));
        let before = wakes();
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for round in 0..2 * rounds {
            // Each is first as often as the other, and once unmeasured: they share their caches.
            let is_here = round % 2 == round / 2 % 2;
            let (client, times) = match is_here {
                true => (&mut self.client, &mut here),
                false => (&mut other, &mut there),
            };
            client.ask()?;
            client.ask()?;
            times.push(client.ask()?);
        }
        let wakes = wakes() - before;
        let (here, there) = (Summary::of(&here), Summary::of(&there));
        Ok(Beside { here, there, ratio: here.p50.value / there.p50.value, wakes })
    }

    /// Nanoseconds a line, each the best of several runs on the server's CPU.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn rates(&mut self) -> Result<Rates, String> {
        let (cpu, evictor, bytes) = (self.place.cpu, self.evictor, 4 * self.second_bytes);
        let kernel = Arc::clone(&self.kernel.0);
        let (warm, cold) = self.place.run(move || -> Result<_, String> {
            let kernel = kernel.lock().map_err(|_| FAILED)?;
            let run = || {
                let ran = kernel.run(cpu, 0).map_err(|e| format!("preheating: {e}"))?;
                Ok::<_, String>((ran.ended_ns - ran.began_ns) as f64 / ran.lines.max(1) as f64)
            };
            let (mut warm, mut cold) = (f64::MAX, f64::MAX);
            for _ in 0..TRIES {
                evictor.stream(bytes);
                cold = cold.min(run()?);
                warm = warm.min(run()?);
            }
            Ok((warm, cold))
        })?;
        let Some(slot) = self.slot else {
            return Ok(Rates { kernel_warm: warm, kernel_cold: cold, ..Rates::default() });
        };
        let count = slot.count.load(Ordering::Relaxed) as usize;
        let words: Vec<u64> =
            slot.words[..count].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let lines: u64 = words.iter().map(|word| (word & 63) + 1).sum();
        let rate = Rate::measure();
        let per_line = |ticks: u64| rate.ps(ticks) as f64 / 1e3 / lines.max(1) as f64;
        let (mut user, mut best) = (f64::MAX, f64::MAX);
        // As many pages, each a translation.
        let own = Evictor::in_small_pages(OWN_BYTES)?;
        for _ in 0..TRIES {
            self.flush_user_lines()?;
            let number = slot.post(Operation::Load, None, 0);
            if !slot.wait(number, PATIENCE_NS) {
                return Err(SILENT.to_owned());
            }
            let [first, last] =
                [&slot.first_ticks, &slot.last_ticks].map(|t| t.load(Ordering::Relaxed));
            user = user.min(per_line(last - first));
            // The same pattern in memory of our own.
            let room = (own.bytes() - (1 << 16)) as u64;
            let own: Vec<u64> = words.iter().map(|w| own.base() + w % room).collect();
            best = best.min(per_line(self.place.run(move || {
                // SAFETY: runs of at most 64 lines, that far from the end of our own memory.
                unsafe { helper::flush(&own) };
                let begun = ticks_fenced();
                prefetch(&own);
                ticks_fenced() - begun
            })));
        }
        let ratio = user / best;
        Ok(Rates { kernel_warm: warm, kernel_cold: cold, user, best_prefetch: best, ratio })
    }

    fn note_first(&mut self, begun_ns: u64) {
        let Some(announcer) = &self.announcer else { return };
        let first = announcer.daemon.first_ns();
        if first > begun_ns {
            self.first_us.push((first - begun_ns) as f64 / 1e3);
        }
    }

    fn preheat(&mut self) -> Result<(), String> {
        if let Some(announcer) = &mut self.announcer {
            announcer.sequence += 1;
            let announcement = Announcement {
                port: self.subject.address.port(),
                source: 1,
                sequence: announcer.sequence,
                lead: Time::ns(self.lead.as_nanos() as u64),
                mode: Mode::Announce,
            };
            let bytes = encode(&announcement, &announcer.key);
            return announcer.socket.send(&bytes).map(drop).map_err(|e| e.to_string());
        }
        let loader = Arc::clone(&self.loader);
        self.place.run(move || loader.lock().map_err(|_| FAILED)?.load(0)).map(drop)
    }

    fn empty(&self, cold: Cold) -> Result<(), String> {
        let bytes = match cold {
            Cold::L2 | Cold::UserDram => 4 * self.second_bytes,
            Cold::Llc => 3 * self.last_bytes,
        };
        if cold == Cold::UserDram {
            self.flush_user_lines()?;
        }
        let evictor = self.evictor;
        self.place.run(move || evictor.stream(bytes));
        Ok(())
    }

    /// By the server's own thread, and here for files that it maps.
    fn flush_user_lines(&self) -> Result<(), String> {
        if let Some(slot) = self.slot {
            let number = slot.post(Operation::Flush, None, 0);
            if !slot.wait(number, PATIENCE_NS) {
                return Err(SILENT.to_owned());
            }
        }
        let seen = Arc::clone(&self.seen);
        self.place.run(move || {
            for (file, lines) in seen.iter() {
                for at in lines.iter().filter_map(|line| file.line(*line)) {
                    // SAFETY: of a mapping that lasts.
                    unsafe { core::arch::x86_64::_mm_clflush(at) };
                }
            }
        });
        Ok(())
    }
}

const FAILED: &str = "another thread failed";
const SILENT: &str = "the thread in the server does not answer";
const PATIENCE_NS: u64 = 1_000_000_000;
/// Memory to compare loads with.
const OWN_BYTES: usize = 64 << 20;
/// Runs of which the best counts.
const TRIES: usize = 20;

/// Threads of a process.
fn threads(pid: u32) -> Vec<u32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn slot_of(
    subject: &Subject,
    client: &Client,
    shared: Shared,
) -> Result<Option<&'static Slot>, String> {
    let pid = match subject.pid {
        0 => backend(&client.greeted).unwrap_or(0),
        pid => pid,
    };
    // The thread may be on its way still.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let found = shared.alive().find(|(_, p, tid)| (*p == pid || pid == 0) && *tid != 0);
        if let Some((slot, _, _)) = found {
            return Ok(Some(slot));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(_) => Err(format!("process {pid} has not loaded the preload library")),
        Err(_) => Err("no server process has loaded the preload library".to_owned()),
    }
}

/// The process that serves a connection to PostgreSQL, as `BackendKeyData` tells.
fn backend(greeted: &[u8]) -> Option<u32> {
    let mut rest = greeted;
    while let [kind, a, b, c, d, ..] = rest {
        let bytes = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let body = rest.get(5..bytes.checked_add(1)?)?;
        if *kind == b'K' && body.len() >= 4 {
            return Some(u32::from_be_bytes([body[0], body[1], body[2], body[3]]));
        }
        rest = rest.get(bytes + 1..)?;
    }
    None
}

fn table(cold: Cold, times: Vec<Vec<f64>>) -> Table {
    let summaries: Vec<Summary> = times.iter().map(|t| Summary::of(t)).collect();
    let classes = Class::ALL.into_iter().zip(&summaries);
    let p50 = |class: Class| summaries[class as usize].p50.value;
    let penalty = p50(Class::Cold) - p50(Class::Warm);
    let removed = |class| (p50(Class::Cold) - p50(class)) / penalty;
    let test = |a: Class, b: Class| sign_test(&times[a as usize], &times[b as usize]);
    Table {
        cold: cold.name(),
        classes: classes.map(|(class, summary)| Row { class, summary: *summary }).collect(),
        removed_by_preheat: removed(Class::Preheated),
        removed_by_sham: removed(Class::Sham),
        p_warm_preheated: test(Class::Warm, Class::Preheated),
        p_preheated_cold: test(Class::Preheated, Class::Cold),
        p_sham_preheated: test(Class::Sham, Class::Preheated),
        times,
    }
}
