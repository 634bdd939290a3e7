//! Metronome: sleep and wake in place of polling, several threads for each queue.
//!
//! ```text
//!  thread wakes ─▶ queue free? ─ yes ─▶ drain it ─▶ sleep T_S, which follows the load
//!                       └────── no ──▶ sleep T_L
//! ```
//!
//! Follows Faltelli et al. (CoNEXT 2020; IEEE/ACM ToN 2022) and `lpm_main_loop` of their
//! `tests/l3fwd/l3fwd_lpm_timer.c`: with ρ, the share of time that the queue is being served,
//! averaged, M threads and a wanted vacation V, a thread that drained the queue sleeps
//! T_S = M V (1 - ρ) / (1 - ρ^M).
//!
//! Here the threads of a queue share the core that it belongs to; that one of them finds the queue
//! taken costs nothing but its long sleep (assumption: the paper spreads threads over cores).

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::Time;

use super::{Action, Depth, Event, Rest, Scaling};
use crate::{Policy, Snapshot};

/// Most threads of a queue.
const MOST: usize = 8;
/// `ALPHA`: weight of the past.
const ALPHA: f64 = 0.75;
/// Value of `TIMEOUT_LONG`.
const LONG: Time = Time::ns(500_000);

/// Parameters of Metronome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetronomeParameters {
    /// Cores, each with a queue.
    pub cores: u8,
    /// Threads for each queue, 1 to 8. Published default: 3.
    pub threads: u8,
    /// Wanted mean time between visits to a queue. Published: 10 us.
    pub vacation: Time,
    /// Idle state of a sleeping core; the operating system chooses it.
    pub depth: Depth,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    /// Wake-up time of each thread.
    wakes: [Time; MOST],
    /// Time at which it was last drained.
    released: Time,
    /// Since when it is being served.
    begun: Option<Time>,
    /// Share of time that it is served.
    rho: f64,
}

/// Policy of Metronome.
#[derive(Clone, Debug)]
pub struct Metronome {
    parameters: MetronomeParameters,
    queues: Vec<Queue>,
    pending: Option<Action>,
}

impl Metronome {
    /// All threads awake at first.
    ///
    /// # Panics
    /// If there are no threads or more than eight for a queue.
    #[must_use]
    pub fn new(parameters: MetronomeParameters) -> Metronome {
        assert!((1..=MOST).contains(&usize::from(parameters.threads)), "1 to 8 threads");
        let queues = vec![Queue::default(); usize::from(parameters.cores)];
        Metronome { parameters, queues, pending: None }
    }

    /// A thread has drained its queue: until which thread wakes the core sleeps.
    fn drained(&mut self, core: u8, now: Time) -> Time {
        let p = self.parameters;
        let queue = &mut self.queues[usize::from(core)];
        let wakes = &mut queue.wakes[..usize::from(p.threads)];
        let begun = queue.begun.take().unwrap_or(now);
        let (busy, vacation) = ((now.0 - begun.0) as f64, (begun.0 - queue.released.0) as f64);
        let local = if busy > 0.0 { busy / (busy + vacation) } else { 0.0 };
        queue.rho = ALPHA * queue.rho + (1.0 - ALPHA) * local;
        queue.released = now;
        let short = short_sleep(p.threads, p.vacation, queue.rho);
        // The one that woke first served it; others that woke since found it taken.
        let mut first = 0;
        for n in 1..wakes.len() {
            first = if wakes[n] < wakes[first] { n } else { first };
        }
        wakes[first] = now + short;
        for wake in wakes.iter_mut() {
            while *wake <= now {
                *wake += LONG;
            }
        }
        wakes.iter().copied().min().unwrap_or(now)
    }
}

/// T_S = M V (1 - ρ) / (1 - ρ^M), written as the sum that it is: M V / (1 + ρ + ... + ρ^(M-1)).
fn short_sleep(threads: u8, vacation: Time, rho: f64) -> Time {
    let (mut sum, mut power) = (0.0, 1.0);
    for _ in 0..threads {
        sum += power;
        power *= rho;
    }
    Time((f64::from(threads) * vacation.0 as f64 / sum) as u64)
}

impl Policy for Metronome {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Poll { core, .. } => {
                self.queues[usize::from(core)].begun.get_or_insert(now);
            }
            Event::Empty { core } => {
                let span = Time(self.drained(core, now).0 - now.0);
                let rest = Rest::Sleep { span, depth: self.parameters.depth };
                self.pending = Some(Action::Rest { core, rest });
            }
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let sum: f64 = self.queues.iter().map(|queue| queue.rho).sum();
        vec![("served-permille", (1e3 * sum / self.queues.len() as f64) as i64)]
    }
}

impl Scaling for Metronome {
    fn hears_polls(&self, _core: u8) -> bool {
        true
    }

    fn is_apart(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_sleep_runs_from_m_vacations_to_one() {
        let sleep = |rho| short_sleep(3, Time::ns(10_000), rho).0;
        assert_eq!(sleep(0.0), 30_000_000);
        assert_eq!(sleep(1.0), 10_000_000);
        // 3 * 10 * 0.5 / 0.875
        assert_eq!(sleep(0.5), 17_142_857);
    }
}
