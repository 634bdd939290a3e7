//! Time that CPUs spend on forwarding in the kernel, from `/proc`.
//!
//! A CPU forwards in two places: while it receives, in a softirq, and in the thread that empties
//! its ring (`cpumap/CPU/map:ID`). Of the first the kernel counts ticks, of the second nanoseconds.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use halfwink_units::Time;

/// Reads the clocks of some CPUs.
pub(super) struct Clocks {
    cpus: Vec<Cpu>,
    tick: Time,
    source: &'static str,
}

struct Cpu {
    number: u32,
    clock: Clock,
}

/// Clock of a CPU beside its softirqs.
enum Clock {
    None,
    /// `schedstat` of the thread that empties its ring.
    Thread(PathBuf),
    /// All of its kernel time.
    System,
}

impl Clocks {
    fn new(cpus: impl Iterator<Item = Cpu>, source: &'static str) -> Clocks {
        // SAFETY: a plain number.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        Clocks { cpus: cpus.collect(), tick: Time(1_000_000_000_000 / per_second), source }
    }

    /// Finds the clocks of CPUs that forward in softirqs alone.
    pub(super) fn of_softirqs(cpus: &[u32]) -> Clocks {
        let cpu = |&number: &u32| Cpu { number, clock: Clock::None };
        Clocks::new(cpus.iter().map(cpu), "softirq time of the CPUs")
    }

    /// Finds the clocks of CPUs that have a ring each in this map.
    pub(super) fn of_rings(cpus: &[u32], map: &OwnedFd) -> Clocks {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd()));
        let info = info.unwrap_or_default();
        let id = info.lines().find_map(|line| line.strip_prefix("map_id:")).map(str::trim);
        let threads = id.map(threads).unwrap_or_default();
        let thread = |cpu: u32| threads.iter().find(|(other, _)| *other == cpu);
        if cpus.iter().all(|&cpu| thread(cpu).is_some()) {
            let cpu = |&number: &u32| {
                let path = thread(number).map(|(_, path)| path.clone()).unwrap_or_default();
                Cpu { number, clock: Clock::Thread(path) }
            };
            let source = "softirq time of the CPUs and their cpumap threads";
            return Clocks::new(cpus.iter().map(cpu), source);
        }
        // In a namespace of processes the kernel's threads are not there.
        let cpu = |&number: &u32| Cpu { number, clock: Clock::System };
        let source = "softirq and system time of the CPUs, with all that the kernel did there";
        Clocks::new(cpus.iter().map(cpu), source)
    }

    /// Returns what the times are made of.
    pub(super) fn source(&self) -> &'static str {
        self.source
    }

    /// Time that each CPU was busy since the machine started.
    pub(super) fn read(&self) -> Vec<Time> {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let busy = |cpu: &Cpu| {
            let [system, softirq] = ticks(&text, cpu.number);
            let (ticks, thread) = match &cpu.clock {
                Clock::None => (softirq, Time::ZERO),
                Clock::Thread(path) => (softirq, run_time(path)),
                Clock::System => (system + softirq, Time::ZERO),
            };
            Time(ticks * self.tick.0 + thread.0)
        };
        self.cpus.iter().map(busy).collect()
    }
}

/// Ticks of a CPU in the kernel and in softirqs, from the text of `/proc/stat`.
fn ticks(text: &str, cpu: u32) -> [u64; 2] {
    let name = format!("cpu{cpu}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(&name));
    let field = |n| line.and_then(|line| line.split(' ').nth(n)?.parse().ok()).unwrap_or(0);
    [field(3), field(7)]
}

/// Time that a thread has run.
fn run_time(schedstat: &Path) -> Time {
    let text = fs::read_to_string(schedstat).unwrap_or_default();
    let ns: u64 = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    Time(ns * 1000)
}

/// The threads of a map of CPUs, by CPU.
fn threads(id: &str) -> Vec<(u32, PathBuf)> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = all.filter_map(|process| {
        let path = process.path();
        let name = fs::read_to_string(path.join("comm")).ok()?;
        let (cpu, map) = name.trim().strip_prefix("cpumap/")?.split_once("/map:")?;
        (map == id).then_some(())?;
        Some((cpu.parse().ok()?, path.join("schedstat")))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_the_cpu_that_was_asked_for() {
        let text = "cpu  9 9 9 9 9 9 9 0\ncpu1 1 2 3 4 5 6 7 0\ncpu10 0 0 50 0 0 0 70 0\n";
        assert_eq!(ticks(text, 1), [3, 7]);
        assert_eq!(ticks(text, 10), [50, 70]);
        assert_eq!(ticks(text, 2), [0, 0]);
    }
}
