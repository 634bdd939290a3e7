//! Times that a worker spends in each state, as it goes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use halfwink_policy::scaling::Depth;
use serde::Serialize;

use crate::clock::{ticks, Rate};

/// What a worker does. The C-states are those that its policy asked for: which one the processor
/// took is the kernel's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Frames.
    Busy,
    /// Looks at empty queues.
    Spin,
    /// Sleeps lightly.
    C1,
    /// Sleeps.
    C3,
    /// Sleeps deeply.
    C6,
}

const STATES: usize = 5;

impl From<Depth> for State {
    fn from(depth: Depth) -> State {
        match depth {
            Depth::C1 => State::C1,
            Depth::C3 => State::C3,
            Depth::C6 => State::C6,
        }
    }
}

/// A worker's clock: only its worker changes it, all may read it.
#[derive(Debug)]
pub struct Meter {
    rate: Rate,
    spent: [AtomicU64; STATES],
    state: AtomicU32,
    since: AtomicU64,
    sleeps: AtomicU64,
    /// Processor time of its thread, in nanoseconds, as it was when it last looked.
    cpu_ns: AtomicU64,
}

/// Times of a worker, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Residency {
    /// With frames.
    pub busy_s: f64,
    /// At empty queues.
    pub spin_s: f64,
    /// Asleep in what stands for C1.
    pub c1_s: f64,
    /// C3.
    pub c3_s: f64,
    /// C6.
    pub c6_s: f64,
}

impl Residency {
    /// All of it.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.busy_s + self.spin_s + self.c1_s + self.c3_s + self.c6_s
    }
}

impl Meter {
    /// Starts with an empty loop.
    #[must_use]
    pub fn start(rate: Rate) -> Meter {
        Meter {
            rate,
            spent: Default::default(),
            state: AtomicU32::new(State::Spin as u32),
            since: AtomicU64::new(ticks()),
            sleeps: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
        }
    }

    /// What it did until now was this; and it goes on so.
    pub fn spent(&self, state: State) {
        let now = ticks();
        let since = self.since.swap(now, Ordering::Relaxed);
        self.spent[state as usize].fetch_add(now.saturating_sub(since), Ordering::Relaxed);
        self.state.store(state as u32, Ordering::Relaxed);
    }

    /// From now on it sleeps so deep.
    pub fn sleeps(&self, state: State) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        self.state.store(state as u32, Ordering::Relaxed);
    }

    /// Notes the processor time of the calling thread, which must be its worker.
    pub fn note_cpu(&self) {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the time.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        self.cpu_ns.store(ns, Ordering::Relaxed);
    }

    /// Times so far, with what is under way.
    #[must_use]
    pub fn residency(&self) -> Residency {
        let mut all: [u64; STATES] = std::array::from_fn(|n| self.spent[n].load(Ordering::Relaxed));
        let since = self.since.load(Ordering::Relaxed);
        all[self.state.load(Ordering::Relaxed) as usize % STATES] += ticks().saturating_sub(since);
        let [busy_s, spin_s, c1_s, c3_s, c6_s] = all.map(|t| self.rate.ns(t) as f64 * 1e-9);
        Residency { busy_s, spin_s, c1_s, c3_s, c6_s }
    }

    /// Times that it went to sleep.
    #[must_use]
    pub fn times_asleep(&self) -> u64 {
        self.sleeps.load(Ordering::Relaxed)
    }

    /// Processor time, in seconds, as it last was noted.
    #[must_use]
    pub fn cpu_s(&self) -> f64 {
        self.cpu_ns.load(Ordering::Relaxed) as f64 * 1e-9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_is_somewhere() {
        let rate = Rate::measure();
        let begun = ticks();
        let meter = Meter::start(rate);
        for state in [State::Busy, State::Spin, State::C1, State::C6] {
            std::thread::sleep(std::time::Duration::from_millis(2));
            meter.spent(state);
        }
        meter.sleeps(State::C3);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let r = meter.residency();
        let all = rate.ns(ticks() - begun) as f64 * 1e-9;
        assert!(r.total_s() <= all && r.total_s() > all - 1e-3, "{r:?} of {all}");
        assert!([r.busy_s, r.spin_s, r.c1_s, r.c3_s, r.c6_s].iter().all(|&s| s >= 0.002), "{r:?}");
        meter.note_cpu();
        assert!(meter.cpu_s() > 0.0 && meter.times_asleep() == 1);
    }
}
