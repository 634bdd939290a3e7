//! Repeated runs, pinned, in cycles: how times become numbers.

use std::time::Instant;

use halfwink_live::clock;
use serde::Serialize;

use crate::code::reg::{RAX, RCX};
use crate::code::{Code, Kernel};
use crate::fit::Measured;
use crate::Fault;

/// Effort of the measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Runs of each kernel.
    pub runs: usize,
    /// Shortest duration of a run, in microseconds.
    pub run_us: f64,
    /// Points of an octave in ladders.
    pub per_octave: usize,
    /// The largest memory that is walked through, in bytes.
    pub most_bytes: usize,
    /// Largest spread of a number over its repetitions, in percent.
    pub max_spread_pct: f64,
}

impl Effort {
    /// Effort that takes about a minute.
    pub const FULL: Effort = Effort {
        runs: 50,
        run_us: 40.0,
        per_octave: 4,
        most_bytes: 256 << 20,
        max_spread_pct: 5.0,
    };
    /// Seconds: fewer runs, a coarser ladder.
    pub const QUICK: Effort = Effort { runs: 12, run_us: 20.0, per_octave: 2, ..Effort::FULL };
}

/// Adds of the chain that the clock is taken from, in one iteration.
const CHAIN: usize = 128;
/// Number of times that runs are added while a number does not repeat.
const BATCHES: usize = 10;
/// Factor below the best clock at which a run no longer counts. assumption: steps of turbo clocks
/// are 25 to 100 MHz, some 1 to 3 %.
const SLOWER: f64 = 1.015;

/// Clock of the machine, and the measurements by it.
#[derive(Debug)]
pub struct Bench {
    /// Effort that is allowed.
    pub effort: Effort,
    /// Rate of the time-stamp counter.
    rate: clock::Rate,
    chain: Kernel,
    chain_iterations: u64,
    /// Ticks of a cycle, at the best clock that was seen.
    ticks_per_cycle: f64,
    /// Clock of the core.
    pub clock: Measured,
    /// Problems and doubts of the measurement.
    pub notes: Vec<String>,
}

/// A time, of one operation, in cycles.
pub type Cycles = Measured;

impl Bench {
    /// Finds the clock: dependent adds, a cycle each, against the kernel's monotonic clock.
    ///
    /// # Errors
    /// If there is no clock to go by, or none that two measurements agree on.
    pub fn new(effort: Effort) -> Result<Bench, Fault> {
        if !clock::is_constant() {
            return Err(Fault::Clock("the time-stamp counter changes its rate".to_owned()));
        }
        let (a, b) = (clock::Rate::measure(), clock::Rate::measure());
        let apart_pct = 100.0 * (a.0 as f64 / b.0 as f64 - 1.0).abs();
        if apart_pct > MAX_CLOCKS_APART_PCT {
            return Err(Fault::Clock(format!(
                "the time-stamp counter against the monotonic clock: two measurements differ by \
                 {apart_pct:.2} %, expected at most {MAX_CLOCKS_APART_PCT} %"
            )));
        }
        let mut code = Code::new();
        code.set(RCX, 1).top();
        for _ in 0..CHAIN {
            // By a register: some cores carry out immediate ones while renaming.
            code.add(RAX, RCX);
        }
        let chain = Kernel::map(&code.finish()).map_err(Fault::Code)?;
        let none = Measured { value: 0.0, spread_pct: 0.0, runs: 0 };
        let mut bench = Bench {
            effort,
            rate: a,
            chain,
            chain_iterations: 1,
            ticks_per_cycle: 0.0,
            clock: none,
            notes: Vec::new(),
        };
        bench.find_clock()?;
        Ok(bench)
    }

    fn find_clock(&mut self) -> Result<(), Fault> {
        // A core that was idle needs a while until it is at its clock.
        let start = Instant::now();
        while start.elapsed().as_millis() < WARM_UP_MS {
            self.chain_ticks(1000);
        }
        self.chain_iterations = 1;
        while self.ns(self.chain_ticks(self.chain_iterations)) < 1e3 * self.effort.run_us / 4.0 {
            self.chain_iterations *= 2;
        }
        let adds = (self.chain_iterations as usize * CHAIN) as f64;
        let mut samples = Vec::new();
        let mut cycle = None;
        for _ in 0..BATCHES {
            samples.extend(
                (0..4 * self.effort.runs)
                    .map(|_| self.chain_ticks(self.chain_iterations) as f64 / adds),
            );
            cycle = Measured::of(&samples, 0.0);
            if cycle.is_some_and(|c| c.spread_pct <= self.effort.max_spread_pct) {
                break;
            }
        }
        let cycle = cycle.ok_or(Fault::Nothing)?;
        self.ticks_per_cycle = cycle.value;
        let ghz = 1.0 / self.rate_ns(cycle.value);
        self.clock = Measured { value: ghz, ..cycle };
        self.check("the clock", self.clock)
    }

    /// Refuses a number that does not repeat.
    ///
    /// # Errors
    /// If its spread is above the bound.
    pub fn check(&self, what: &str, found: Measured) -> Result<(), Fault> {
        let most = self.effort.max_spread_pct;
        if found.spread_pct > most {
            return Err(Fault::Noisy {
                what: what.to_owned(),
                spread_pct: found.spread_pct,
                runs: found.runs,
                most_pct: most,
            });
        }
        Ok(())
    }

    fn chain_ticks(&self, iterations: u64) -> u64 {
        let start = clock::ticks_fenced();
        // SAFETY: a whole kernel without places.
        unsafe { self.chain.run(iterations, std::ptr::null_mut(), std::ptr::null_mut()) };
        clock::ticks_fenced() - start
    }

    fn rate_ns(&self, ticks: f64) -> f64 {
        ticks * self.rate.0 as f64 / f64::from(1u32 << 20) / 1e3
    }

    /// Converts ticks to nanoseconds.
    #[must_use]
    pub fn ns(&self, ticks: u64) -> f64 {
        self.rate_ns(ticks as f64)
    }

    /// Nanoseconds of a cycle.
    #[must_use]
    pub fn cycle_ns(&self) -> f64 {
        1.0 / self.clock.value
    }

    /// Returns whether the core runs at the clock in which cycles are counted.
    fn is_at_speed(&self) -> bool {
        let adds = (self.chain_iterations as usize * CHAIN) as f64;
        self.chain_ticks(self.chain_iterations) as f64 / adds < self.ticks_per_cycle * SLOWER
    }

    /// Cycles of one of `operations` of an iteration: the minimum over runs beside which the clock
    /// was as it was.
    ///
    /// # Errors
    /// If the code cannot run, or the clock hardly ever was.
    ///
    /// # Safety
    /// What the code loads and stores through `a` and `b` must be the caller's, however often.
    pub unsafe fn cycles(
        &mut self,
        code: Code,
        operations: usize,
        places: (*mut u8, *mut u8),
    ) -> Result<Cycles, Fault> {
        let kernel = Kernel::map(&code.finish()).map_err(Fault::Code)?;
        let run = |n: u64| {
            let start = clock::ticks_fenced();
            // SAFETY: by the caller.
            unsafe { kernel.run(n, places.0, places.1) };
            clock::ticks_fenced() - start
        };
        let mut iterations = 8;
        while self.ns(run(iterations)) < 1e3 * self.effort.run_us && iterations < 1 << 40 {
            iterations *= 2;
        }
        let mut samples = Vec::new();
        let mut tried = 0;
        for batch in 1..=BATCHES {
            while samples.len() < batch * self.effort.runs && tried < 2 * BATCHES * self.effort.runs
            {
                tried += 1;
                let before = self.is_at_speed();
                let ticks = run(iterations);
                if before && self.is_at_speed() {
                    samples.push(ticks as f64 / self.ticks_per_cycle);
                }
            }
            // More runs where the machine was busy with something else.
            let found = Measured::of(&samples, 0.0);
            if found.is_some_and(|found| found.spread_pct <= self.effort.max_spread_pct) {
                break;
            }
        }
        if samples.len() < self.effort.runs {
            return Err(Fault::Clock(format!(
                "the clock of {:.2} GHz was kept around {} of {tried} runs alone, expected {}",
                self.clock.value,
                samples.len(),
                self.effort.runs
            )));
        }
        let found = Measured::of(&samples, 0.0).ok_or(Fault::Nothing)?;
        Ok(found.times(1.0 / (iterations as f64 * operations as f64)))
    }
}

impl Bench {
    /// Nanoseconds of an iteration of code that goes on from run to run, at a quantile.
    ///
    /// # Errors
    /// If the code cannot run.
    pub(crate) fn lasts(
        &self,
        code: Code,
        place: *mut u8,
        iterations: u64,
        quantile: f64,
    ) -> Result<Measured, Fault> {
        let kernel = Kernel::map(&code.finish()).map_err(Fault::Code)?;
        let run = || {
            let start = clock::ticks_fenced();
            // SAFETY: by who assembled it, inside of this crate.
            unsafe { kernel.run(iterations, place, std::ptr::null_mut()) };
            clock::ticks_fenced() - start
        };
        run();
        let samples: Vec<f64> =
            (0..self.effort.runs).map(|_| self.ns(run()) / iterations as f64).collect();
        Measured::of(&samples, quantile).ok_or(Fault::Nothing)
    }
}

/// assumption: clocks that run as quartz do agree within 0.01 %; a millisecond lost in 20 is 5 %.
const MAX_CLOCKS_APART_PCT: f64 = 0.5;
/// assumption: Linux' governors decide every 10 ms or less.
const WARM_UP_MS: u128 = 50;

/// Binds this thread to a CPU; back to where it was allowed when dropped.
#[derive(Debug)]
pub struct Pinned {
    before: libc::cpu_set_t,
    /// Number of the CPU.
    pub cpu: usize,
}

impl Pinned {
    /// Pins the thread to the CPU of this number, or to the last one that it may use: device
    /// interrupts and most other work prefer the first.
    ///
    /// # Errors
    ///
    /// If the CPU may not be used.
    pub fn new(cpu: Option<usize>) -> Result<Pinned, Fault> {
        // SAFETY: all zeros is an empty set, and both calls are about one of its size.
        let (before, set, cpu) = unsafe {
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            let size = std::mem::size_of::<libc::cpu_set_t>();
            libc::sched_getaffinity(0, size, &raw mut before);
            let allowed = |n: usize| libc::CPU_ISSET(n, &before);
            let last = (0..libc::CPU_SETSIZE as usize).rev().find(|&n| allowed(n)).unwrap_or(0);
            let cpu = cpu.unwrap_or(last);
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if cpu < libc::CPU_SETSIZE as usize {
                libc::CPU_SET(cpu, &mut set);
            }
            (before, set, cpu)
        };
        // SAFETY: a set of this size.
        let answer =
            unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set) };
        if answer != 0 {
            return Err(Fault::Cpu(cpu, std::io::Error::last_os_error()));
        }
        Ok(Pinned { before, cpu })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the set that the kernel gave.
        unsafe {
            libc::sched_setaffinity(0, std::mem::size_of_val(&self.before), &raw const self.before);
        }
    }
}

/// A number with what it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Named {
    /// Stable name, such as `latency.multiply`.
    pub name: &'static str,
    /// Unit of the number: `cycles`, `a cycle`, `ns`, `GB/s`, `entries`.
    pub unit: &'static str,
    /// Number that was measured.
    #[serde(flatten)]
    pub found: Measured,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_repeat_is_refused_with_its_spread() {
        let _pinned = Pinned::new(None).unwrap();
        let effort = Effort { max_spread_pct: 1e9, ..Effort::QUICK };
        let bench = Bench::new(effort).unwrap();
        let found = Measured { value: 4.0, spread_pct: 2e9, runs: 12 };
        let said = bench.check("latency.divide", found).unwrap_err().to_string();
        assert!(said.contains("latency.divide") && said.contains("12 runs"), "{said}");
        assert!(bench.check("latency.divide", Measured { spread_pct: 1.0, ..found }).is_ok());
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert!(Pinned::new(Some(1023)).unwrap_err().to_string().contains("1023"));
    }
}
