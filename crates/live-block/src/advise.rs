//! What it costs here to have another CPU complete: measured between the CPUs of this machine.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use halfwink_live::clock::{ticks, Rate};
use halfwink_live::line::Line;
use halfwink_live::sys::CpuSet;
use serde::Serialize;

use crate::socket::{Bell, Epoll};
use crate::topology::{Cpu, Machine};

/// Trials, the middle one of which counts, and round trips of each. They are short: while another
/// program has one of the two CPUs, a trial takes milliseconds, and no other one is touched by it.
const TRIALS: usize = 400;
const ROUNDS: u64 = 50;
/// So many trials are made in any case; others only within this time.
const FEWEST: usize = 9;
const LONGEST: Duration = Duration::from_millis(500);
/// Number of wake-ups in a trial: fewer, since they are slower.
const WAKES: u64 = 200;
/// Pairs that are measured at most: 64 groups would be 2,016.
const MOST_PAIRS: usize = 200;

/// A pair of CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trip {
    /// CPU that sends the line.
    pub from: u32,
    /// CPU that returns it.
    pub to: u32,
    /// Whether they share their last-level cache.
    pub same_cache: bool,
    /// Whether they are of one package.
    pub same_package: bool,
    /// A line there and back, in nanoseconds.
    pub line_ns: f64,
}

/// Cost of a rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wake {
    /// The CPU that wakes, and the one that slept.
    pub from: u32,
    /// The one that slept.
    pub to: u32,
    /// Time of the call that wakes it, in microseconds.
    pub call_us: f64,
    /// Time from the call until the other CPU runs, in microseconds.
    pub until_us: f64,
    /// CPU time of the one that sleeps and wakes, in microseconds, once.
    pub sleeper_us: f64,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// CPUs of the machine.
    pub machine: Machine,
    /// Between groups, and inside of each.
    pub trips: Vec<Trip>,
    /// Between the first two CPUs; none on a machine of one.
    pub wake: Option<Wake>,
}

/// Two of each cache, and the first of each cache with the first of each other.
fn pairs(machine: &Machine) -> Vec<(&Cpu, &Cpu)> {
    let mut firsts: Vec<&Cpu> = Vec::new();
    let mut pairs = Vec::new();
    for cpu in &machine.cpus {
        let same = |first: &&&Cpu| (first.package, first.cache) == (cpu.package, cpu.cache);
        match firsts.iter().find(same) {
            None => firsts.push(cpu),
            Some(first) if !pairs.iter().any(|(from, _): &(&Cpu, _)| from.cpu == first.cpu) => {
                pairs.push((*first, cpu));
            }
            Some(_) => {}
        }
    }
    for (n, from) in firsts.iter().enumerate() {
        pairs.extend(firsts[n + 1..].iter().map(|to| (*from, *to)));
    }
    pairs.truncate(MOST_PAIRS);
    pairs
}

fn pin(cpu: u32) -> Result<(), String> {
    CpuSet::one(cpu).pin().map_err(|_| format!("CPU {cpu} is not one where this may run"))
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn line_ns(from: u32, to: u32, rate: Rate) -> Result<f64, String> {
    let (line, ready) = (Line::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = pin(to);
            ready.store(true, Ordering::Release);
            // Even if it was not allowed, the other side waits for answers.
            line.echo();
            pinned
        });
        let pinned = pin(from);
        while !ready.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let (start, mut found) = (Instant::now(), Vec::with_capacity(TRIALS));
        while found.len() < FEWEST || (found.len() < TRIALS && start.elapsed() < LONGEST) {
            let begun = ticks();
            (0..ROUNDS).for_each(|_| line.round_trip());
            found.push(rate.ps(ticks() - begun) as f64 * 1e-3 / ROUNDS as f64);
        }
        line.end();
        other.join().map_err(|_| "the other side failed".to_owned())??;
        pinned.map(|()| middle(found))
    })
}

fn thread_cpu_us() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is the caller's.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 * 1e-3
}

/// A thread sleeps as a worker does; another wakes it as workers do.
fn wake(from: u32, to: u32, rate: Rate) -> Result<Wake, String> {
    let said = |e: io::Error| e.to_string();
    let (epoll, bell) = (Epoll::new().map_err(said)?, Bell::new().map_err(said)?);
    epoll.add(bell.fd(), libc::EPOLLIN as u32, 0).map_err(said)?;
    let (ready, ends, woke) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = pin(to);
            ready.store(true, Ordering::Release);
            let begun = thread_cpu_us();
            let mut found = [libc::epoll_event { events: 0, u64: 0 }; 128];
            while !ends.load(Ordering::Acquire) {
                epoll.wait(&mut found, None);
                woke.store(ticks(), Ordering::Release);
                bell.quiet();
            }
            pinned.map(|()| thread_cpu_us() - begun)
        });
        let pinned = pin(from);
        while !ready.load(Ordering::Acquire) {
            thread::yield_now();
        }
        let us = |ticks: u64| rate.ps(ticks) as f64 * 1e-6;
        let (mut calls, mut until) = (Vec::new(), Vec::new());
        for _ in 0..WAKES {
            // It is asleep by then.
            thread::sleep(Duration::from_micros(300));
            woke.store(0, Ordering::Release);
            let begun = ticks();
            bell.ring();
            calls.push(us(ticks() - begun));
            let seen = loop {
                match woke.load(Ordering::Acquire) {
                    0 => std::hint::spin_loop(),
                    seen => break seen,
                }
            };
            until.push(us(seen.saturating_sub(begun)));
        }
        ends.store(true, Ordering::Release);
        bell.ring();
        let cpu = other.join().map_err(|_| "the other side failed".to_owned())??;
        pinned?;
        let sleeper_us = cpu / WAKES as f64;
        Ok(Wake { from, to, call_us: middle(calls), until_us: middle(until), sleeper_us })
    })
}

/// Measures a machine; takes a second for some dozen pairs.
///
/// # Errors
/// A CPU is not allowed.
pub fn measure(machine: &Machine) -> Result<Measured, String> {
    let rate = Rate::measure();
    let trip = |(from, to): (&Cpu, &Cpu)| {
        Ok(Trip {
            from: from.cpu,
            to: to.cpu,
            same_cache: (from.package, from.cache) == (to.package, to.cache),
            same_package: from.package == to.package,
            line_ns: line_ns(from.cpu, to.cpu, rate)?,
        })
    };
    // In threads of their own: nobody is left pinned.
    let body = || -> Result<Measured, String> {
        let trips = pairs(machine).into_iter().map(trip).collect::<Result<Vec<_>, String>>()?;
        let first = trips.first().map(|trip| (trip.from, trip.to));
        let wake = first.map(|(from, to)| wake(from, to, rate)).transpose()?;
        Ok(Measured { machine: machine.clone(), trips, wake })
    };
    thread::scope(|scope| scope.spawn(body).join().map_err(|_| "measuring failed".to_owned())?)
}
