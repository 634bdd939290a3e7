//! A worker: takes frames from its queue, has them rewritten, sends them, and rests as the policy
//! says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use halfwink_dataplane::{Forwarder, Out, Verdict};
use halfwink_engine::Histogram;
use halfwink_policy::scaling::{Depth, Event, Rest};
use halfwink_units::Time;
use rtrb::Consumer;

use super::control::{Clock, Control};
use super::meter::{Meter, State};
use super::pool::{Pool, Slot};
use super::ports::Senders;
use super::queue::{Item, Standing};

/// Frames that are sent with one call, at least, while there are more.
const FLUSH: usize = 32;
/// Between two looks of a sleeping worker at its forwarder's timers.
pub(super) const TICK: Time = Time(50_000_000_000);
/// Between two looks at those timers while there are frames.
const TICK_BUSY: Time = Time(10_000_000_000);

/// Counters of a worker, read by other threads.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Counters of the forwarder, by name.
    pub counters: Vec<(String, u64)>,
    /// Frames sent, by port.
    pub sent: Vec<u64>,
    /// Frames that could not be sent, by port.
    pub unsent: Vec<u64>,
    /// Time from taking a frame off its socket until it was sent.
    pub latency: Histogram,
    /// Number of batches.
    pub passes: u64,
    /// Datagrams exported, and those that could not be sent.
    pub exported: [u64; 2],
}

/// State that all threads of a router share.
pub(super) struct Common {
    pub(super) pool: Pool,
    pub(super) control: Control,
    pub(super) senders: Senders,
    pub(super) stopping: AtomicBool,
    /// The receiver has put its last frame.
    pub(super) drained: AtomicBool,
    pub(super) collector: Option<std::net::UdpSocket>,
}

/// Queue of a worker, and its synchronisation with other queues.
pub(super) struct Queue {
    pub(super) number: u8,
    pub(super) taker: Consumer<Item>,
    pub(super) standings: Vec<Arc<Standing>>,
    pub(super) meter: Arc<Meter>,
    pub(super) seen: Arc<Mutex<Seen>>,
    /// Frames at a time; the policy looks between batches.
    pub(super) batch: usize,
}

/// A forwarding thread and its queue.
pub(super) struct Worker {
    pub(super) queue: Queue,
    pub(super) common: Arc<Common>,
    forwarder: Forwarder,
    outbox: Outbox,
    ticked: Time,
    /// Looks that are left before the policy is asked how to rest.
    looks: u32,
}

/// Frames to send, by port.
struct Outbox {
    common: Arc<Common>,
    lane: usize,
    ports: Vec<VecDeque<Slot>>,
    unsent: Vec<u64>,
    sent: Vec<u64>,
    waiting: usize,
    /// Arrival time of each frame that waits here.
    came: Vec<Time>,
    freed: Vec<Slot>,
    fresh: Vec<Slot>,
    exported: [u64; 2],
}

impl Out for Outbox {
    fn send(&mut self, port: u16, frame: &[u8]) {
        if self.fresh.is_empty() {
            // Several at a time: the pool is shared by all threads, behind a lock.
            self.common.pool.take(8, &mut self.fresh);
        }
        let Some(mut slot) = self.fresh.pop() else {
            self.unsent[usize::from(port)] += 1;
            return;
        };
        if slot.fill(frame) {
            self.push(port, slot);
        } else {
            self.freed.push(slot);
        }
    }

    fn export(&mut self, datagram: &[u8]) {
        let sent = self.common.collector.as_ref().map(|socket| socket.send(datagram).is_ok());
        self.exported[usize::from(sent != Some(true))] += 1;
    }
}

impl Outbox {
    fn new(common: Arc<Common>, lane: usize) -> Outbox {
        let ports = common.senders.ports();
        Outbox {
            common,
            lane,
            ports: (0..ports).map(|_| VecDeque::with_capacity(512)).collect(),
            unsent: vec![0; ports],
            sent: vec![0; ports],
            waiting: 0,
            came: Vec::with_capacity(512),
            freed: Vec::with_capacity(512),
            fresh: Vec::new(),
            exported: [0; 2],
        }
    }

    fn push(&mut self, port: u16, slot: Slot) {
        self.ports[usize::from(port)].push_back(slot);
        self.waiting += 1;
    }

    /// Sends all that waits.
    fn flush(&mut self) {
        for port in 0..self.ports.len() {
            let waiting = self.ports[port].len();
            if waiting == 0 {
                continue;
            }
            let queue = &mut self.ports[port];
            self.common.senders.send(port, self.lane, &self.common.pool, queue);
            let left = queue.len();
            self.freed.extend(queue.drain(..));
            self.unsent[port] += left as u64;
            self.sent[port] += (waiting - left) as u64;
        }
        self.waiting = 0;
        self.common.pool.free(&mut self.freed);
    }
}

/// Result of serving a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The worker served this number of frames.
    Frames(usize),
    /// The first frame must wait for another queue.
    Held,
    /// The queue is empty.
    Empty,
}

impl Worker {
    /// A worker with its queue, settings and counts; it has its own way out.
    pub(super) fn new(queue: Queue, forwarder: Forwarder, common: Arc<Common>) -> Worker {
        let outbox = Outbox::new(common.clone(), usize::from(queue.number));
        Worker { queue, forwarder, common, outbox, ticked: Time::ZERO, looks: 0 }
    }

    /// A worker beside the receiver: serves its queue until the receiver has put its last frame and
    /// all are served.
    pub(super) fn run(mut self) {
        loop {
            match self.serve(usize::MAX) {
                Served::Frames(_) => self.queue.meter.spent(State::Busy),
                // The other queue is served at this very moment, or waits for its worker's turn.
                Served::Held => {
                    self.queue.meter.spent(State::Spin);
                    std::thread::yield_now();
                }
                Served::Empty => {
                    self.queue.meter.spent(State::Spin);
                    // In this order: the receiver sets `drained` after its last frame, so that a
                    // queue which is empty then stays so.
                    if self.common.drained.load(Ordering::Acquire) && self.queue.taker.is_empty() {
                        break;
                    }
                    let wait = self.ask();
                    self.wait(wait);
                }
            }
            self.tick(TICK_BUSY);
        }
        self.end();
    }

    /// Serves until the queue is empty or `most` frames are sent.
    pub(super) fn serve(&mut self, most: usize) -> Served {
        let mut total = 0;
        let mut held = false;
        while total < most {
            let there = self.queue.taker.slots();
            let take = there.min(self.queue.batch);
            let core = self.queue.number;
            if self.common.control.hears_polls(core) {
                let (taken, waiting) = (take as u32, (there - take) as u32);
                self.common.control.tell(Event::Poll { core, taken, waiting });
            }
            if take == 0 {
                break;
            }
            let served = self.serve_batch(take);
            total += served;
            if served < take {
                held = true;
                break;
            }
            if self.outbox.waiting >= FLUSH {
                self.flush();
            }
        }
        self.flush();
        match total {
            0 if held => Served::Held,
            0 => Served::Empty,
            n => Served::Frames(n),
        }
    }

    fn serve_batch(&mut self, take: usize) -> usize {
        let now = self.common.control.clock().now();
        for n in 0..take {
            // A frame that has to wait stays at the head of its queue, and so do all frames behind
            // it.
            let Ok(first) = self.queue.taker.peek() else { return n };
            if let Some((queue, until)) = first.after {
                if self.queue.standings[usize::from(queue)].done.load(Ordering::Acquire) < until {
                    return n;
                }
            }
            let Ok(mut item) = self.queue.taker.pop() else { return n };
            let (forwarder, outbox) = (&mut self.forwarder, &mut self.outbox);
            let verdict =
                item.slot.rewrite(|frame| forwarder.process(now, item.port, frame, outbox));
            outbox.came.push(item.came);
            match verdict {
                Verdict::Send { port } => outbox.push(port, item.slot),
                _ => outbox.freed.push(item.slot),
            }
        }
        take
    }

    /// Sends what waits, and only then says that it is served.
    fn flush(&mut self) {
        let served = self.outbox.came.len();
        if served == 0 && self.outbox.waiting == 0 && self.outbox.freed.is_empty() {
            return;
        }
        self.outbox.flush();
        // After the frames have left: a worker that sees this count may send later frames of their
        // flows.
        self.standing().done.fetch_add(served as u64, Ordering::Release);
        let now = self.common.control.clock().now();
        let mut seen = self.queue.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.passes += 1;
        for came in self.outbox.came.drain(..) {
            seen.latency.record(Time(now.0.saturating_sub(came.0)));
        }
    }

    /// Timers of the forwarder, if it is time.
    pub(super) fn tick(&mut self, every: Time) {
        let now = self.common.control.clock().now();
        if now.0 < self.ticked.0 + every.0 {
            return;
        }
        self.ticked = now;
        self.forwarder.tick(now, &mut self.outbox);
        self.flush();
        self.show();
    }

    fn show(&mut self) {
        self.queue.meter.note_cpu();
        let mut seen = self.queue.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.counters = self.forwarder.counters().rows().collect();
        seen.sent.clone_from(&self.outbox.sent);
        seen.unsent.clone_from(&self.outbox.unsent);
        seen.exported = self.outbox.exported;
    }

    /// Asks the policy how to rest.
    pub(super) fn ask(&mut self) -> Wait {
        if self.looks > 0 {
            self.looks -= 1;
            return Wait::Look;
        }
        let rest = self.common.control.tell(Event::Empty { core: self.queue.number });
        // A parked core sleeps as deep as it can, whatever the policy says.
        if self.standing().parked.load(Ordering::Relaxed) {
            return Wait::until_rung(Depth::C6);
        }
        match rest.unwrap_or(Rest::Spin) {
            Rest::Spin => Wait::Look,
            Rest::Again { polls } => {
                self.looks = polls.saturating_sub(1);
                Wait::Look
            }
            Rest::Pause { span } => Wait::Pause(span),
            Rest::Halt(depth) | Rest::Nap(depth) => Wait::until_rung(depth),
            Rest::HaltFor { span, depth } => {
                // No longer than a tick: the forwarder has timers of its own.
                Wait::Sleep { state: depth.into(), most: span.min(TICK), deaf: false }
            }
            Rest::Sleep { span, depth } => {
                Wait::Sleep { state: depth.into(), most: span, deaf: true }
            }
        }
    }

    fn wait(&mut self, wait: Wait) {
        match wait {
            Wait::Look => std::hint::spin_loop(),
            Wait::Pause(span) => pause(self.clock(), span),
            Wait::Sleep { state, most, deaf } => {
                let standing = self.standing().clone();
                self.queue.meter.sleeps(state);
                if deaf {
                    nap(most);
                } else {
                    let (taker, common) = (&self.queue.taker, &self.common);
                    // The queue is looked at once more when others know of the sleep: a frame that
                    // came in between would not have rung.
                    standing.sleep(most.0 / 1000, || {
                        !taker.is_empty() || common.drained.load(Ordering::Acquire)
                    });
                }
                self.queue.meter.spent(state);
                self.tick(TICK);
            }
        }
    }

    /// At the end: what is counted is exported and shown.
    pub(super) fn end(&mut self) {
        let now = self.common.control.clock().now();
        self.forwarder.flush(now, &mut self.outbox);
        self.flush();
        let fresh = std::mem::take(&mut self.outbox.fresh);
        self.outbox.freed.extend(fresh);
        self.common.pool.free(&mut self.outbox.freed);
        self.show();
    }

    fn standing(&self) -> &Arc<Standing> {
        &self.queue.standings[usize::from(self.queue.number)]
    }

    pub(super) fn clock(&self) -> Clock {
        self.common.control.clock()
    }
}

/// Way in which a thread rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Polls again at once.
    Look,
    /// Stays awake for a time, then polls.
    Pause(Time),
    /// Sleeps for at most this time; with `deaf`, no event ends the sleep.
    Sleep { state: State, most: Time, deaf: bool },
}

impl Wait {
    fn until_rung(depth: Depth) -> Wait {
        Wait::Sleep { state: depth.into(), most: TICK, deaf: false }
    }
}

/// Stays awake for a time, as a processor's delay loop.
pub(super) fn pause(clock: Clock, span: Time) {
    let end = clock.now().saturating_add(span);
    while clock.now() < end {
        std::hint::spin_loop();
    }
}

/// Sleeps for a time, deaf to everything.
pub(super) fn nap(span: Time) {
    std::thread::sleep(std::time::Duration::from_nanos(span.0 / 1000));
}
