//! What a run has counted, as one document. Times and counts are measured; joules are modelled, and
//! say so.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use halfwink_eventlog::{Footer, LogError};
use serde::Serialize;

use super::calls::{CALLS, REFUSALS, REFUSAL_NAMES};
use super::events;
use super::histogram::{quantile_ns, Histogram, BUCKETS};
use super::shared::{CallCounts, Mapped, Options};
use halfwink_live::{clock, descriptor};

/// Watts of a big core: EV6 on average (Mogul 2007, Table 1).
const BIG_WATTS: f64 = 10.68;
/// Watts of a small core: EV4 on average (Mogul 2007, Table 1).
const SMALL_WATTS: f64 = 3.73;
/// Seconds of full power to wake a core: 1,000 cycles at 3 GHz (Mogul 2007, Sec 7.3).
const WAKE_S: f64 = 333e-9;

/// A run: the file that its processes count into, from before its start to its report.
#[derive(Debug)]
pub struct Run {
    shared: Mapped,
    technique: String,
    options: Options,
    path: PathBuf,
    begun_ticks: u64,
    /// File whose lock marks the run as in use, independently of process numbers.
    _file: File,
}

impl Run {
    /// Makes the file, which must not exist, for a technique with these options, and locks it
    /// (`flock`) until the run is dropped or its process ends: what is not locked has been left
    /// behind, and may be cleared away.
    ///
    /// # Errors
    /// Those of the file system; no room.
    pub fn begin(path: &Path, technique: &str, options: Options) -> std::io::Result<Run> {
        let mut how = File::options();
        how.mode(0o600);
        let file = loop {
            let file = how.read(true).write(true).create_new(true).open(path)?;
            descriptor::lock(&file, libc::LOCK_EX)?;
            // Somebody who clears away may have come between.
            if file.metadata()?.nlink() > 0 {
                break file;
            }
        };
        let shared = Mapped::create(&file, &options)?;
        let begun_ticks = clock::ticks();
        let (technique, path) = (technique.to_owned(), path.to_owned());
        Ok(Run { shared, technique, options, path, begun_ticks, _file: file })
    }

    /// Returns the path of the file: the value of the variable that the library reads.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the log to a file, once the program has ended.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_log(&self, path: &Path) -> Result<Footer, LogError> {
        events::write(&self.shared, &self.technique, path)
    }

    /// Returns the counters up to now.
    #[must_use]
    pub fn report(&self) -> Report {
        let rate = self.options.rate;
        let seconds = |ticks: u64| rate.ps(ticks) as f64 * 1e-12;
        let sum = |field: fn(&super::shared::Block) -> &AtomicU64| -> u64 {
            self.shared.blocks().iter().map(|block| read(field(block))).sum()
        };
        let counts = self.shared.counts();
        let wall_s = seconds(clock::ticks().saturating_sub(self.begun_ticks));
        let lives: u64 = self.shared.blocks().iter().map(|block| block.life_ticks()).sum();
        let times = Times {
            thread_s: seconds(lives),
            worked_s: seconds(sum(|b| &b.worked_ticks)),
            waited_s: seconds(sum(|b| &b.waited_ticks)),
            stayed_s: seconds(sum(|b| &b.stayed_ticks)),
            hand_off_s: seconds(sum(|b| &b.hand_off_ticks)),
        };
        let calls = self.calls();
        let delegated: u64 = calls.iter().map(|call| call.delegated).sum();
        Report {
            policy: self.technique.clone(),
            n_ns: self.options.policy.n_ns,
            os_cpu: self.options.os_cpu,
            wall_s,
            process_images: read(&counts.epochs),
            threads: read(&counts.threads),
            uncounted_threads: read(&counts.uncounted_threads),
            workers: read(&counts.workers),
            confined: read(&counts.confined),
            steps_back: read(&counts.steps_back),
            hand_off: HandOff {
                durations: self.durations(|block| &block.hand_off, times.hand_off_s * 1e9),
                worker_wakes: sum(|b| &b.worker_wakes),
                caller_naps: sum(|b| &b.caller_naps),
            },
            decision_ns: decision_ns(rate, sum(|b| &b.timed_decisions), sum(|b| &b.decision_ticks)),
            residency: Residency {
                thread_s: times.thread_s,
                os_cpu_worked_s: times.worked_s,
                os_cpu_worked_pct: percent(times.worked_s, wall_s),
                waited_s: times.waited_s,
                waited_pct: percent(times.waited_s, times.thread_s),
                stayed_calls_s: times.stayed_s,
            },
            prediction: self.prediction(
                sum(|b| &b.predictions),
                sum(|b| &b.within_5_percent),
                sum(|b| &b.right_side),
            ),
            modelled_energy: modelled_energy(&times, delegated),
            // `log_next` goes on when the log is full.
            log_records: read(&counts.log_next).min(self.options.log_records),
            log_dropped: read(&counts.log_next).saturating_sub(self.options.log_records),
            calls,
        }
    }

    fn calls(&self) -> Vec<CallReport> {
        let one = |(at, call): (usize, &super::calls::Call)| {
            let all = || self.shared.blocks().iter().map(move |block| &block.calls[at]);
            let sum = |field: fn(&CallCounts) -> &AtomicU64| -> u64 {
                all().map(|counts| read(field(counts))).sum()
            };
            let refused: [u64; REFUSALS] =
                std::array::from_fn(|why| all().map(|counts| read(&counts.refused[why])).sum());
            let (count, delegated) = (sum(|c| &c.calls), sum(|c| &c.delegated));
            let refusals: u64 = refused.iter().sum();
            CallReport {
                name: call.name,
                calls: count,
                delegated,
                // The program still runs, and counters are read one after the other: a later one
                // may be ahead.
                stayed: count.saturating_sub(delegated + refusals),
                refused: REFUSAL_NAMES.into_iter().zip(refused).filter(|(_, n)| *n > 0).collect(),
                here: self.durations(|b| &b.calls[at].here, sum(|c| &c.here_ns) as f64),
                there: self.durations(|b| &b.calls[at].there, sum(|c| &c.there_ns) as f64),
            }
        };
        CALLS.iter().enumerate().map(one).filter(|call| call.calls > 0).collect()
    }

    fn durations<'a>(
        &'a self,
        field: impl Fn(&'a super::shared::Block) -> &'a Histogram,
        sum_ns: f64,
    ) -> Durations {
        let mut counts = [0; BUCKETS];
        self.shared.blocks().iter().for_each(|block| field(block).sum_into(&mut counts));
        let timed: u64 = counts.iter().sum();
        Durations {
            timed,
            mean_ns: (timed > 0).then(|| sum_ns / timed as f64),
            p50_ns: quantile_ns(&counts, 0.5),
            p99_ns: quantile_ns(&counts, 0.99),
        }
    }

    fn prediction(&self, compared: u64, within: u64, right: u64) -> Option<Prediction> {
        let share = |n: u64| percent(n as f64, compared as f64).unwrap_or(0.0);
        // Sorted by N, so that the report does not depend on which thread began first.
        let ns: BTreeMap<u64, u64> =
            self.shared.blocks().iter().filter(|block| read(&block.predictions) > 0).fold(
                BTreeMap::new(),
                |mut all, block| {
                    *all.entry(read(&block.n_ns)).or_default() += 1;
                    all
                },
            );
        (compared > 0).then(|| Prediction {
            compared,
            within_5_percent_pct: share(within),
            right_side_of_n_pct: share(right),
            threads_by_last_n_ns: ns,
        })
    }
}

struct Times {
    thread_s: f64,
    worked_s: f64,
    waited_s: f64,
    stayed_s: f64,
    hand_off_s: f64,
}

/// Report of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Policy, a technique with its parameters.
    pub policy: String,
    /// Fixed N of the policy, in nanoseconds; null if the controller chose it, or there is none.
    pub n_ns: Option<u64>,
    /// CPU of the workers.
    pub os_cpu: u32,
    /// Time from before the start of the program to this report.
    pub wall_s: f64,
    /// Programs that loaded the library, and forks.
    pub process_images: u64,
    /// Threads that made a call.
    pub threads: u64,
    /// Threads for which there was no room: they ran uncounted and unmoved.
    pub uncounted_threads: u64,
    /// Workers that were started.
    pub workers: u64,
    /// Processes that stopped moving calls because they confined themselves.
    pub confined: u64,
    /// Times that a thread's clock stepped back, and stood still for its policy.
    pub steps_back: u64,
    /// Cost of moving beyond the calls.
    pub hand_off: HandOff,
    /// Mean cost of a decision, in nanoseconds.
    pub decision_ns: Option<f64>,
    /// Times that threads spent in each place.
    pub residency: Residency,
    /// Accuracy of the predictions; null for policies without.
    pub prediction: Option<Prediction>,
    /// Modelled energy on cores of unlike size.
    pub modelled_energy: ModelledEnergy,
    /// Events that the log holds.
    pub log_records: u64,
    /// Events that came when it was full.
    pub log_dropped: u64,
    /// Report by call; those that were never made are left out.
    pub calls: Vec<CallReport>,
}

/// Distribution of durations.
#[derive(Debug, Serialize)]
pub struct Durations {
    /// Number of timed ones.
    pub timed: u64,
    /// Mean duration, in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Median, within 10 %.
    pub p50_ns: Option<u64>,
    /// 99th percentile, within 10 %.
    pub p99_ns: Option<u64>,
}

/// Cost of moving calls.
#[derive(Debug, Serialize)]
pub struct HandOff {
    /// Per delegated call: as the program sees it, less the call itself on the OS CPU.
    #[serde(flatten)]
    pub durations: Durations,
    /// Times that a sleeping worker had to be woken.
    pub worker_wakes: u64,
    /// Times that a caller slept for its answer.
    pub caller_naps: u64,
}

/// Times that threads spent in each place.
#[derive(Debug, Serialize)]
pub struct Residency {
    /// Lives of the program's threads, from the first call of each to the last that was looked at.
    pub thread_s: f64,
    /// Time of calls on the OS CPU.
    pub os_cpu_worked_s: f64,
    /// Time of calls on the OS CPU, as a share of the whole run.
    pub os_cpu_worked_pct: Option<f64>,
    /// Time that the program's threads waited for moved calls.
    pub waited_s: f64,
    /// Time waited, as a share of the threads' lives.
    pub waited_pct: Option<f64>,
    /// Time in calls in place that do not block: timed ones, extrapolated.
    pub stayed_calls_s: f64,
}

/// Accuracy of the predictions. Exact hits mean nothing in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Prediction {
    /// Predictions whose calls were timed.
    pub compared: u64,
    /// Off by at most 5 % of the actual length.
    pub within_5_percent_pct: f64,
    /// On the same side of N as the actual length.
    pub right_side_of_n_pct: f64,
    /// Threads by their N at the end, in nanoseconds.
    pub threads_by_last_n_ns: BTreeMap<u64, u64>,
}

/// Joules of cores that this machine does not have, for the times that it measured.
#[derive(Debug, Serialize)]
pub struct ModelledEnergy {
    /// Assumptions of the model.
    pub model: &'static str,
    /// A big core per thread, always on, without hand-offs (Mogul 2007: as in Tables 5 to 7).
    pub big_core_j: f64,
    /// Big cores off while they wait; the small one on all the time, as Mogul counts.
    pub small_core_always_on_j: f64,
    /// Energy with big cores off while they wait, and the small core on for moved calls alone.
    pub small_core_on_demand_j: f64,
}

/// Counters of one call.
#[derive(Debug, Serialize)]
pub struct CallReport {
    /// Name of the call in libc.
    pub name: &'static str,
    /// Times it was made.
    pub calls: u64,
    /// On the OS CPU.
    pub delegated: u64,
    /// Number made in place, as the policy chose.
    pub stayed: u64,
    /// Number made in place although the policy chose to move them, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Timed ones in place.
    pub here: Durations,
    /// Moved ones, as the program sees them.
    pub there: Durations,
}

fn modelled_energy(times: &Times, delegated: u64) -> ModelledEnergy {
    // Mogul 2007, E = P_app (T - I_app) + P_os T + P_app t_up N; the same call is assumed to take
    // the same time on both cores.
    // Both sums grow while they are read, hence the bound.
    let big = BIG_WATTS * ((times.thread_s - times.waited_s).max(0.0) + WAKE_S * delegated as f64);
    ModelledEnergy {
        model:
            "modelled, not measured: big cores of 10.68 W (EV6) and a small one of 3.73 W (EV4), \
                averages of Mogul 2007, Table 1; a core that waits draws nothing, waking it costs \
                333 ns of its power; a call takes as long on either",
        big_core_j: BIG_WATTS * (times.thread_s - times.hand_off_s).max(0.0),
        small_core_always_on_j: big + SMALL_WATTS * times.thread_s,
        small_core_on_demand_j: big + SMALL_WATTS * times.worked_s,
    }
}

/// Mean of the timed decisions, less what reading the counter takes.
fn decision_ns(rate: clock::Rate, timed: u64, ticks: u64) -> Option<f64> {
    let reading = (0..1_000).map(|_| {
        let before = clock::ticks();
        clock::ticks() - before
    });
    let least = reading.min().unwrap_or(0) as f64;
    // Over 2^20 ticks the rounding to a picosecond does not show.
    let ns_per_tick = rate.ps(1 << 20) as f64 / f64::from(1 << 20) * 1e-3;
    (timed > 0).then(|| (ticks as f64 / timed as f64 - least).max(0.0) * ns_per_tick)
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
