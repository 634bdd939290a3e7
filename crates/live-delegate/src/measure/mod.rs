//! What this machine charges for each way to hand work to another core, and for what surrounds it.
//!
//! Two threads of our own, each pinned to its CPU, repeat one exchange; every repetition is timed
//! by itself, so that quantiles can be told. The works report the least mean of their trials
//! (Strong 2013, Sec 3.3; Mogul 2007, Sec 5.5), which on a shared machine says when it was left
//! alone: here medians are told, how far those of the trials spread, and no quotient of what
//! spreads too far.

mod hand;
mod kernel;
mod memory;
mod own;
mod rounds;
mod wait;

use serde::Serialize;

use halfwink_live::clock::{self, Rate};
use halfwink_live::sys::CpuSet;

pub use rounds::Rounds;

/// Amount of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Trials of each item.
    pub trials: u32,
    /// Repetitions in a trial.
    pub repetitions: u32,
    /// Time of each item, at most, in nanoseconds.
    pub item_ns: u64,
}

/// CPUs and clock of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// CPU of the side that measures.
    pub here: u32,
    /// CPU of the other side; none if only one is allowed.
    pub there: Option<u32>,
    /// Amount of measurement.
    pub limits: Limits,
    rate: Rate,
    /// Ticks that two readings of the counter are apart at least.
    reading: u64,
}

/// Result of one item.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the item.
    pub name: &'static str,
    /// Operation that is repeated.
    pub what: &'static str,
    /// The numbers, or what is missing.
    #[serde(flatten)]
    pub found: Found,
}

/// Outcome of an item.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Found {
    /// The item was measured.
    Times(Times),
    /// The item could not be measured.
    Missing {
        /// Reason in one line.
        missing: String,
    },
}

/// Nanoseconds of one repetition.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// Repetitions, of all trials.
    pub repetitions: u64,
    /// Number of trials.
    pub trials: u32,
    /// Shortest time, in nanoseconds.
    pub min_ns: f64,
    /// Median time, in nanoseconds.
    pub p50_ns: f64,
    /// 90th percentile, in nanoseconds.
    pub p90_ns: f64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: f64,
    /// Longest time, in nanoseconds.
    pub max_ns: f64,
    /// Mean time, in nanoseconds.
    pub mean_ns: f64,
    /// Distance from the 10th to the 90th percentile of the trials' medians, in per cent of the
    /// median.
    pub spread_pct: f64,
}

/// Results of all items.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// CPU of the side that measures.
    pub here: u32,
    /// CPU of the other side.
    pub there: Option<u32>,
    /// Rate of the time-stamp counter.
    pub counter_ghz: f64,
    /// Whether that counter keeps its rate.
    pub counter_is_constant: bool,
    /// Results of the items, in order.
    pub rows: Vec<Row>,
    /// Quotients that say something about the machine or about us.
    pub ratios: Vec<Ratio>,
}

/// A quotient of two rows.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Names of dividend and divisor.
    pub of: [&'static str; 2],
    /// Quotient of their medians; none if one of them spreads too far to say anything.
    pub of_medians: Option<f64>,
    /// The larger spread of the two.
    pub spread_pct: f64,
}

/// Quotients that are told: our hand-off against the limit, and what the rest costs beside it.
const RATIOS: [[&str; 2]; 4] = [
    ["mailbox", "cache-line"],
    ["futex", "mailbox"],
    ["migration", "mailbox"],
    ["wake-up", "mailbox"],
];

/// Spread of trials up to which a quotient says something about the machine, and not about what
/// else runs on it.
pub const MOST_SPREAD_PCT: f64 = 20.0;

/// Rounds over all items, between which the trials are shared out.
const ROUNDS: u32 = 4;

/// One thing to be measured.
struct Item {
    name: &'static str,
    what: &'static str,
    run: fn(&Bench) -> Result<Rounds, String>,
}

const fn item(
    name: &'static str,
    what: &'static str,
    run: fn(&Bench) -> Result<Rounds, String>,
) -> Item {
    Item { name, what, run }
}

const ITEMS: [Item; 22] = [
    item("counter", "two readings of the time-stamp counter", own::counter),
    item("decision", "one decision of the predicted policy", own::decision),
    item("learning", "one decision, and learning how long the call was", own::learning),
    item("system-call", "getppid", own::system_call),
    item("cache-line", "one line to the other CPU and back, both spinning", hand::cache_line),
    item("mailbox", "an empty call through the mailbox, both spinning", hand::mailbox),
    item("mailbox-call", "getppid through the mailbox, both spinning", hand::mailbox_call),
    item(
        "mailbox-yield",
        "an empty call, both giving their CPU away between looks",
        hand::yielding,
    ),
    item("monitor-wait", "one line and back, both waiting in hardware", wait::monitor),
    item("futex", "a futex wake-up to the other CPU and one back", hand::futex),
    item("eventfd", "an eventfd to the other CPU and one back", hand::eventfd),
    item("context-switch", "a futex wake-up and one back on one CPU: two switches", hand::one_cpu),
    item("io-uring", "a no-op by io_uring, entered by a system call", kernel::uring_enter),
    item("io-uring-poll", "a no-op by io_uring, its kernel thread polling", kernel::uring_poll),
    item("affinity", "two calls of sched_setaffinity that move nothing", kernel::affinity),
    item("migration", "to the other CPU, getppid there, and back", kernel::migration),
    item("wake-up", "an empty call through the mailbox, worker asleep for 2 ms", kernel::wake_up),
    item("warm-32k", "reading 32 KiB of one's own", memory::warm_first),
    item("cold-32k", "the same, after the other CPU wrote them", memory::cold_first),
    item("warm-1m", "reading 1 MiB of one's own", memory::warm_second),
    item("cold-1m", "the same, after the other CPU wrote it", memory::cold_second),
    item("delegated-read", "pread of 4 KiB through the mailbox", hand::delegated_read),
];

/// Returns whether the processor lets programs wait for a cache line.
#[must_use]
pub fn waits_in_hardware() -> bool {
    wait::available().is_some()
}

/// Names of all items.
pub fn names() -> impl Iterator<Item = &'static str> {
    ITEMS.iter().map(|item| item.name)
}

impl Bench {
    /// Prepares to measure between two CPUs.
    #[must_use]
    pub fn new(here: u32, there: Option<u32>, limits: Limits) -> Bench {
        // The least of many readings is one that no interrupt has disturbed.
        let reading = (0..10_000).map(|_| {
            let before = clock::ticks();
            clock::ticks() - before
        });
        let reading = reading.min().unwrap_or(0);
        Bench { here, there, limits, rate: Rate::measure(), reading }
    }

    /// Measures all items whose names `wanted` likes.
    #[must_use]
    pub fn run(&self, wanted: impl Fn(&str) -> bool) -> Measured {
        let items: Vec<&Item> = ITEMS.iter().filter(|item| wanted(item.name)).collect();
        // In rounds: what disturbs for a while then disturbs a part of each item, not all of one.
        let mut bench = *self;
        bench.limits.trials = self.limits.trials.div_ceil(ROUNDS);
        bench.limits.item_ns = self.limits.item_ns / u64::from(ROUNDS);
        let mut found: Vec<Option<Result<Rounds, String>>> = items.iter().map(|_| None).collect();
        for _ in 0..ROUNDS {
            for (item, before) in items.iter().zip(&mut found) {
                *before = match before.take() {
                    None => Some(bench.measure(item)),
                    Some(Ok(rounds)) => Some(bench.measure(item).map(|more| rounds.and(more))),
                    Some(Err(missing)) => Some(Err(missing)),
                };
            }
        }
        let rows = items.iter().zip(found);
        let rows = rows.filter_map(|(item, found)| Some(self.row(item, found?)));
        let rows: Vec<Row> = rows.collect();
        let times = |name: &str| {
            rows.iter().find(|row| row.name == name).and_then(|row| match &row.found {
                // A median below the reading of the counter is 0, and divides nothing.
                Found::Times(times) if times.p50_ns > 0.0 => Some(times),
                _ => None,
            })
        };
        let ratio = |of: &[&'static str; 2]| {
            let (over, under) = (times(of[0])?, times(of[1])?);
            let spread_pct = over.spread_pct.max(under.spread_pct);
            let is_steady = spread_pct <= MOST_SPREAD_PCT;
            let of_medians = is_steady.then(|| over.p50_ns / under.p50_ns);
            Some(Ratio { of: *of, of_medians, spread_pct })
        };
        let ratios = RATIOS.iter().filter_map(ratio).collect();
        Measured {
            here: self.here,
            there: self.there,
            counter_ghz: self.rate.ghz(),
            counter_is_constant: clock::is_constant(),
            rows,
            ratios,
        }
    }

    /// Measures in a thread of its own, so that the caller's affinity stays unchanged.
    fn measure(&self, item: &Item) -> Result<Rounds, String> {
        let done = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    CpuSet::one(self.here)
                        .pin()
                        .map_err(|_| format!("CPU {} is not allowed", self.here))?;
                    (item.run)(self)
                })
                .join()
        });
        done.unwrap_or_else(|_| Err("it failed".to_owned()))
    }

    fn row(&self, item: &Item, found: Result<Rounds, String>) -> Row {
        let found = match found {
            Ok(rounds) => rounds.times(self.rate, self.reading).map_or_else(
                || Found::Missing { missing: "no repetition ended in time".to_owned() },
                Found::Times,
            ),
            Err(missing) => Found::Missing { missing },
        };
        Row { name: item.name, what: item.what, found }
    }

    /// Returns the other CPU.
    fn there(&self) -> Result<u32, String> {
        self.there.ok_or_else(|| "needs two CPUs; this process may use one".to_owned())
    }

    /// Repeats `once`, timing each repetition.
    fn repeat(&self, mut once: impl FnMut()) -> Rounds {
        self.repeat_ticks(|| {
            let begun = clock::ticks();
            once();
            clock::ticks() - begun
        })
    }

    /// Repeats `once`, which says how many ticks it took.
    fn repeat_ticks(&self, mut once: impl FnMut() -> u64) -> Rounds {
        let limit = self.rate.ticks(self.limits.item_ns);
        let begun = clock::ticks();
        let mut rounds = Rounds::new(self.limits);
        // What comes first is not what comes always.
        for _ in 0..(self.limits.repetitions / 10).max(3) {
            once();
            // At least three quarters of the time are for trials, however slow an item is.
            if clock::ticks() - begun > limit / 4 {
                break;
            }
        }
        for _ in 0..self.limits.trials {
            for _ in 0..self.limits.repetitions {
                rounds.add(once());
                if clock::ticks() - begun > limit {
                    return rounds;
                }
            }
            rounds.end_trial();
        }
        rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured_or_says_why_not() {
        let mut cpus = CpuSet::allowed();
        let all: Vec<u32> = cpus.iter().collect();
        let limits = Limits { trials: 2, repetitions: 200, item_ns: 200_000_000 };
        let bench = Bench::new(all[0], all.get(1).copied(), limits);
        let measured = bench.run(|_| true);
        assert_eq!(measured.rows.len(), names().count());
        for row in &measured.rows {
            match &row.found {
                Found::Times(t) => {
                    assert!(t.repetitions > 0, "{}", row.name);
                    let ordered = [t.min_ns, t.p50_ns, t.p90_ns, t.p99_ns, t.max_ns];
                    assert!(ordered.is_sorted(), "{}: {ordered:?}", row.name);
                    assert!(t.spread_pct >= 0.0, "{}", row.name);
                }
                Found::Missing { missing } => assert!(!missing.is_empty(), "{}", row.name),
            }
        }
        // The caller stays where it was.
        assert_eq!(std::mem::take(&mut cpus), CpuSet::allowed());
    }

    #[test]
    fn one_cpu_says_so() {
        let here = CpuSet::allowed().iter().next().unwrap();
        let limits = Limits { trials: 1, repetitions: 10, item_ns: 10_000_000 };
        let measured = Bench::new(here, None, limits).run(|name| name == "mailbox");
        let Found::Missing { missing } = &measured.rows[0].found else { panic!() };
        assert_eq!(missing, "needs two CPUs; this process may use one");
        assert!(measured.ratios.is_empty());
    }
}
