//! Response times of a server with warm, cold and preheated caches, and after a sham request
//! (Gottschlag 2016, Sec 5.1), interleaved in one run.
//!
//! The server stays on one CPU, the client on another. Before each measured request: caches are
//! emptied or not; then what prepares the machine, or nothing; then, a fixed time later, the
//! request. All requests are the same and have no effects.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use halfwink_live::sys::CpuSet;
use halfwink_policy::preheat::announce::{
    encode, Announcement, Key, Mode, Receiver, ReceiverParameters,
};
use halfwink_policy::preheat::PreheatPolicy;
use halfwink_units::Time;

use crate::bpf;
use crate::client::{Client, Dialogue};
use crate::daemon::{Awake, Counts, Daemon, Hosted, Triggers};
use crate::kernel::Image;
use crate::learn::{Learned, Learner};
use crate::load::{monotonic_ns, Loader};
use crate::maps::{self, Seen};
use crate::place::{cache_bytes, prefer, Evictor, Place, Rank};
use crate::set;
use crate::shared::{Operation, Shared, Slot};

mod beside;
mod costs;
pub(crate) mod server;
mod tables;

pub use beside::{beside, Beside};
use server::{slot_of, threads};
use tables::table;
pub use tables::{Class, Cold, Rates, Row, Table};

/// Server under measurement.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Address of the server.
    pub address: SocketAddr,
    /// Requests that are sent to it.
    pub dialogue: Dialogue,
    /// The process that answers; 0 for the one that says so when greeted (PostgreSQL), or the only
    /// one that has a helper thread.
    pub pid: u32,
    /// CPUs of the server and of the client.
    pub cpus: (u32, u32),
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
    /// Daemon that is notified of requests, and the sender of announcements.
    announcer: Option<Announcer>,
    /// Time from the preparation to the request.
    pub lead: Duration,
    /// Times from sending an announcement to the first load, in microseconds, where a load
    /// followed.
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
        // The daemon is this process's own, so that the key need not be a secret.
        let key = Key(*b"of a measurement");
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(why)?;
        let receiver = Receiver::new(key, ReceiverParameters::default());
        let triggers = Triggers { awake: Some(Awake::Measured), ..Triggers::default() };
        let service = (self.subject.address.port(), triggers);
        let (host, loader) = (Hosted::logged(policy, None), Arc::clone(&self.loader));
        let daemon = Daemon::start(socket, receiver, host, loader, service)?;
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(why)?;
        socket.connect(daemon.address).map_err(why)?;
        // The daemon's thread never sleeps, and keeps the CPU awake from now on.
        self.place.rest();
        self.announcer = Some(Announcer { daemon, socket, key, sequence: 0 });
        Ok(())
    }

    /// Returns the counters of the daemon.
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

    /// Measures one request.
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

    fn note_first(&mut self, begun_ns: u64) {
        let Some(announcer) = &self.announcer else { return };
        let first = announcer.daemon.first_ns();
        // An earlier time is that of another request: this announcement has led to no load.
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

    /// Flushes user lines by the server's own thread, and here for files that it maps.
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
