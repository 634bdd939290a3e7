//! A thread that hears of requests, completes them, or both.
//!
//! ```text
//!  kernel ══▶ fetched ──▶ device ──▶ policy ──Here──▶ bytes to whom asked ──▶ commit ══▶ kernel
//!                                       └────Give──▶ another: bytes ──▶ back ──▶ commit ══▶
//! ```
//!
//! The kernel takes the answer of a request only from the thread that fetched it.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Duration;

use halfwink_live::clock::ticks;
use halfwink_policy::completion::Done;
use halfwink_units::Time;
use io_uring::{opcode, types, IoUring};

use super::queue::{Io, Queue};
use super::wire::{io_command, Request, What, COMMIT_AND_FETCH_REQ, FETCH_REQ, MOST_BYTES};
use super::{Mail, Shared};
use crate::conn::Counts;
use crate::turn::{settle_in, sleep, Turn, Wait};
use crate::worker::Post;

/// Tag by which the bell's events are known.
const BELL: u64 = u64::MAX;

/// A worker's own things.
pub(super) struct Worker {
    number: u16,
    shared: Arc<Shared>,
    ring: IoUring,
    queues: Vec<Queue>,
    scratch: Vec<u8>,
    heard: Vec<(u64, i32)>,
    /// I/Os that the device has finished, before the policy has chosen the completing CPU.
    ready: Vec<Io>,
    mail: Vec<Mail>,
    turn: Turn,
    counts: Counts,
    latencies: Vec<u64>,
    /// Requests that the kernel will not hand over any more, because the disk is gone.
    gone: u32,
    io: u32,
}

fn ring(requests: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        // Nothing interrupts the thread: what the kernel has waits until it looks.
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build((requests + 1).next_power_of_two())
}

impl Worker {
    /// On the thread that will run it, since a ring belongs to the thread that makes it.
    fn new(number: u16, shared: Arc<Shared>, queues: Vec<Queue>) -> io::Result<Worker> {
        let requests = queues.iter().map(|queue| u32::from(queue.depth())).sum();
        let workers = shared.posts.len();
        let mut worker = Worker {
            number,
            ring: ring(requests)?,
            shared,
            queues,
            scratch: vec![0; MOST_BYTES as usize],
            heard: Vec::with_capacity(requests as usize + 1),
            ready: Vec::with_capacity(requests as usize),
            mail: Vec::new(),
            turn: Turn::new(number, workers),
            counts: Counts::default(),
            latencies: Vec::new(),
            gone: 0,
            io: 0,
        };
        worker.watch_bell();
        for slot in 0..worker.queues.len() {
            for tag in 0..worker.queues[slot].depth() {
                worker.command(FETCH_REQ, slot, tag, -1);
            }
        }
        worker.ring.submit()?;
        // A fetch that cannot be is answered at once.
        if let Some(refused) = worker.ring.completion().find(|event| event.result() < 0) {
            return Err(io::Error::from_raw_os_error(-refused.result()));
        }
        Ok(worker)
    }

    /// Fetches, says whether it could, and works until the server ends.
    pub(super) fn run(
        number: u16,
        shared: Arc<Shared>,
        queues: Vec<Queue>,
        told: &Sender<io::Result<()>>,
    ) {
        settle_in(&shared.posts[usize::from(number)]);
        let (made, fetched) = match Worker::new(number, shared, queues) {
            Ok(worker) => (Some(worker), Ok(())),
            Err(e) => (None, Err(e)),
        };
        if told.send(fetched).is_ok() {
            made.into_iter().for_each(Worker::serve);
        }
    }

    fn serve(mut self) {
        let shared = Arc::clone(&self.shared);
        let post = &shared.posts[usize::from(self.number)];
        post.meter.times.book(|times| &times.sleeping, ticks(), false);
        let mut wait = Wait::Poll(1);
        while !shared.ends.load(Ordering::Relaxed) {
            self.wait(wait);
            let mut work = self.mail();
            work += self.hear();
            self.place();
            self.turn.end(&shared.control, &shared.posts);
            self.sums();
            let Worker { turn, ring, .. } = &mut self;
            // Nobody waits for an answer that is there.
            wait = turn.next(&shared.control, post, (work, wait), || drop(ring.submit()));
        }
        self.sums();
    }

    fn post(&self) -> &Post {
        &self.shared.posts[usize::from(self.number)]
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) {
        // SAFETY: it names a descriptor that outlives the ring, and no memory.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // There is an entry for each request of its queues, and one for the bell.
        debug_assert!(pushed.is_ok());
    }

    fn watch_bell(&mut self) {
        let bell = types::Fd(self.post().bell.fd());
        let entry = opcode::PollAdd::new(bell, libc::POLLIN as u32).build().user_data(BELL);
        self.push(&entry);
    }

    fn command(&mut self, what: u32, slot: usize, tag: u16, result: i32) {
        let device = types::Fd(self.shared.bytes.pages.as_raw_fd());
        let command = io_command(self.queues[slot].number, tag, result);
        let entry = opcode::UringCmd16::new(device, what).cmd(command).build();
        self.push(&entry.user_data((slot as u64) << 16 | u64::from(tag)));
    }

    /// Tells the kernel what is answered, and waits as it is told.
    fn wait(&mut self, wait: Wait) {
        // An interrupted call is made again: what was not taken stays in the ring.
        let Wait::Sleep(limit) = wait else {
            let _ = self.ring.submit();
            return;
        };
        let shared = Arc::clone(&self.shared);
        let post = &shared.posts[usize::from(self.number)];
        sleep(post, || {
            let has_mail = !shared.letters(self.number).is_empty();
            let limit = if has_mail { Some(0) } else { limit };
            let _ = match limit {
                None => self.ring.submit_and_wait(1),
                Some(ns) => {
                    let time = types::Timespec::from(Duration::from_nanos(ns));
                    let args = types::SubmitArgs::new().timespec(&time);
                    self.ring.submitter().submit_with_args(1, &args)
                }
            };
            !self.ring.completion().is_empty()
        });
    }

    /// Takes what the kernel has handed over, and has the device do it; how much.
    fn hear(&mut self) -> u32 {
        let begun = ticks();
        let Worker { ring, heard, .. } = self;
        heard.extend(ring.completion().map(|event| (event.user_data(), event.result())));
        if self.heard.is_empty() {
            return 0;
        }
        let shared = Arc::clone(&self.shared);
        let stages = &shared.posts[usize::from(self.number)].meter.stages;
        let mut taken = 0;
        let mut decoded = ticks();
        stages.read.add(decoded - begun);
        let heard = std::mem::take(&mut self.heard);
        for &(token, result) in &heard {
            if token == BELL {
                self.post().bell.quiet();
                self.watch_bell();
                continue;
            }
            if result != 0 {
                self.lose();
                continue;
            }
            taken += 1;
            self.request((token >> 16) as usize, token as u16, begun, &mut decoded);
        }
        self.heard = heard;
        self.heard.clear();
        if taken > 0 {
            shared.posts[usize::from(self.number)].meter.batches.add(1);
        }
        taken
    }

    /// The disk goes, and with it what was fetched.
    fn lose(&mut self) {
        self.gone += 1;
        let all: u32 = self.queues.iter().map(|queue| u32::from(queue.depth())).sum();
        if self.gone == all {
            self.shared.is_gone.store(true, Ordering::Relaxed);
        }
    }

    fn request(&mut self, slot: usize, tag: u16, came: u64, decoded: &mut u64) {
        let shared = Arc::clone(&self.shared);
        let stages = &shared.posts[usize::from(self.number)].meter.stages;
        let queue = &self.queues[slot];
        let asked = queue.description(tag).request(shared.bytes.backend.size(), shared.read_only);
        let none = Request { what: What::Flush, offset: 0, length: 0 };
        let (queue, issuer) = (queue.number, queue.issuer);
        let request = asked.unwrap_or(none);
        let mut io = Io { queue, tag, issuer, request, error: asked.err().unwrap_or(0), came };
        let begun = ticks();
        stages.decode.add(begun - *decoded);
        if asked.is_err() {
            self.counts.refused += 1;
        } else if shared.bytes.perform(&mut io, &mut self.scratch, &mut self.counts) {
            shared.syncer.give(io);
            *decoded = ticks();
            stages.backend.add(*decoded - begun);
            return;
        }
        self.ready.push(io);
        *decoded = ticks();
        stages.backend.add(*decoded - begun);
    }

    /// Has the policy say who completes what the device is done with, and completes what stays.
    fn place(&mut self) {
        let count = self.ready.len() as u32;
        if count == 0 {
            return;
        }
        let began = ticks();
        let shared = Arc::clone(&self.shared);
        let meter = &shared.posts[usize::from(self.number)].meter;
        self.turn.done += count;
        let (first, heard) = (self.io, self.number);
        self.io = self.io.wrapping_add(count);
        let ready = std::mem::take(&mut self.ready);
        let done = ready.iter().zip(0u32..).map(|(io, n)| {
            let (id, waiting) = (first.wrapping_add(n), count - n - 1);
            let took = began.wrapping_sub(io.came);
            (Done { io: id, issuer: io.issuer, heard, waiting, took: Time::ZERO }, took)
        });
        let (mut next, mut here) = (ready.iter(), Vec::new());
        let (workers, turn) = (shared.posts.len(), &mut self.turn);
        shared.control.place(done, |place| {
            let Some(&io) = next.next() else { return };
            match place.filter(|&cpu| usize::from(cpu) < workers) {
                Some(cpu) => {
                    shared.letters(cpu).push(Mail::Complete(io));
                    turn.give(cpu);
                }
                None => here.push(io),
            }
        });
        let decided = ticks();
        meter.stages.hand_off.add(decided - began);
        meter.here.add(here.len() as u64);
        for io in &here {
            self.finish(io);
        }
        meter.stages.reply.add(ticks() - decided);
        self.ready = ready;
        self.ready.clear();
    }

    /// The second phase: hands the bytes over, and answers or has answered.
    fn finish(&mut self, io: &Io) {
        let shared = Arc::clone(&self.shared);
        let result = shared.bytes.finish(io, &mut self.scratch);
        let hearer = shared.hearers[usize::from(io.queue)];
        if hearer == self.number {
            self.commit(io, result);
        } else {
            shared.letters(hearer).push(Mail::Commit(*io, result));
            self.turn.give(hearer);
        }
    }

    /// Answers; the kernel is told when next it is asked for anything.
    fn commit(&mut self, io: &Io, result: i32) {
        let Some(slot) = self.queues.iter().position(|queue| queue.number == io.queue) else {
            return;
        };
        self.post().meter.errors.add(u64::from(result < 0));
        self.latencies.push(ticks().wrapping_sub(io.came));
        self.command(COMMIT_AND_FETCH_REQ, slot, io.tag, result);
    }

    /// Completes what others gave, and answers what others have completed; how much.
    fn mail(&mut self) -> u32 {
        let shared = Arc::clone(&self.shared);
        std::mem::swap(&mut *shared.letters(self.number), &mut self.mail);
        if self.mail.is_empty() {
            return 0;
        }
        let begun = ticks();
        let mail = std::mem::take(&mut self.mail);
        let mut given = 0;
        for letter in &mail {
            match letter {
                Mail::Complete(io) => {
                    given += 1;
                    self.finish(io);
                }
                Mail::Commit(io, result) => self.commit(io, *result),
            }
        }
        self.turn.done += given;
        let taken = mail.len() as u32;
        self.mail = mail;
        self.mail.clear();
        let meter = &shared.posts[usize::from(self.number)].meter;
        meter.given.add(u64::from(given));
        meter.stages.reply.add(ticks() - begun);
        taken
    }

    fn sums(&mut self) {
        let post = &self.shared.posts[usize::from(self.number)];
        post.book(&self.shared.control.clock, &mut self.latencies, &mut self.counts);
    }
}
