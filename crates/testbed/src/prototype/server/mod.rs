//! A pool of workers behind HTTP/1.1: one thread per worker on a CPU of its own, one request in
//! service each, all others in one queue in the order in which they came.
//!
//! All workers wait on one epoll descriptor that hands each event to one of them. So a pool with
//! W workers is a queue with W servers however many connections there are, as in the model.

mod connection;
mod request;
mod socket;
mod worker;

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use halfwink_engine::Histogram;

use self::connection::Connection;
pub use self::request::{parse, Ask, Parsed, Request};
use self::socket::{Epoll, Listener};
use self::worker::{Counts, Worker};
use super::dataset::Index;
use super::quota::Quota;
use super::report::{PoolReport, Seconds, WorkerReport};
use super::Error;
use crate::traffic::monotonic_ns;
use halfwink_live::sys::CpuSet;

/// Connections at once, at most; more are answered with 503.
const MOST_CONNECTIONS: usize = 8192;
/// Numbers of events that are no connections'.
const STOP: u64 = 0;
const LISTEN: u64 = 1;
const FIRST: u64 = 2;

/// Way in which a worker of a slower pool takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowBy {
    /// Sleeps, and leaves its CPU to others: the choice where both pools share CPUs.
    Wait,
    /// Repeats the work, and keeps its CPU busy.
    Spin,
}

/// Options of a pool.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name in `X-Backend` of its answers.
    pub name: String,
    /// `HOST:PORT`, port 0 for any, or `unix:PATH`.
    pub listen: String,
    /// Folder of the data set.
    pub folder: PathBuf,
    /// Number of workers.
    pub workers: usize,
    /// CPUs of the workers, in turn; all that are allowed, if none are named.
    pub cpus: Vec<u32>,
    /// A request takes so many times its processor time; 1 for as it is.
    pub slow: f64,
    /// Way in which it is slower.
    pub slow_by: SlowBy,
    /// The work of a request is done so many times.
    pub repeat: u32,
    /// Per cent of one processor that the process gets.
    pub quota: Option<f64>,
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::input(what));
        if !(1..=1024).contains(&self.workers) {
            return wrong(format!("{} workers: expected 1 to 1024", self.workers));
        }
        if !(1.0..=1000.0).contains(&self.slow) {
            return wrong(format!("slow {}: expected 1 to 1000", self.slow));
        }
        if !(1..=100_000).contains(&self.repeat) {
            return wrong(format!("repeat {}: expected 1 to 100000", self.repeat));
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if self.name.is_empty() || !self.name.bytes().all(plain) {
            return wrong(format!("name `{}`: expected letters, digits, - _ .", self.name));
        }
        Ok(())
    }
}

/// State that all workers share.
struct Shared {
    options: Options,
    index: Index,
    index_text: String,
    epoll: Epoll,
    listener: Listener,
    stop: AtomicBool,
    bell: OwnedFd,
    connections: Mutex<HashMap<u64, Connection>>,
    next: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind our locks is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool at work. It ends when it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    counts: Vec<Arc<Mutex<Counts>>>,
    cpus: Vec<u32>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    quota: Mutex<Option<Quota>>,
    start_ns: u64,
    end_ns: AtomicU64,
}

impl Server {
    /// Begins to serve: when it returns, connections are taken.
    ///
    /// # Errors
    /// The options cannot be, the folder holds no data set, or the kernel refuses.
    pub fn start(options: Options) -> Result<Server, Error> {
        options.check()?;
        let index = Index::read(&options.folder)?;
        let listener = Listener::open(&options.listen)?;
        let epoll = Epoll::new().map_err(|e| Error::os("epoll", e))?;
        let bell = socket::bell().map_err(|e| Error::os("eventfd", e))?;
        let add = |fd: &OwnedFd, number, once| {
            epoll.add(fd, number, once).map_err(|e| Error::os("epoll", e))
        };
        add(&bell, STOP, false)?;
        add(listener.fd(), LISTEN, true)?;
        let cpus: Vec<u32> = if options.cpus.is_empty() {
            CpuSet::allowed().iter().collect()
        } else {
            options.cpus.clone()
        };
        let quota = options.quota.map(Quota::begin).transpose()?;
        let workers = options.workers;
        let shared = Arc::new(Shared {
            index_text: index.text(),
            options,
            index,
            epoll,
            listener,
            stop: AtomicBool::new(false),
            bell,
            connections: Mutex::new(HashMap::new()),
            next: AtomicU64::new(FIRST),
        });
        let server = Server {
            counts: (0..workers).map(|_| Arc::default()).collect(),
            cpus: (0..workers).map(|n| cpus[n % cpus.len()]).collect(),
            shared,
            threads: Mutex::default(),
            quota: Mutex::new(quota),
            start_ns: monotonic_ns(),
            end_ns: AtomicU64::new(u64::MAX),
        };
        // If one of them cannot start, dropping `server` ends the others.
        server.spawn()?;
        Ok(server)
    }

    fn spawn(&self) -> Result<(), Error> {
        let (tell, told) = channel();
        for (&cpu, counts) in self.cpus.iter().zip(&self.counts) {
            let (shared, counts) = (Arc::clone(&self.shared), Arc::clone(counts));
            let tell = tell.clone();
            let work = move || {
                let pinned = CpuSet::one(cpu).pin();
                let ready = pinned.is_ok();
                let _ = tell.send((cpu, pinned));
                drop(tell);
                if ready {
                    Worker::new(&shared, &counts).run();
                }
            };
            let spawned = std::thread::Builder::new().name("halfwink-pool".into()).spawn(work);
            locked(&self.threads).push(spawned.map_err(|e| Error::os("a thread", e))?);
        }
        drop(tell);
        for (cpu, pinned) in told {
            pinned.map_err(|_| Error::input(format!("CPU {cpu}: not allowed")))?;
        }
        Ok(())
    }

    /// Returns the address that it listens on: `HOST:PORT` or `unix:PATH`.
    #[must_use]
    pub fn address(&self) -> &str {
        self.shared.listener.address()
    }

    /// Ends it: requests in service are answered first, those that wait are not.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        socket::ring(&self.shared.bell);
        for thread in locked(&self.threads).drain(..) {
            // A worker that broke down has said so on standard error.
            let _ = thread.join();
        }
        let now = monotonic_ns();
        let _ = self.end_ns.compare_exchange(u64::MAX, now, Ordering::SeqCst, Ordering::SeqCst);
        locked(&self.shared.connections).clear();
        locked(&self.quota).take();
    }

    /// Returns the report up to now.
    #[must_use]
    pub fn report(&self) -> PoolReport {
        let mut service = Histogram::default();
        let mut connections = 0;
        let workers: Vec<WorkerReport> = self
            .counts
            .iter()
            .zip(&self.cpus)
            .map(|(counts, &cpu)| {
                let counts = locked(counts);
                service.add(&counts.service);
                connections += counts.connections;
                WorkerReport {
                    cpu,
                    served: counts.service.count(),
                    refused: counts.refused,
                    busy_s: counts.service.total().as_ns() / 1e9,
                    cpu_s: counts.cpu_s,
                    bytes: counts.bytes,
                }
            })
            .collect();
        let end_ns = self.end_ns.load(Ordering::SeqCst).min(monotonic_ns());
        PoolReport {
            name: self.shared.options.name.clone(),
            duration_s: end_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            served: workers.iter().map(|w| w.served).sum(),
            refused: workers.iter().map(|w| w.refused).sum(),
            connections,
            service_s: Seconds::of(&service),
            workers,
        }
    }

    /// Returns whether all workers are alive.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let threads = locked(&self.threads);
        !threads.is_empty() && threads.iter().all(|thread| !thread.is_finished())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Takes connections that wait; those beyond the limit are told so.
    fn accept(&self) -> u64 {
        let mut taken = 0;
        // Others may wait for service: no more than a few at once.
        while taken < 64 {
            let Some(fd) = self.listener.accept() else { break };
            taken += 1;
            let mut connections = locked(&self.connections);
            if connections.len() >= MOST_CONNECTIONS {
                drop(connections);
                Connection::new(fd).refuse(503);
                continue;
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let raw = fd.as_raw_fd();
            // It must be known before its first event.
            connections.insert(number, Connection::new(fd));
            if self.epoll.add_raw(raw, number, true).is_err() {
                connections.remove(&number);
            }
        }
        // The listener tells of one event at a time.
        let _ = self.epoll.again(self.listener.fd().as_raw_fd(), LISTEN);
        taken
    }

    fn info(&self) -> String {
        let o = &self.options;
        serde_json::json!({
            "name": o.name,
            "workers": o.workers,
            "slow": o.slow,
            "slow_by": if o.slow_by == SlowBy::Wait { "wait" } else { "spin" },
            "repeat": o.repeat,
            "quota_pct": o.quota,
            "files": self.index.files.len(),
        })
        .to_string()
    }
}
