//! A thread that reads requests, completes them, or both.
//!
//! ```text
//!  sockets ──▶ read, decode, device ──▶ policy ──Here──▶ reply
//!                                          └────Give──▶ mailbox of another ──▶ reply there
//!  nothing to do ──▶ policy: Rest ──▶ ask again, pause, or sleep until a socket or the bell
//! ```

mod device;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{fence, AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use halfwink_live::clock::ticks;
use halfwink_policy::completion::Done;
use halfwink_units::Time;

use crate::backend::Draws;
use crate::conn::{Batch, Conn, Counts, Over, Reader};
use crate::control::Clock;
use crate::meter::{Meter, Slow};
use crate::out::{Pending, Scratch};
use crate::ring::{Counters, Ring};
use crate::server::Shared;
use crate::socket::{Bell, Epoll, Found};
use crate::turn::{settle_in, sleep, Turn, Wait};
use device::InDevice;

/// I/Os that one thread may have given to another.
pub(crate) const MAILBOX: usize = 2048;
/// Token of the bell, and of the ring's.
const BELL: u64 = u64::MAX;
const RING: u64 = u64::MAX - 1;

/// An I/O that another thread completes.
pub(crate) struct Job {
    conn: Arc<Conn>,
    pending: Pending,
}

/// State of a worker that other threads use.
pub(crate) struct Post {
    pub(crate) cpu: Option<u32>,
    pub(crate) epoll: Arc<Epoll>,
    pub(crate) bell: Bell,
    pub(crate) asleep: AtomicBool,
    /// Connections that it is to read from now on.
    arrivals: Mutex<Vec<OwnedFd>>,
    pub(crate) meter: Meter,
    pub(crate) slow: Mutex<Slow>,
    pub(crate) ring: Arc<Counters>,
}

impl Post {
    pub(crate) fn new(cpu: Option<u32>) -> std::io::Result<Post> {
        let (epoll, bell) = (Arc::new(Epoll::new()?), Bell::new()?);
        epoll.add(bell.fd(), libc::EPOLLIN as u32, BELL)?;
        let meter = Meter::default();
        // Until its thread is there, it sleeps.
        meter.times.since.set(ticks());
        meter.times.sleeps.set(1);
        Ok(Post {
            cpu,
            epoll,
            bell,
            asleep: AtomicBool::new(false),
            arrivals: Mutex::default(),
            meter,
            slow: Mutex::default(),
            ring: Arc::default(),
        })
    }

    pub(crate) fn welcome(&self, fd: OwnedFd) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(fd);
        self.bell.ring();
    }

    /// Adds latencies, in ticks, and counts of what was done, if there are any.
    pub(crate) fn book(&self, clock: &Clock, latencies: &mut Vec<u64>, counts: &mut Counts) {
        if latencies.is_empty() && *counts == Counts::default() {
            return;
        }
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        for ticks in latencies.drain(..) {
            slow.latency.record(clock.span(ticks));
        }
        slow.counts.add(&std::mem::take(counts));
    }

    /// Wakes it if it sleeps.
    pub(crate) fn wake(&self) {
        // Pairs with the fence of `sleep`: either the mail is seen there, or the sleeper is seen
        // here. A plain load comes first, since it leaves the line with a worker that is awake.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.bell.ring();
        }
    }
}

/// The ends of mailboxes that one worker holds.
pub(crate) struct Boxes {
    /// Mailbox to each worker.
    pub(crate) to: Vec<rtrb::Producer<Job>>,
    /// Mailbox from each worker.
    pub(crate) from: Vec<rtrb::Consumer<Job>>,
}

/// A worker's own things.
pub(crate) struct Worker {
    number: u16,
    shared: Arc<Shared>,
    boxes: Boxes,
    readers: Vec<Option<Reader>>,
    free: Vec<usize>,
    /// Handshakes under way, the oldest first: tokens.
    haggling: VecDeque<(Instant, usize)>,
    batch: Batch,
    scratch: Scratch,
    turn: Turn,
    io: u32,
    /// A modelled device's latencies, and what is in it.
    draws: Option<Draws>,
    device: BinaryHeap<Reverse<InDevice>>,
    /// Requests of one batch that the ring may fetch.
    asked: Vec<Pending>,
    came: Vec<u64>,
}

impl Worker {
    pub(crate) fn new(number: u16, shared: Arc<Shared>, boxes: Boxes) -> Worker {
        let workers = shared.posts.len();
        let draws = shared.backend.delay().map(|delay| delay.draws(number));
        let post = &shared.posts[usize::from(number)];
        // Where it gets none, calls do; the report counts what went through rings.
        let ring = shared.backend.rings().and_then(|rings| Ring::new(rings).ok());
        let ring = ring.filter(|ring| {
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            post.epoll.add(ring.bell(), events, RING).is_ok()
        });
        let batch = Batch { ring, ring_counters: Arc::clone(&post.ring), ..Batch::default() };
        Worker {
            number,
            shared,
            boxes,
            readers: Vec::new(),
            free: Vec::new(),
            haggling: VecDeque::new(),
            batch,
            scratch: Scratch::default(),
            turn: Turn::new(number, workers),
            io: 0,
            draws,
            device: BinaryHeap::new(),
            asked: Vec::new(),
            came: Vec::new(),
        }
    }

    fn post(&self) -> &Post {
        &self.shared.posts[usize::from(self.number)]
    }

    /// Works until the server ends.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let post = &shared.posts[usize::from(self.number)];
        settle_in(post);
        let mut found: Box<Found> = Box::new([libc::epoll_event { events: 0, u64: 0 }; 128]);
        let mut wait = Wait::Poll(1);
        post.meter.times.book(|times| &times.sleeping, ticks(), false);
        while !shared.ends.load(Ordering::Relaxed) {
            let events = self.wait(wait, &mut found);
            let mut work = self.mail();
            for event in &found[..events] {
                work += self.event(event.u64, event.events);
            }
            work += self.device() + self.ring();
            self.turn.end(&shared.control, &shared.posts);
            wait = self.turn.next(&shared.control, post, (work, wait), || ());
            if let Wait::Sleep(limit) = wait {
                let limit = self.handshakes(limit);
                wait = Wait::Sleep(self.device_due(limit));
            }
        }
        self.end();
    }

    /// Waits as it is told; how many sockets have something.
    fn wait(&mut self, wait: Wait, found: &mut Found) -> usize {
        let Wait::Sleep(limit) = wait else {
            return self.post().epoll.wait(found, Some(0));
        };
        let post = &self.shared.posts[usize::from(self.number)];
        let (boxes, ring) = (&self.boxes, &mut self.batch.ring);
        let mut events = 0;
        sleep(post, || {
            let has_mail = boxes.from.iter().any(|mail| !mail.is_empty());
            let has_landed = ring.as_mut().is_some_and(Ring::arm);
            events = post.epoll.wait(found, if has_mail || has_landed { Some(0) } else { limit });
            if let Some(ring) = ring {
                ring.disarm();
            }
            events > 0
        });
        events
    }

    /// Completes what others gave; how many.
    fn mail(&mut self) -> u32 {
        let mut taken = 0;
        let begun = ticks();
        for number in 0..self.boxes.from.len() {
            let mut last: Option<Arc<Conn>> = None;
            while let Ok(Job { conn, pending }) = self.boxes.from[number].pop() {
                taken += 1;
                // Replies of one connection leave together.
                if let Some(before) = last.take_if(|last| !Arc::ptr_eq(last, &conn)) {
                    self.flush(&before);
                }
                conn.out().queue.push_back(pending);
                last = Some(conn);
            }
            if let Some(conn) = last {
                self.flush(&conn);
            }
        }
        if taken > 0 {
            self.post().meter.given.add(u64::from(taken));
            self.turn.done += taken;
            self.account(begun);
        }
        taken
    }

    fn flush(&mut self, conn: &Conn) {
        let mut out = conn.out();
        conn.flush(&mut out, &*self.shared.backend, &mut self.scratch);
    }

    /// Books what sending took since then.
    fn account(&mut self, begun: u64) {
        let stages = &self.shared.posts[usize::from(self.number)].meter.stages;
        let backend = std::mem::take(&mut self.scratch.backend);
        stages.backend.add(backend);
        stages.reply.add((ticks() - begun).saturating_sub(backend));
        self.sums();
    }

    fn sums(&mut self) {
        let post = &self.shared.posts[usize::from(self.number)];
        post.meter.errors.add(std::mem::take(&mut self.scratch.errors));
        let clock = &self.shared.control.clock;
        post.book(clock, &mut self.scratch.latencies, &mut self.batch.counts);
    }

    /// Handles an event of a socket or of the bell; returns the amount of work found.
    fn event(&mut self, token: u64, events: u32) -> u32 {
        // The event only ends the sleep: each round reaps completions by itself.
        if token == RING {
            return 0;
        }
        if token == BELL {
            self.post().bell.quiet();
            return self.arrivals();
        }
        let index = token as usize;
        let Some(Some(reader)) = self.readers.get_mut(index) else { return 0 };
        let conn = Arc::clone(&reader.conn);
        let begun = ticks();
        if events & libc::EPOLLOUT as u32 != 0 {
            let mut out = conn.out();
            conn.flush(&mut out, &*self.shared.backend, &mut self.scratch);
        }
        let shared = Arc::clone(&self.shared);
        let taking = ticks();
        let mut over = reader.take(&shared.export, &*shared.backend, &mut self.batch);
        let read = std::mem::take(&mut self.batch.read);
        let backend = std::mem::take(&mut self.batch.backend);
        let meter = &shared.posts[usize::from(self.number)].meter;
        meter.batches.add(1);
        meter.stages.read.add(read);
        meter.stages.backend.add(backend);
        let taken = ticks();
        meter.stages.decode.add((taken - taking).saturating_sub(read + backend));
        meter.stages.reply.add(taking - begun);
        let done = self.complete(&conn, taken);
        if over.is_ok() {
            // What was answered at once may have been the last.
            if let Some(Some(reader)) = self.readers.get_mut(index) {
                over = reader.rest();
            }
        }
        let hung_up = events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        match over {
            Err(over) => self.close(index, over),
            // Nobody reads its answers.
            Ok(()) if hung_up && self.readers[index].as_ref().is_some_and(Reader::is_over) => {
                self.close(index, Over::Gone);
            }
            Ok(()) => {}
        }
        done.max(1)
    }

    /// Has the policy say who completes what the device is done with, and completes what stays.
    fn place(&mut self, conn: &Arc<Conn>, began: u64) -> u32 {
        let shared = Arc::clone(&self.shared);
        let meter = &shared.posts[usize::from(self.number)].meter;
        let count = self.batch.done.len() as u32;
        let mut here = 0u64;
        self.turn.done += count;
        if count > 0 {
            let (first, heard, issuer) = (self.io, self.number, conn.issuer);
            self.io = self.io.wrapping_add(count);
            let mut out = conn.out();
            self.came.clear();
            self.came.extend(self.batch.done.iter().map(|pending| pending.came));
            let done = self.came.iter().zip(0u32..).map(|(&came, n)| {
                let io = first.wrapping_add(n);
                let took = began.wrapping_sub(came);
                (Done { io, issuer, heard, waiting: count - n - 1, took: Time::ZERO }, took)
            });
            let mut next = self.batch.done.drain(..);
            let (to, turn) = (&mut self.boxes.to, &mut self.turn);
            shared.control.place(done, |place| {
                let Some(pending) = next.next() else { return };
                let Some(cpu) = place.filter(|&cpu| usize::from(cpu) < to.len()) else {
                    here += 1;
                    out.queue.push_back(pending);
                    return;
                };
                match to[usize::from(cpu)].push(Job { conn: Arc::clone(conn), pending }) {
                    Ok(()) => turn.give(cpu),
                    Err(rtrb::PushError::Full(job)) => {
                        meter.overflowed.add(1);
                        here += 1;
                        out.queue.push_back(job.pending);
                    }
                }
            });
        }
        let decided = ticks();
        meter.stages.hand_off.add(decided - began);
        meter.here.add(here);
        // The handshake's answers wait, too.
        self.flush(conn);
        self.account(decided);
        count
    }

    fn arrivals(&mut self) -> u32 {
        let new = {
            let mut arrivals = self.post().arrivals.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *arrivals)
        };
        let count = new.len() as u32;
        for fd in new {
            let index = self.free.pop().unwrap_or_else(|| {
                self.readers.push(None);
                self.readers.len() - 1
            });
            let epoll = Arc::clone(&self.post().epoll);
            let raw = fd.as_raw_fd();
            let issuer = self.shared.issuer(self.number);
            let conn = Conn::new(fd, index as u64, epoll, issuer);
            self.readers[index] = Some(Reader::new(Arc::clone(&conn)));
            self.haggling.push_back((Instant::now(), index));
            if self.post().epoll.add(raw, libc::EPOLLIN as u32, index as u64).is_err() {
                self.close(index, Over::Gone);
                continue;
            }
            self.flush(&conn);
        }
        count
    }

    /// Closes handshakes that take too long; when the next one would.
    fn handshakes(&mut self, limit: Option<u64>) -> Option<u64> {
        while let Some(&(since, index)) = self.haggling.front() {
            let reader = self.readers.get(index).and_then(Option::as_ref);
            let still = reader.and_then(Reader::haggles_since);
            // It is over, or the place belongs to another connection by now.
            if still.is_none_or(|began| began > since) {
                self.haggling.pop_front();
                continue;
            }
            let left = self.shared.handshake.saturating_sub(since.elapsed());
            if left > Duration::ZERO {
                let ns = left.as_nanos() as u64;
                return Some(limit.map_or(ns, |limit| limit.min(ns)));
            }
            self.haggling.pop_front();
            self.shared.traffic.timed_out();
            self.close(index, Over::Refused);
        }
        limit
    }

    fn close(&mut self, index: usize, over: Over) {
        let Some(reader) = self.readers[index].take() else { return };
        // Jobs of others may keep the descriptor open, and epoll would then go on reporting it.
        self.post().epoll.remove(reader.conn.fd());
        // What others still hold of it goes nowhere.
        reader.conn.out().is_broken = true;
        reader.conn.hang_up();
        self.free.push(index);
        self.shared.traffic.closed(over);
    }

    /// Answers what is under way as far as sockets take it, and closes all.
    fn end(&mut self) {
        self.settle();
        self.mail();
        for index in 0..self.readers.len() {
            if let Some(conn) = self.readers[index].as_ref().map(|r| Arc::clone(&r.conn)) {
                self.flush(&conn);
            }
            self.close(index, Over::Done);
        }
        self.sums();
    }
}
