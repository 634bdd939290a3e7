//! Times that a worker spends in each state, as it goes.

use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

use halfwink_policy::scaling::Depth;
use serde::Serialize;

use halfwink_live::clock::{ticks, Rate};

/// State of a worker. The C-states are those that its policy requested; the kernel decides which
/// one the processor enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The worker handles frames.
    Busy,
    /// Looks at empty queues.
    Spin,
    /// The worker sleeps lightly.
    C1,
    /// The worker sleeps.
    C3,
    /// The worker sleeps deeply.
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
///
/// It is written at every pass of a poll loop, so nothing here locks the bus: one writer can load
/// and store. Readers would see a stretch that has left `since` and is not yet in `spent`, which
/// may be a whole sleep; `version` is odd meanwhile, and they look again (a sequence lock).
#[derive(Debug)]
pub struct Meter {
    rate: Rate,
    version: AtomicU64,
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
    /// Time with frames, in seconds.
    pub busy_s: f64,
    /// Time at empty queues, in seconds.
    pub spin_s: f64,
    /// Asleep in what stands for C1.
    pub c1_s: f64,
    /// Time in C3, in seconds.
    pub c3_s: f64,
    /// Time in C6, in seconds.
    pub c6_s: f64,
}

impl Residency {
    /// Returns the sum of all times.
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
            version: AtomicU64::new(0),
            spent: Default::default(),
            state: AtomicU32::new(State::Spin as u32),
            since: AtomicU64::new(ticks()),
            sleeps: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
        }
    }

    /// Books the time since the last call to this state, which continues.
    pub fn spent(&self, state: State) {
        let now = ticks();
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // What follows becomes visible after the odd version.
        fence(Ordering::Release);
        let ticks = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let spent = &self.spent[state as usize];
        spent.store(spent.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        self.state.store(state as u32, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    /// Enters a sleep of this depth.
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
        let [busy_s, spin_s, c1_s, c3_s, c6_s] =
            self.now().map(|ticks| self.rate.ns(ticks) as f64 * 1e-9);
        Residency { busy_s, spin_s, c1_s, c3_s, c6_s }
    }

    /// Ticks in each state at one moment.
    fn now(&self) -> [u64; STATES] {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let mut all: [u64; STATES] =
                std::array::from_fn(|n| self.spent[n].load(Ordering::Relaxed));
            let since = self.since.load(Ordering::Relaxed);
            let state = self.state.load(Ordering::Relaxed) as usize % STATES;
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && version == self.version.load(Ordering::Relaxed) {
                all[state] += ticks().saturating_sub(since);
                return all;
            }
            std::hint::spin_loop();
        }
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
    fn meter_states_sum_to_elapsed_time() {
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

    #[test]
    fn a_look_never_misses_what_is_just_being_written() {
        let rate = Rate::measure();
        let begun = ticks();
        let meter = std::sync::Arc::new(Meter::start(rate));
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let writer = {
            let (meter, stop) = (meter.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    meter.spent(State::Busy);
                    meter.spent(State::C6);
                }
            })
        };
        let mut before = 0;
        for _ in 0..20_000 {
            let all: u64 = meter.now().iter().sum();
            assert!(all >= before, "time went back: {all} after {before}");
            before = all;
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        let (all, passed): (u64, u64) = (meter.now().iter().sum(), ticks() - begun);
        assert!(passed - all < rate.ticks(1_000_000), "{all} of {passed}");
    }
}
