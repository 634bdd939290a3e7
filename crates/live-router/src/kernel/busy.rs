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
}

struct Cpu {
    number: u32,
    /// `schedstat` of the thread that empties its ring. In a namespace of processes there is none:
    /// all of the CPU's kernel time then counts.
    thread: Option<PathBuf>,
}

impl Clocks {
    /// Finds the clocks of these CPUs, whose rings are in a map.
    pub(super) fn find(cpus: &[u32], map: &OwnedFd) -> Clocks {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd()));
        let info = info.unwrap_or_default();
        let id = info.lines().find_map(|line| line.strip_prefix("map_id:")).map(str::trim);
        let threads = id.map(threads).unwrap_or_default();
        let cpu = |&number: &u32| {
            let thread = threads.iter().find(|(cpu, _)| *cpu == number);
            Cpu { number, thread: thread.map(|(_, path)| path.clone()) }
        };
        // SAFETY: a plain number.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        let tick = Time(1_000_000_000_000 / per_second);
        Clocks { cpus: cpus.iter().map(cpu).collect(), tick }
    }

    /// Returns what the times are made of.
    pub(super) fn source(&self) -> &'static str {
        if self.cpus.iter().all(|cpu| cpu.thread.is_some()) {
            "softirq time of the CPUs and their cpumap threads"
        } else {
            "softirq and system time of the CPUs, with all that the kernel did there"
        }
    }

    /// Time that each CPU was busy since the machine started.
    pub(super) fn read(&self) -> Vec<Time> {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let busy = |cpu: &Cpu| {
            let [system, softirq] = ticks(&text, cpu.number);
            let (ticks, thread) = match &cpu.thread {
                Some(path) => (softirq, run_time(path)),
                None => (system + softirq, Time::ZERO),
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
