//! The same devices to this machine's own kernel: `/dev/ublkb0`, by its ublk driver.
//!
//! ```text
//!  programs, file systems ══▶ kernel: a queue for each CPU ══▶ io_uring ══▶ worker: device ──▶
//!      policy ──Here──▶ bytes to the pages of whoever asked ──▶ commit ══▶ kernel
//! ```
//!
//! The policy is asked as for connections: it says which thread copies a read's bytes. The commit
//! goes back to the thread that has fetched, since the kernel takes it from no other.

mod driver;
mod queue;
mod wire;
mod worker;

use std::fs::{File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use halfwink_live::clock::Rate;
use halfwink_policy::completion::Hears;

use crate::backend::Backend;
use crate::control::{Clock, Control, Decides, EventLog};
use crate::crew::Crew;
use crate::report::{Measured, Report};
use crate::sync::Syncer;
use crate::worker::Post;
pub use driver::missing;
use driver::{disk, node, Driver};
use queue::{Bytes, Io, Queue};
use wire::{Info, Params, SECTOR};
use worker::Worker;

/// Settings of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Number of the device; the next that is free if none.
    pub number: Option<u32>,
    /// Rejects all writes.
    pub read_only: bool,
    /// A thread for each, kept to this CPU; to none if it is none.
    pub cpus: Vec<Option<u32>>,
}

/// Messages from one worker to another.
#[derive(Clone, Copy, Debug)]
enum Mail {
    /// An I/O to complete.
    Complete(Io),
    /// Completed; to be answered by who has fetched it.
    Commit(Io, i32),
}

/// State that all threads share.
struct Shared {
    bytes: Bytes,
    read_only: bool,
    posts: Vec<Post>,
    letters: Vec<Mutex<Vec<Mail>>>,
    /// The worker that fetches, of each queue.
    hearers: Vec<u16>,
    control: Control,
    syncer: Syncer<Io>,
    ends: AtomicBool,
    /// The disk is no more.
    is_gone: AtomicBool,
    begun: [Instant; 2],
}

impl Shared {
    /// Returns the messages that wait for a worker.
    fn letters(&self, number: u16) -> MutexGuard<'_, Vec<Mail>> {
        self.letters[usize::from(number)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device of the kernel's, taken away when it is dropped. Nothing of it may be open then.
struct Device {
    driver: Mutex<Driver>,
    number: u32,
    is_there: AtomicBool,
}

impl Device {
    fn driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delete(&self) -> io::Result<()> {
        if !self.is_there.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.driver().delete(self.number)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Whoever wanted to know has deleted it.
        let _ = self.delete();
    }
}

/// Threads of a device. They end when it is dropped.
struct Live {
    shared: Arc<Shared>,
    device: Arc<Device>,
    crew: Crew,
}

/// A device at work. Dropping it stops it and takes it away.
pub struct Ublk {
    // In this order: the threads hold the device open.
    live: Live,
    device: Arc<Device>,
}

/// The worker that each queue's requests come from, and the one that fetches them.
fn places(
    driver: &mut Driver,
    info: &Info,
    cpus: &[Option<u32>],
    hears: Hears,
) -> io::Result<Vec<(u16, u16)>> {
    let workers = cpus.len() as u16;
    (0..info.queues)
        .map(|queue| {
            let near = driver.cpus(info.device, queue)?;
            let is_near = |cpu: &Option<u32>| cpu.is_some_and(|cpu| near.contains(&cpu));
            // Where nobody is near, all take turns.
            let issuer = cpus.iter().position(is_near).map_or(queue % workers, |n| n as u16);
            let hearer = match hears {
                Hears::One => 0,
                Hears::Issuer | Hears::Polled => issuer,
            };
            Ok((issuer, hearer))
        })
        .collect()
}

impl Ublk {
    /// Makes the disk and serves it.
    ///
    /// # Errors
    /// What the machine does not allow.
    pub fn start(
        setting: &Setting,
        backend: Box<dyn Backend>,
        policy: impl Into<Decides>,
        log: Option<EventLog>,
    ) -> Result<Ublk, String> {
        if !backend.size().is_multiple_of(SECTOR) {
            return Err(format!("{} bytes: expected sectors of 512", backend.size()));
        }
        let mut driver = Driver::open()?;
        let info = driver.add(setting.number, setting.cpus.len() as u16)?;
        let (number, is_there) = (info.device, AtomicBool::new(true));
        let device = Arc::new(Device { driver: Mutex::new(driver), number, is_there });
        let said = |e: io::Error| format!("{}: {e}", disk(number));
        let earliest = Instant::now();
        let control = Control::new(policy, Clock::start(Rate::measure()), log);
        let hears = control.ways.hears;
        let places = places(&mut device.driver(), &info, &setting.cpus, hears).map_err(said)?;
        let params = Params::of(backend.size(), setting.read_only);
        device.driver().set_params(number, params).map_err(said)?;
        let node = node(number);
        let pages = OpenOptions::new().read(true).write(true).open(&node);
        let pages = Arc::new(pages.map_err(|e| format!("{}: {e}", node.display()))?);
        let posts = setting.cpus.iter().map(|&cpu| Post::new(cpu)).collect::<Result<Vec<_>, _>>();
        let shared = Arc::new(Shared {
            bytes: Bytes { pages: Arc::clone(&pages), backend },
            read_only: setting.read_only,
            posts: posts.map_err(said)?,
            letters: setting.cpus.iter().map(|_| Mutex::default()).collect(),
            hearers: places.iter().map(|&(_, hearer)| hearer).collect(),
            control,
            syncer: Syncer::default(),
            ends: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            begun: [earliest, Instant::now()],
        });
        let live = Live { shared, device: Arc::clone(&device), crew: Crew::default() };
        live.fetch(&pages, &places, info.depth).map_err(said)?;
        drop(pages);
        device.driver().start(number).map_err(said)?;
        Ok(Ublk { live, device })
    }

    /// Returns the path of the disk.
    #[must_use]
    pub fn address(&self) -> String {
        disk(self.device.number)
    }

    pub(crate) fn control(&self) -> &Control {
        &self.live.shared.control
    }

    /// Returns whether all its threads are running, and the disk is present.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.live.shared.is_gone.load(Ordering::Relaxed) && self.live.crew.is_running()
    }

    /// Returns the report up to now.
    #[must_use]
    pub fn report(&self) -> Report {
        let shared = &self.live.shared;
        Report::of(&Measured {
            control: &shared.control,
            backend: &*shared.bytes.backend,
            posts: &shared.posts,
            synced: shared.syncer.look(),
            connections: None,
            begun: shared.begun,
        })
    }

    /// Takes the disk away, for which the kernel writes back what it has of it, and ends; what was
    /// answered is on stable storage then.
    ///
    /// # Errors
    /// The kernel's, or the device's last flush failed.
    pub fn stop(self) -> Result<(), String> {
        let Ublk { live, device } = self;
        let ended = live.end();
        drop(live);
        let deleted = device.delete().map_err(|e| format!("ublk device {}: {e}", device.number));
        ended.and(deleted)
    }
}

impl Live {
    /// Has threads ask for requests; back once all have.
    fn fetch(&self, pages: &File, places: &[(u16, u16)], depth: u16) -> io::Result<()> {
        let (tell, told) = mpsc::channel();
        let workers = self.shared.posts.len() as u16;
        for number in 0..workers {
            let mine = (0u16..).zip(places).filter(|(_, &(_, hearer))| hearer == number);
            let queues: Vec<Queue> = mine
                .map(|(queue, &(issuer, _))| Queue::map(pages, queue, issuer, depth))
                .collect::<io::Result<_>>()?;
            let (own, tell) = (Arc::clone(&self.shared), tell.clone());
            let body = move || Worker::run(number, own, queues, &tell);
            self.crew.spawn(format!("block {number}"), body)?;
        }
        let own = Arc::clone(&self.shared);
        let body = move || own.syncer.run(&*own.bytes.backend, |io, e| answer(&own, io, e));
        self.crew.spawn_syncer(body)?;
        // The kernel would wait for ever to show the disk before all have.
        (0..workers).try_for_each(|_| told.recv().map_err(io::Error::other)?)
    }

    fn end(&self) -> Result<(), String> {
        let shared = &self.shared;
        // The threads serve what the kernel still writes.
        let mut stopped = Ok(());
        let stop = || stopped = self.device.driver().stop(self.device.number);
        let tell = || {
            shared.ends.store(true, Ordering::Relaxed);
            shared.posts.iter().for_each(|post| post.bell.ring());
        };
        if !self.crew.end(&shared.syncer, stop, tell) {
            return Ok(());
        }
        shared.control.end_log();
        let flushed = shared.bytes.backend.flush();
        stopped.map_err(|e| format!("{}: {e}", disk(self.device.number)))?;
        flushed.map_err(|e| format!("the last flush of the device failed: {e}"))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Whoever wanted to know has stopped it.
        let _ = self.end();
    }
}

/// A flush is done: completes what waited for it.
fn answer(shared: &Shared, mut io: Io, error: Option<&io::Error>) {
    io.error = error.map_or(0, queue::errno);
    let hearer = shared.hearers[usize::from(io.queue)];
    // A write's bytes have been taken: nothing is left but to answer.
    let result = shared.bytes.finish(&io, &mut []);
    shared.letters(hearer).push(Mail::Commit(io, result));
    shared.posts[usize::from(hearer)].wake();
}
