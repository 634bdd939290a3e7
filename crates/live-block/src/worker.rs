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
use halfwink_live::sys::CpuSet;
use halfwink_policy::completion::{Done, Event};
use halfwink_policy::scaling::Rest;
use halfwink_units::Time;

use crate::backend::Draws;
use crate::conn::{Batch, Conn, Over, Reader};
use crate::meter::{Meter, Slow};
use crate::out::{Pending, Scratch};
use crate::ring::{Counters, Ring};
use crate::server::Shared;
use crate::socket::{Bell, Epoll, Found};
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

/// What others know of a worker.
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

    /// Wakes it if it sleeps.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.bell.ring();
        }
    }
}

/// The ends of mailboxes that one worker holds.
pub(crate) struct Boxes {
    /// To each worker.
    pub(crate) to: Vec<rtrb::Producer<Job>>,
    /// From each worker.
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
    /// Whom something was given to in this round.
    gave: Vec<bool>,
    io: u32,
    /// I/Os completed or given away in this round.
    done: u32,
    /// A modelled device's latencies, and what is in it.
    draws: Option<Draws>,
    device: BinaryHeap<Reverse<InDevice>>,
    /// Of one batch: what the ring may fetch, and when each came.
    asked: Vec<Pending>,
    came: Vec<u64>,
    looked: u64,
    used: Vec<u64>,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Ask at once; so many times before the policy is asked again.
    Poll(u32),
    /// Until something comes, or so many nanoseconds are over.
    Sleep(Option<u64>),
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
            gave: vec![false; workers],
            io: 0,
            done: 0,
            draws,
            device: BinaryHeap::new(),
            asked: Vec::new(),
            came: Vec::new(),
            looked: ticks(),
            used: vec![0; workers],
        }
    }

    fn post(&self) -> &Post {
        &self.shared.posts[usize::from(self.number)]
    }

    /// Works until the server ends.
    pub(crate) fn run(mut self) {
        // Else the kernel may wake it 50 us late.
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
        if let Some(cpu) = self.post().cpu {
            // Where it may not, it runs where it may; the report says on which CPU it was to be.
            let _ = CpuSet::one(cpu).pin();
        }
        let shared = Arc::clone(&self.shared);
        let post = &shared.posts[usize::from(self.number)];
        let mut found: Box<Found> = Box::new([libc::epoll_event { events: 0, u64: 0 }; 128]);
        let mut wait = Wait::Poll(1);
        let times = &post.meter.times;
        times.book(|times| &times.sleeping, ticks(), false);
        while !shared.ends.load(Ordering::Relaxed) {
            let events = self.wait(wait, &mut found);
            let mut work = self.mail();
            for event in &found[..events] {
                work += self.event(event.u64, event.events);
            }
            work += self.device() + self.ring();
            if shared.control.ways.hears_polls {
                let event = Event::Poll { cpu: self.number, taken: self.done, waiting: self.done };
                shared.control.note(&event);
            }
            self.done = 0;
            self.hand_over();
            if work > 0 {
                times.book(|times| &times.working, ticks(), false);
                wait = self.rest();
            } else {
                times.book(|times| &times.polling, ticks(), false);
                wait = match wait {
                    Wait::Poll(polls) if polls > 1 => Wait::Poll(polls - 1),
                    _ => self.rest(),
                };
            }
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
        post.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let times = &post.meter.times;
        times.book(|times| &times.polling, ticks(), true);
        let has_mail = self.boxes.from.iter().any(|mail| !mail.is_empty());
        let has_landed = self.batch.ring.as_mut().is_some_and(Ring::arm);
        let limit = if has_mail || has_landed { Some(0) } else { limit };
        let events = post.epoll.wait(found, limit);
        if let Some(ring) = &mut self.batch.ring {
            ring.disarm();
        }
        post.asleep.store(false, Ordering::Relaxed);
        times.book(|times| &times.sleeping, ticks(), false);
        post.meter.wakes.add(u64::from(events > 0));
        events
    }

    /// Asks the policy how to rest.
    fn rest(&mut self) -> Wait {
        let ns = |span: Time| (span.0 / 1_000).max(1);
        match self.shared.control.rest(self.number) {
            Rest::Spin => Wait::Poll(64),
            Rest::Again { polls } => Wait::Poll(polls.max(1)),
            Rest::Pause { span } => {
                let until = ticks() + self.shared.control.clock.rate.ticks(ns(span));
                while ticks() < until {
                    std::hint::spin_loop();
                }
                Wait::Poll(1)
            }
            Rest::Halt(_) | Rest::Nap(_) => Wait::Sleep(None),
            Rest::HaltFor { span, .. } => Wait::Sleep(Some(ns(span))),
            Rest::Sleep { span, .. } => {
                let times = &self.post().meter.times;
                times.book(|times| &times.polling, ticks(), true);
                std::thread::sleep(Duration::from_nanos(ns(span)));
                times.book(|times| &times.sleeping, ticks(), false);
                Wait::Poll(1)
            }
        }
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
            self.done += taken;
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
        if self.scratch.latencies.is_empty() && self.batch.counts == Default::default() {
            return;
        }
        let mut slow = post.slow.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = &self.shared.control.clock;
        for ticks in self.scratch.latencies.drain(..) {
            slow.latency.record(clock.span(ticks));
        }
        slow.counts.add(&std::mem::take(&mut self.batch.counts));
    }

    /// Something of a socket, or the bell; how much there was to do.
    fn event(&mut self, token: u64, events: u32) -> u32 {
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
        self.done += count;
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
            let (to, gave) = (&mut self.boxes.to, &mut self.gave);
            shared.control.place(done, |place| {
                let Some(pending) = next.next() else { return };
                let there = place.filter(|&cpu| usize::from(cpu) < to.len());
                let Some(cpu) = there.map(usize::from) else {
                    here += 1;
                    out.queue.push_back(pending);
                    return;
                };
                match to[cpu].push(Job { conn: Arc::clone(conn), pending }) {
                    Ok(()) => gave[cpu] = true,
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

    /// Wakes those to whom something was given, and tells the policy how busy all are.
    fn hand_over(&mut self) {
        let begun = ticks();
        let mut any = false;
        for (number, gave) in self.gave.iter_mut().enumerate() {
            if std::mem::take(gave) && number != usize::from(self.number) {
                any = true;
                self.shared.posts[number].wake();
            }
        }
        if any {
            self.post().meter.stages.hand_off.add(ticks() - begun);
        }
        let Some(period) = self.shared.control.ways.period else { return };
        let all = begun - self.looked;
        if self.number != 0 || self.shared.control.clock.span(all) < period {
            return;
        }
        self.looked = begun;
        self.shared.control.note_used(&self.shared.posts, &mut self.used, all);
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
