//! How long CPUs are idle: exactly, and as a logarithmic histogram would tell (Mogul 2007, Sec
//! 7.3).
//!
//! Mogul's kernel counted idle periods by powers of two and valued each at the lower bound of its
//! bucket. If the time is spread evenly over the logarithm of the periods' lengths, as it nearly is
//! of any smooth distribution, that recovers 1/(2 ln 2) = 72 % of it. Here both are kept side by
//! side, of any run.

mod perf;
mod spin;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::sys::CpuSet;

/// Buckets: periods up to 2^40 ns, 18 minutes.
pub const BUCKETS: usize = 41;

/// Idle periods of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods {
    exact_ns: u64,
    counts: [u64; BUCKETS],
}

impl Default for Periods {
    fn default() -> Periods {
        Periods { exact_ns: 0, counts: [0; BUCKETS] }
    }
}

impl Periods {
    /// An idle period has ended. One of no length is none.
    pub fn add(&mut self, ns: u64) {
        if ns > 0 {
            self.exact_ns += ns;
            self.counts[(ns.ilog2() as usize).min(BUCKETS - 1)] += 1;
        }
    }

    /// The time that the histogram recovers: `I = sum n_k 2^k` (Mogul 2007, Sec 7.3).
    #[must_use]
    pub fn lower_bound_ns(&self) -> u64 {
        self.counts.iter().enumerate().map(|(power, n)| n << power).sum()
    }
}

/// Mechanism that finds idle periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The kernel's record of every switch to and from the idle task. Needs root or CAP_PERFMON.
    SwitchRecords,
    /// A thread of the lowest priority on each CPU, which sees when it does not run. Needs nothing,
    /// but keeps the CPU from sleeping, and takes what little share the kernel gives it when the
    /// CPU is busy.
    Spinners,
}

/// Idle periods that were found.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    /// Mechanism that was used.
    pub mechanism: Mechanism,
    /// Reason for not using switch records; null if they were used.
    pub fallback: Option<String>,
    /// Length of the observation, in seconds.
    pub watched_s: f64,
    /// Idle periods by CPU.
    pub cpus: Vec<CpuIdle>,
}

/// Idle periods of one CPU.
#[derive(Clone, Debug, Serialize)]
pub struct CpuIdle {
    /// Number of the CPU.
    pub cpu: u32,
    /// Sum of its idle periods, in seconds.
    pub exact_s: f64,
    /// Sum by the histogram, with every period at its bucket's lower bound, in seconds.
    pub log2_s: f64,
    /// `log2_s / exact_s`; null without idle time. 0.7213 of smooth distributions.
    pub log2_over_exact: Option<f64>,
    /// Number of idle periods.
    pub periods: u64,
    /// Mean length of the periods, in microseconds.
    pub mean_us: Option<f64>,
    /// Idle time by the kernel's own account (`/proc/stat`), in seconds; coarse. Null if it cannot
    /// be read, or if spinners keep the CPU from what the kernel calls idle.
    pub proc_stat_s: Option<f64>,
    /// Records that were lost: above zero, the rest is doubtful.
    pub lost: u64,
    /// Periods by length: `[k, n]` for n periods of 2^k to 2^(k+1) nanoseconds.
    pub histogram: Vec<[u64; 2]>,
}

/// CPUs that are being watched.
#[derive(Debug)]
pub struct Watch {
    how: How,
    fallback: Option<String>,
    before: Vec<Option<f64>>,
    begun: std::time::Instant,
    cpus: Vec<u32>,
    record: Option<PathBuf>,
}

#[derive(Debug)]
enum How {
    Perf(perf::Watch),
    Spin(spin::Watch),
}

impl Watch {
    /// Begins to watch the CPUs that this process may use; `wanted` chooses the mechanism, else the
    /// best that is allowed. Each period is written to `record`, if it is named, as a line of a
    /// table with the columns `cpu,begin_ns,end_ns`; only switch records can do that.
    ///
    /// # Errors
    /// The wanted mechanism is not allowed, or the file cannot be written, in one line.
    pub fn begin(wanted: Option<Mechanism>, record: Option<&Path>) -> Result<Watch, String> {
        let cpus: Vec<u32> = CpuSet::allowed().iter().collect();
        let mut fallback = None;
        let wanted = match (wanted, record) {
            (Some(Mechanism::Spinners), Some(_)) => {
                return Err("spinners cannot record; expected switch-records".to_owned())
            }
            (None, Some(_)) => Some(Mechanism::SwitchRecords),
            (wanted, _) => wanted,
        };
        let create = |path: &Path| File::create(path).map_err(|e| of_file(path, &e));
        let file = record.map(create).transpose()?;
        let asked = std::time::Instant::now();
        let how = match wanted {
            Some(Mechanism::SwitchRecords) => How::Perf(perf::Watch::begin(&cpus, file)?),
            Some(Mechanism::Spinners) => How::Spin(spin::Watch::begin(&cpus)?),
            None => match perf::Watch::begin(&cpus, None) {
                Ok(watch) => How::Perf(watch),
                Err(why) => {
                    fallback = Some(why);
                    How::Spin(spin::Watch::begin(&cpus)?)
                }
            },
        };
        let before = cpus.iter().map(|&cpu| proc_stat_s(cpu)).collect();
        let begun = match how {
            How::Perf(_) => asked,
            // They had to learn the counter's rate first.
            How::Spin(_) => std::time::Instant::now(),
        };
        Ok(Watch { how, fallback, before, begun, cpus, record: record.map(Path::to_owned) })
    }

    /// Ends; what was found.
    ///
    /// # Errors
    /// The file of periods could not be written, in one line.
    pub fn end(self) -> Result<Idle, String> {
        let watched_s = self.begun.elapsed().as_secs_f64();
        let after: Vec<Option<f64>> = self.cpus.iter().map(|&cpu| proc_stat_s(cpu)).collect();
        let (mechanism, found) = match self.how {
            How::Perf(watch) => {
                let (found, recorded) = watch.end();
                if let (Err(error), Some(path)) = (recorded, &self.record) {
                    return Err(of_file(path, &error));
                }
                (Mechanism::SwitchRecords, found)
            }
            How::Spin(watch) => (Mechanism::Spinners, watch.end()),
        };
        let kernel = self.before.iter().zip(&after).map(|(before, after)| {
            (mechanism == Mechanism::SwitchRecords).then_some(((*after)? - (*before)?).max(0.0))
        });
        let cpus = self.cpus.iter().zip(found).zip(kernel);
        let cpus = cpus.map(|((&cpu, (periods, lost)), stat)| row(cpu, &periods, lost, stat));
        Ok(Idle { mechanism, fallback: self.fallback, watched_s, cpus: cpus.collect() })
    }
}

fn of_file(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn row(cpu: u32, periods: &Periods, lost: u64, proc_stat_s: Option<f64>) -> CpuIdle {
    let count: u64 = periods.counts.iter().sum();
    let (exact, log2) = (periods.exact_ns as f64, periods.lower_bound_ns() as f64);
    let filled = periods.counts.iter().enumerate().filter(|(_, n)| **n > 0);
    CpuIdle {
        cpu,
        exact_s: exact * 1e-9,
        log2_s: log2 * 1e-9,
        log2_over_exact: (exact > 0.0).then(|| log2 / exact),
        periods: count,
        mean_us: (count > 0).then(|| exact / count as f64 * 1e-3),
        proc_stat_s,
        lost,
        histogram: filled.map(|(power, &n)| [power as u64, n]).collect(),
    }
}

/// Seconds that a CPU has been idle since the machine started, as the kernel counts: idle and
/// waiting for I/O.
fn proc_stat_s(cpu: u32) -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find(|line| line.split(' ').next() == Some(&format!("cpu{cpu}")))?;
    let field = |n: usize| line.split_whitespace().nth(n)?.parse::<f64>().ok();
    // USER_HZ has been 100 on every x86-64 kernel.
    Some((field(4)? + field(5)?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_underestimates_as_computed() {
        // 1 and 4 ms in nanoseconds: 2^19 / 10^6 and 2^21 / (4 x 10^6).
        for ns in [1_000_000, 4_000_000] {
            let mut periods = Periods::default();
            (0..10).for_each(|_| periods.add(ns));
            let ratio = periods.lower_bound_ns() as f64 / periods.exact_ns as f64;
            assert!((ratio - 0.524_288).abs() < 1e-9);
        }
        // The same time in periods of each length, lengths spread evenly over logarithms.
        let mut periods = Periods::default();
        for n in 0..10_000 {
            let ns = 2f64.powf(20.0 + f64::from(n) / 10_000.0);
            (0..(1e9 / ns) as u64).for_each(|_| periods.add(ns as u64));
        }
        let ratio = periods.lower_bound_ns() as f64 / periods.exact_ns as f64;
        assert!((ratio - 1.0 / (2.0 * 2f64.ln())).abs() < 1e-3, "{ratio}");
    }

    #[test]
    fn periods_of_any_length() {
        let mut periods = Periods::default();
        periods.add(0);
        assert_eq!(periods, Periods::default());
        periods.add(1);
        periods.add(u64::MAX >> 1);
        assert_eq!((periods.counts[0], periods.counts[BUCKETS - 1]), (1, 1));
    }

    #[test]
    fn cpus_are_watched_without_privileges() {
        let watch = Watch::begin(Some(Mechanism::Spinners), None).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let idle = watch.end().unwrap();
        assert_eq!(idle.cpus.len(), CpuSet::allowed().iter().count());
        for cpu in &idle.cpus {
            assert!(cpu.exact_s <= idle.watched_s * 1.05, "{cpu:?}");
            assert!(cpu.log2_s <= cpu.exact_s && cpu.log2_s >= cpu.exact_s / 2.0, "{cpu:?}");
        }
    }

    #[test]
    fn switch_records_agree_with_the_kernel() {
        let Ok(watch) = Watch::begin(Some(Mechanism::SwitchRecords), None) else { return };
        std::thread::sleep(std::time::Duration::from_millis(300));
        let idle = watch.end().unwrap();
        for cpu in &idle.cpus {
            assert!(cpu.exact_s <= idle.watched_s * 1.05, "{cpu:?}");
            assert_eq!(cpu.lost, 0);
            // The kernel counts in hundredths, some by samples.
            let kernel = cpu.proc_stat_s.unwrap();
            assert!((kernel - cpu.exact_s).abs() < 0.15, "{cpu:?}");
        }
    }
}
