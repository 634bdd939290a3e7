//! Requests that wait, and connections that take them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{oneshot, Notify};

use super::client::{Link, Target};
use super::record::{Outcome, Tally};
use super::Files;
use crate::traffic::monotonic_ns;

/// A request that is due.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub due_ns: u64,
    pub file: usize,
}

/// Source of the requests of a closed loop.
struct Closed {
    files: Files,
    end_ns: u64,
    left: u64,
}

pub(super) struct Pool {
    target: Target,
    most: usize,
    timeout: Duration,
    tally: RefCell<Tally>,
    queue: RefCell<VecDeque<Job>>,
    /// Connections without work, the one that was busy last on top.
    idle: RefCell<Vec<oneshot::Sender<Job>>>,
    slots: Cell<usize>,
    /// Number of requests under way.
    busy: Cell<usize>,
    closed: RefCell<Option<Closed>>,
    rests: Notify,
}

impl Pool {
    pub fn new(target: Target, most: usize, timeout_s: f64, tally: Tally) -> Pool {
        Pool {
            target,
            most,
            timeout: Duration::from_secs_f64(timeout_s),
            tally: RefCell::new(tally),
            queue: RefCell::default(),
            idle: RefCell::default(),
            slots: Cell::new(0),
            busy: Cell::new(0),
            closed: RefCell::default(),
            rests: Notify::new(),
        }
    }

    /// A request is due: a free connection takes it, or a new one, or it waits.
    pub fn offer(self: &Rc<Self>, mut job: Job) {
        self.tally.borrow_mut().offered(job.due_ns);
        loop {
            let Some(idle) = self.idle.borrow_mut().pop() else { break };
            match idle.send(job) {
                Ok(()) => {
                    self.busy.set(self.busy.get() + 1);
                    return;
                }
                Err(back) => job = back,
            }
        }
        if self.slots.get() < self.most {
            self.begin(job);
        } else {
            self.tally.borrow_mut().waited();
            self.queue.borrow_mut().push_back(job);
        }
    }

    fn begin(self: &Rc<Self>, job: Job) {
        let slot = self.slots.get();
        self.slots.set(slot + 1);
        self.busy.set(self.busy.get() + 1);
        tokio::task::spawn_local(Rc::clone(self).serve(slot, job));
    }

    /// Lets clients send again as soon as they are answered.
    pub fn close(&self, files: Files, end_ns: u64, left: u64) {
        *self.closed.borrow_mut() = Some(Closed { files, end_ns, left });
    }

    /// One more client of a closed loop.
    pub fn begin_client(self: &Rc<Self>) {
        if let Some(job) = self.next_of_closed() {
            self.begin(job);
        }
    }

    fn next_of_closed(&self) -> Option<Job> {
        let mut closed = self.closed.borrow_mut();
        let closed = closed.as_mut()?;
        let due_ns = monotonic_ns();
        if closed.left == 0 || due_ns >= closed.end_ns {
            return None;
        }
        closed.left -= 1;
        self.tally.borrow_mut().offered(due_ns);
        Some(Job { due_ns, file: closed.files.pick() })
    }

    /// Runs a connection until it is idle.
    async fn serve(self: Rc<Self>, slot: usize, mut job: Job) {
        let mut link = Link::default();
        loop {
            let asked = self.target.ask(&mut link, slot, job.file);
            let answer = match tokio::time::timeout(self.timeout, asked).await {
                Ok(answer) => answer,
                Err(_) => {
                    // An answer that comes later must not be taken for the next one's.
                    link = Link::default();
                    Err("timeout")
                }
            };
            let known = self.target.sizes.get(job.file).copied().unwrap_or(0);
            self.tally.borrow_mut().ended(job.due_ns, known, answer);
            let waiting = self.queue.borrow_mut().pop_front();
            if let Some(next) = waiting.or_else(|| self.next_of_closed()) {
                job = next;
                continue;
            }
            let (give, take) = oneshot::channel();
            self.idle.borrow_mut().push(give);
            self.busy.set(self.busy.get() - 1);
            self.rests.notify_one();
            match take.await {
                Ok(next) => job = next,
                Err(_) => return,
            }
        }
    }

    /// Returns whether requests are under way.
    pub fn is_busy(&self) -> bool {
        self.busy.get() > 0
    }

    /// Waits until a connection is idle.
    pub async fn rest(&self) {
        self.rests.notified().await;
    }

    /// Drops waiting requests.
    pub fn give_up(&self) {
        if let Some(closed) = self.closed.borrow_mut().as_mut() {
            closed.left = 0;
        }
        let unsent = std::mem::take(&mut *self.queue.borrow_mut());
        for job in unsent {
            let known = self.target.sizes.get(job.file).copied().unwrap_or(0);
            self.tally.borrow_mut().ended(job.due_ns, known, Err("unsent"));
        }
    }

    /// Returns the results, and ends all connections.
    pub fn outcome(&self, length_ns: Option<u64>, stopped: bool) -> Outcome {
        self.idle.borrow_mut().clear();
        self.tally.take().outcome(length_ns, stopped)
    }
}
