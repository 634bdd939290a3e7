//! The first worker: beside its own queue it empties all sockets, spreads frames over the queues,
//! and does what the policy asks of the router.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use halfwink_dataplane::rss;
use halfwink_policy::scaling::Action;
use halfwink_units::Time;

use super::meter::State;
use super::pool::Slot;
use super::ports::Ports;
use super::queue::Redirect;
use super::waiter::Waiter;
use super::worker::{nap, pause, Served, Wait, Worker, TICK};

/// Frames taken from a lane at a time.
const RECEIVE: usize = 256;
/// Own frames served before the sockets are looked at again.
const SERVE: usize = 64;
/// Between two looks at interfaces and the kernel's counters.
const CARE: Duration = Duration::from_millis(200);
/// At the end, sockets are emptied for that long at most.
const DRAIN: Duration = Duration::from_millis(300);

/// Counters of the receiver's work for the policy, read by other threads.
#[derive(Debug, Default)]
pub struct Steering {
    /// Changes of cores or P-state.
    pub changes: AtomicU64,
    /// Entries of the redirect table that moved.
    pub moves: AtomicU64,
    /// Frames whose queue was full.
    pub overflowed: AtomicU64,
    /// The P-state that was asked for last.
    pub step: AtomicU32,
}

/// Callback for ports that are back.
pub(super) type OnBack = Box<dyn FnMut(&Ports, &[u16]) + Send>;

pub(super) struct Receiver {
    pub(super) worker: Worker,
    pub(super) ports: Ports,
    pub(super) redirect: Redirect,
    pub(super) waiter: Waiter,
    pub(super) steering: Arc<Steering>,
    /// Told which ports are back.
    pub(super) on_back: OnBack,
    pub(super) cared: Instant,
    /// Interval of moderation, see [`super::Config::moderation_us`].
    pub(super) moderation: Time,
    /// Whether it has received frames since it slept last.
    pub(super) fed: bool,
}

impl Receiver {
    pub(super) fn run(mut self) {
        let mut frames = VecDeque::with_capacity(RECEIVE);
        let mut stopped: Option<Instant> = None;
        loop {
            self.act();
            let got = if stopped.is_none_or(|at| at.elapsed() < DRAIN) {
                self.receive(&mut frames)
            } else {
                0
            };
            let served = self.worker.serve(SERVE);
            self.fed |= got > 0;
            let idle = got == 0 && !matches!(served, Served::Frames(_));
            self.worker.queue.meter.spent(if idle { State::Spin } else { State::Busy });
            self.look_after();
            if stopped.is_none() && self.worker.common.stopping.load(Ordering::Relaxed) {
                stopped = Some(Instant::now());
            }
            if stopped.is_some() && got == 0 && served == Served::Empty {
                break;
            }
            if idle && served == Served::Empty && stopped.is_none() {
                let wait = self.worker.ask();
                self.rest(wait);
            } else if served == Served::Held {
                std::thread::yield_now();
            }
        }
        self.worker.common.drained.store(true, Ordering::Release);
        self.worker.queue.standings.iter().for_each(|standing| {
            standing.ring();
        });
        self.ports.look_after();
        self.worker.end();
    }

    fn receive(&mut self, frames: &mut VecDeque<Slot>) -> usize {
        let came = self.worker.clock().now();
        let (redirect, steering) = (&mut self.redirect, &self.steering);
        let mut full = Vec::new();
        let mut woken = 0u64;
        let got = self.ports.receive(RECEIVE, frames, |port, slot| {
            match redirect.put(rss::hash(slot.bytes()), port, came, slot) {
                Ok(queue) => woken |= 1 << queue,
                Err(slot) => full.push(slot),
            }
        });
        if !full.is_empty() {
            steering.overflowed.fetch_add(full.len() as u64, Ordering::Relaxed);
            self.worker.common.pool.free(&mut full);
        }
        for (n, standing) in self.worker.queue.standings.iter().enumerate().skip(1) {
            if woken >> n & 1 == 1 {
                standing.ring();
            }
        }
        got
    }

    /// Does what the policy asked of the router.
    fn act(&mut self) {
        let control = &self.worker.common.control;
        if !control.is_waiting() {
            return;
        }
        for action in control.pending() {
            match action {
                Action::Move { entry, to, in_order } => {
                    self.redirect.redirect(entry, to, in_order);
                    self.steering.moves.fetch_add(1, Ordering::Relaxed);
                }
                Action::Park { core } => self.park(core, true),
                Action::Wake { core } => self.park(core, false),
                Action::SetStep { step } => {
                    self.steering.step.store(u32::from(step), Ordering::Relaxed);
                    self.steering.changes.fetch_add(1, Ordering::Relaxed);
                }
                // Nothing here sets the clock of a real core.
                Action::Wish { step, .. } => {
                    self.steering.step.store(u32::from(step), Ordering::Relaxed);
                }
                // An answer to a worker that did not ask: it rests as it was told before.
                Action::Rest { .. } => {}
            }
        }
    }

    fn park(&self, core: u8, parked: bool) {
        let Some(standing) = self.worker.queue.standings.get(usize::from(core)) else { return };
        if standing.parked.swap(parked, Ordering::Relaxed) != parked {
            self.steering.changes.fetch_add(1, Ordering::Relaxed);
            // It asks again how to rest, and sleeps deeper.
            standing.ring();
        }
    }

    fn look_after(&mut self) {
        self.worker.tick(Time(TICK.0 / 5));
        if self.cared.elapsed() >= CARE {
            self.cared = Instant::now();
            let back = self.ports.look_after();
            if !back.is_empty() {
                (self.on_back)(&self.ports, &back);
                self.waiter.watch(&self.ports);
            }
        }
    }

    fn rest(&mut self, wait: Wait) {
        match wait {
            Wait::Look => std::hint::spin_loop(),
            Wait::Pause(span) => pause(self.worker.clock(), span),
            Wait::Sleep { state, deaf: false, .. } if self.fed && self.moderation > Time::ZERO => {
                // More frames are likely: they come together.
                self.fed = false;
                self.worker.queue.meter.sleeps(state);
                nap(self.moderation);
                self.worker.queue.meter.spent(state);
            }
            Wait::Sleep { state, most, deaf } => {
                let timer = self.worker.common.control.timer();
                let now = self.worker.clock().now();
                let most = timer.map_or(most, |at| Time(at.0.saturating_sub(now.0)).min(most));
                self.worker.queue.meter.sleeps(state);
                if deaf {
                    nap(most);
                } else {
                    self.waiter.wait(most);
                }
                self.worker.queue.meter.spent(state);
            }
        }
    }
}
