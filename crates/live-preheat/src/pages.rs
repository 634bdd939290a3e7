//! Pages of a process that stood still: dropped, recorded while a request runs, and put back before
//! or as the next one runs (REAP: Ustiugov 2021), by the simulator's own policy.
//!
//! ```text
//!  stop, own memory into a file, mapped from there, pages of files unmapped, go on
//!  Arrived or Announced ─▶ policy ─Load─▶ thread in the server: MADV_POPULATE_READ, _WRITE
//!                             └──Record─▶ ... Idle ─Build─▶ PAGEMAP_SCAN: pages of this request
//! ```

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use halfwink_live::sys::CpuSet;
use halfwink_policy::preheat::{
    Action, Event, PreheatPolicy, Replayer, ReplayerParameters, Trigger,
};
use halfwink_policy::Host;
use halfwink_units::Time;
use serde::Serialize;

use crate::client::Client;
use crate::harness::server::{slot_of, threads};
use crate::harness::Subject;
use crate::load::monotonic_ns;
use crate::maps::{self, Mapping};
use crate::place::{prefer, Place, Rank};
use crate::shared::{Operation, Shared, Slot};

pub mod freeze;
pub mod image;
pub mod set;
mod tables;

use image::{Dropped, Image};
use set::PageSet;
use tables::{table, Sample};
pub use tables::{Class, Kind, Row, Table};

/// Timeout of the thread in the server, in nanoseconds.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Lines of a page, in which policies count sets.
const LINES_A_PAGE: usize = 64;

/// A policy and what it has had recorded.
struct Replay {
    host: Host<PreheatPolicy>,
    /// Pages in memory when the recording began.
    before: PageSet,
    /// A set file, as it would be kept.
    set: Vec<u8>,
    /// List for the thread in the server, by the present mappings.
    words: Vec<u64>,
    loads: u64,
}

impl Replay {
    fn new(trigger: Trigger) -> Replay {
        let parameters = ReplayerParameters { trigger, ..ReplayerParameters::reap() };
        let policy: PreheatPolicy = Box::new(Replayer::new(parameters));
        let (before, set, words) = (PageSet::default(), Vec::new(), Vec::new());
        Replay { host: Host::new(policy), before, set, words, loads: 0 }
    }
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("loads", &self.loads).finish_non_exhaustive()
    }
}

/// Pages of a recording.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recorded {
    /// Pages that were dropped before the request.
    pub dropped: Dropped,
    /// Pages of files that the request brought back, with those around that came along.
    pub files: usize,
    /// Pages of its own memory that it only read, with those around that came along.
    pub read: usize,
    /// And that were written.
    pub written: usize,
}

/// A server whose pages are dropped and put back, with its client.
#[derive(Debug)]
pub struct Twin {
    subject: Subject,
    client: Client,
    sham: Client,
    slot: &'static Slot,
    pid: u32,
    helper: u32,
    _place: Place,
    image: Image,
    start: Vec<u8>,
    mappings: Vec<Mapping>,
    /// Whether its memory was evicted to the disk.
    is_evicted: bool,
    /// Replays for requests that arrive, and for those that are announced.
    replays: [Replay; 2],
    zero_ns: u64,
    /// Time from the preparation to the request.
    pub lead: Duration,
}

/// Event that a request of a class triggers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Arrived = 0,
    Announced = 1,
}

impl Twin {
    /// Connects to a server that the command has started; its memory will be in a file of a folder.
    ///
    /// # Errors
    /// What is missing or does not work, in one line.
    pub fn open(subject: Subject, shared: Shared, folder: &Path) -> Result<Twin, String> {
        let (server_cpu, client_cpu) = subject.cpus;
        CpuSet::one(client_cpu).pin().map_err(|e| format!("CPU {client_cpu}: error {e}"))?;
        let sham = Client::connect(subject.address, &subject.dialogue)?;
        let client = Client::connect(subject.address, &subject.dialogue)?;
        let slot = slot_of(&subject, &client, shared)?.ok_or("no server process")?;
        let (pid, helper) = slot.owner().ok_or("the server process has ended")?;
        // Also whoever answers sham requests.
        let servers = shared.alive().map(|(_, pid, _)| pid);
        servers.flat_map(threads).for_each(|tid| prefer(tid, Rank::Server));
        prefer(0, Rank::First);
        // Writing to the disk takes threads of the kernel, which run as ordinary ones do.
        let place = Place::awake(server_cpu);
        place.give_way();
        let mappings = maps::mappings(pid)?;
        Ok(Twin {
            client,
            sham,
            slot,
            pid,
            helper,
            _place: place,
            image: Image::create(pid, &folder.join("image"))?,
            start: start_of(pid, &mappings),
            mappings,
            is_evicted: false,
            replays: [Trigger::Arrived, Trigger::Announced].map(Replay::new),
            zero_ns: monotonic_ns(),
            lead: Duration::from_micros(500),
            subject,
        })
    }

    /// Drops all pages and has a request recorded.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn record(&mut self) -> Result<Recorded, String> {
        let mut recorded = Recorded::default();
        for told in [Told::Arrived, Told::Announced] {
            recorded.dropped = self.drop_pages(Kind::Unmapped)?;
            // What it touches as it goes on is not the request's.
            spin(Instant::now(), self.lead);
            self.request(told)?;
            let set = PageSet::decode(&self.replays[told as usize].set, &self.start)?;
            recorded.files = set.files.iter().map(|(_, pages)| pages.len()).sum();
            (recorded.read, recorded.written) = (set.read.len(), set.written.len());
        }
        Ok(recorded)
    }

    /// Writes the set of pages to a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_set(&self, path: &Path) -> Result<(), String> {
        let set = &self.replays[Told::Arrived as usize].set;
        fs::write(path, set).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Measures all classes, so many rounds.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn measure(&mut self, kind: Kind, rounds: usize) -> Result<Table, String> {
        let classes = Class::ALL.len();
        let mut samples = vec![Vec::with_capacity(rounds); classes];
        for round in 0..rounds {
            // Each class comes in each place, and after its neighbours on both sides.
            let is_back = (round / classes) % 2 == 1;
            for k in 0..classes {
                let at = (round + if is_back { classes - k } else { k }) % classes;
                samples[at].push(self.sample(Class::ALL[at], kind)?);
            }
        }
        Ok(table(kind, &samples))
    }

    /// Loads that policies asked for.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.replays.iter().map(|replay| replay.loads).sum()
    }

    fn sample(&mut self, class: Class, kind: Kind) -> Result<Sample, String> {
        for _ in 0..3 {
            self.client.ask()?;
        }
        match class {
            Class::Warm => {}
            Class::Stopped => drop(freeze::Frozen::stop(self.pid)?),
            _ => drop(self.drop_pages(kind)?),
        }
        let begun = Instant::now();
        match class {
            Class::Ahead => {
                let due = self.now().saturating_add(Time::ns(self.lead.as_nanos() as u64));
                let service = self.subject.address.port();
                self.tell(Told::Announced, Event::Announced { service, due })?;
            }
            Class::Sham => drop(self.sham.ask()?),
            _ => {}
        }
        // Faults of the preparation are not the request's: half of the time is for them.
        spin(begun, self.lead / 2);
        let before = faults(self.pid, self.helper);
        spin(begun, self.lead);
        let us = match class {
            Class::Replayed => self.request(Told::Arrived)?,
            Class::Ahead => self.request(Told::Announced)?,
            _ => self.client.ask()?,
        };
        let after = faults(self.pid, self.helper);
        Ok(Sample { us, minor: after.0 - before.0, major: after.1 - before.1 })
    }

    /// A request that its policy is told of: with what that has loaded first, in microseconds.
    fn request(&mut self, told: Told) -> Result<f64, String> {
        let port = self.subject.address.port();
        let begun = Instant::now();
        self.tell(told, Event::Arrived { port })?;
        self.client.ask()?;
        let took = begun.elapsed().as_nanos() as f64 / 1e3;
        self.tell(told, Event::Idle)?;
        Ok(took)
    }

    fn now(&self) -> Time {
        Time::ns(monotonic_ns() - self.zero_ns)
    }

    /// Tells a policy, and does what it asks.
    fn tell(&mut self, told: Told, event: Event) -> Result<(), String> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let (now, mut asked) = (self.now(), Vec::new());
            let host = &mut self.replays[told as usize].host;
            host.deliver(now, &event, |_, action| asked.push(action));
            for action in asked {
                match action {
                    Action::Load { service, .. } => {
                        self.load(told)?;
                        events.push_back(Event::Loaded { service });
                    }
                    Action::Build { service } => {
                        let lines = (self.build(told)? * LINES_A_PAGE) as u32;
                        events.push_back(Event::Built { service, lines });
                    }
                    Action::Record { .. } => {
                        self.replays[told as usize].before = self.there()?;
                    }
                    // Loads are over before the request goes.
                    Action::Hold { .. } | Action::Wake => {}
                    other => return Err(format!("the policy asks for {other:?}")),
                }
            }
        }
        Ok(())
    }

    fn load(&mut self, told: Told) -> Result<(), String> {
        let replay = &mut self.replays[told as usize];
        replay.loads += 1;
        if self.is_evicted {
            // The disk reads all runs at once; the thread in the server would wait for one after
            // the other.
            self.image.fetch(&self.mappings, &set::runs(&replay.words));
        }
        let number = self.slot.post(Operation::Populate, Some(&replay.words), 0);
        match self.slot.wait(number, PATIENCE_NS) {
            true => Ok(()),
            false => Err("the thread in the server does not answer".to_owned()),
        }
    }

    fn build(&mut self, told: Told) -> Result<usize, String> {
        let there = self.there()?;
        let replay = &mut self.replays[told as usize];
        let set = there.since(&replay.before);
        replay.set = set.encode(&self.start)?;
        Ok(set.pages())
    }

    /// Returns the pages that are in memory now.
    fn there(&self) -> Result<PageSet, String> {
        PageSet::of(self.pid, &maps::mappings(self.pid)?, |m| self.image.has(m))
    }

    fn drop_pages(&mut self, kind: Kind) -> Result<Dropped, String> {
        self.is_evicted = kind == Kind::Evicted;
        let dropped = self.image.drop_pages(self.is_evicted)?;
        // The memory is mapped from a file by now, so that lists made for the old mappings are
        // wrong.
        self.mappings = maps::mappings(self.pid)?;
        for replay in self.replays.iter_mut().filter(|replay| !replay.set.is_empty()) {
            replay.words = PageSet::decode(&replay.set, &self.start)?.words(&self.mappings);
        }
        Ok(dropped)
    }
}

fn spin(begun: Instant, time: Duration) {
    while begun.elapsed() < time {
        core::hint::spin_loop();
    }
}

/// One start of one process: when that was, and where it has its memory.
fn start_of(pid: u32, mappings: &[Mapping]) -> Vec<u8> {
    let first = mappings.first().map_or(0, |m| m.range.start);
    let began = maps::start_time(pid).unwrap_or(0);
    [u64::from(pid), began, first].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Faults of a process so far, without and with a wait for a disk; those of one thread left out.
fn faults(pid: u32, but: u32) -> (u64, u64) {
    let of = |tid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
        // proc(5): the name in brackets may hold blanks and brackets itself; minflt and majflt are
        // fields 10 and 12, the state behind the name being field 3.
        let mut words = text.rsplit_once(')')?.1.split_whitespace();
        let minor = words.nth(7)?.parse::<u64>().ok()?;
        Some((minor, words.nth(1)?.parse::<u64>().ok()?))
    };
    let all = threads(pid).into_iter().filter(|tid| *tid != but).filter_map(of);
    all.fold((0, 0), |sum, found| (sum.0 + found.0, sum.1 + found.1))
}
