//! What a device has done, for people and programs. Times are measured; there are no joules: no
//! model here knows what a CPU draws.

use halfwink_engine::{Cause, Histogram, Mode, Row, State};
use halfwink_live::program::ledger::{self, Account, Balance, Length};
use halfwink_live::{clock::ticks, program::report::Latency, program::stand_in::PolicyFaults};
use halfwink_policy::completion::{Hears, Queues};
use halfwink_units::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Instant;

use crate::backend::{Backend, Way};
use crate::conn::Counts;
use crate::control::Control;
use crate::meter::Count;
use crate::ring::Counters;
use crate::server::Connections;
use crate::sync::Synced;
use crate::worker::Post;

/// Report of a server.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Since its start, in seconds.
    pub duration_s: f64,
    /// CPU time of the process.
    pub cpu_s: f64,
    /// Bytes of the device.
    pub size_bytes: u64,
    /// CPU to which the policy has completions signalled: `one`, `issuer`, `polled`.
    pub hears: &'static str,
    /// Queues that the policy has above the device: `one`, `each-cpu`. Requests arrive in
    /// connections here, so it changes nothing.
    pub queues: &'static str,
    /// State of the policy.
    pub policy_state: BTreeMap<&'static str, i64>,
    /// Faults of policies in files.
    #[serde(flatten)]
    pub faults: PolicyFaults,
    /// Number of requests by kind.
    pub requests: Counts,
    /// Replies that said why not.
    pub errors: u64,
    /// Time from reading a request to handing its reply to the kernel.
    pub latency: Latency,
    /// Flushes of the device, for flushes and for what was to be on stable storage at once.
    pub flushes: Flushes,
    /// Connections, where requests come in some.
    pub connections: Option<Connections>,
    /// Way in which the device's bytes are moved.
    pub io: IoReport,
    /// Stages of all I/Os.
    pub stages: BTreeMap<&'static str, Stage>,
    /// Report of each thread.
    pub workers: Vec<WorkerReport>,
    /// Ledger of the threads' time.
    pub ledger: Balance,
}

/// Flushes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flushes {
    /// Number of flushes.
    pub count: u64,
    /// Requests that they answered.
    pub answered: u64,
    /// Number of failed flushes.
    pub failed: u64,
    /// Duration of a flush.
    pub took: Latency,
}

/// Way in which the device's bytes are moved, and counters of the rings. Writes into the page
/// cache, parts of pages and requests longer than 64 KiB use calls in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IoReport {
    /// Way that was chosen, and the reason if it differs from the request.
    #[serde(flatten)]
    pub way: Way,
    /// I/Os that went through rings.
    pub ringed: u64,
    /// Number of these that bypassed the page cache.
    pub past_cache: u64,
    /// Reads by a call of their own, of what the page cache had: a read alone is had sooner so.
    pub at_once: u64,
    /// Calls into the kernel for what went through rings.
    pub enters: u64,
    /// Number of these that came back unfinished, and were completed by a call.
    pub again: u64,
    /// Writes of parts of pages, which held up those past the page cache.
    pub parts: u64,
}

/// Time of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Time in all.
    pub time_s: f64,
    /// Time for each I/O.
    pub ns_per_io: Option<f64>,
    /// Share of all stages.
    pub share_pct: Option<f64>,
}

/// Times of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerReport {
    /// CPU that the thread is pinned to.
    pub cpu: Option<u32>,
    /// Time in which the kernel had the CPU for other threads.
    pub sleeping_s: f64,
    /// Time spent polling without finding work.
    pub polling_s: f64,
    /// Time spent serving.
    pub working_s: f64,
    /// Sleeps that something ended.
    pub wakes: u64,
    /// Times that a socket had something.
    pub batches: u64,
    /// I/Os that it read and completed.
    pub here: u64,
    /// I/Os that others gave it.
    pub given: u64,
    /// I/Os that it was to give away, but the other's mailbox was full.
    pub overflowed: u64,
}

/// Sources of a report.
pub(crate) struct Measured<'a> {
    pub(crate) control: &'a Control,
    pub(crate) backend: &'a dyn Backend,
    pub(crate) posts: &'a [Post],
    pub(crate) synced: Synced,
    pub(crate) connections: Option<Connections>,
    /// Times before and after the start.
    pub(crate) begun: [Instant; 2],
}

impl Report {
    pub(crate) fn of(shared: &Measured<'_>) -> Report {
        let clock = &shared.control.clock;
        let time = |count: &Count| clock.span(count.get());
        let (accounts, length) = Length::while_reading(shared.begun, || accounts(shared));
        let ledger = ledger::close(length, accounts, None);
        let (mut requests, mut latency) = (Counts::default(), Histogram::default());
        let mut workers = Vec::new();
        let mut sums: [(&'static str, Time); 5] =
            ["read", "decode", "backend", "hand-off", "reply"].map(|name| (name, Time::ZERO));
        let mut errors = 0;
        for post in shared.posts {
            let slow = post.slow.lock().unwrap_or_else(PoisonError::into_inner);
            requests.add(&slow.counts);
            latency.add(&slow.latency);
            let m = &post.meter;
            let s = &m.stages;
            for (sum, stage) in
                sums.iter_mut().zip([&s.read, &s.decode, &s.backend, &s.hand_off, &s.reply])
            {
                sum.1 += time(stage);
            }
            errors += m.errors.get();
            let [sleeping_s, polling_s, working_s] =
                m.times.until(ticks()).map(|ticks| clock.span(ticks).as_s());
            workers.push(WorkerReport {
                cpu: post.cpu,
                sleeping_s,
                polling_s,
                working_s,
                wakes: m.wakes.get(),
                batches: m.batches.get(),
                here: m.here.get(),
                given: m.given.get(),
                overflowed: m.overflowed.get(),
            });
        }
        let synced = &shared.synced;
        let ios: u64 = workers.iter().map(|w| w.here + w.given).sum();
        Report {
            duration_s: ledger.duration_s,
            cpu_s: cpu_s(),
            size_bytes: shared.backend.size(),
            hears: match shared.control.ways.hears {
                Hears::One => "one",
                Hears::Issuer => "issuer",
                Hears::Polled => "polled",
            },
            queues: match shared.control.ways.queues {
                Queues::One => "one",
                Queues::EachCpu => "each-cpu",
            },
            policy_state: shared.control.snapshot().into_iter().collect(),
            faults: shared.control.faults(),
            requests,
            errors: errors + synced.failed,
            latency: Latency::of(&latency),
            flushes: Flushes {
                count: synced.flushes,
                answered: synced.answered,
                failed: synced.failed,
                took: Latency::of(&synced.took),
            },
            connections: shared.connections,
            io: io_report(shared),
            stages: stages(&sums, ios),
            workers,
            ledger,
        }
    }
}

fn io_report(shared: &Measured<'_>) -> IoReport {
    let sum = |which: fn(&Counters) -> &Count| {
        shared.posts.iter().map(|post| which(&post.ring).get()).sum()
    };
    IoReport {
        way: shared.backend.way(),
        ringed: sum(|ring| &ring.ios),
        past_cache: sum(|ring| &ring.direct),
        at_once: sum(|ring| &ring.at_once),
        enters: sum(|ring| &ring.enters),
        again: sum(|ring| &ring.again),
        parts: sum(|ring| &ring.parts),
    }
}

fn stages(sums: &[(&'static str, Time)], ios: u64) -> BTreeMap<&'static str, Stage> {
    let all: f64 = sums.iter().map(|(_, time)| time.as_s()).sum();
    let stage = |&(name, time): &(&'static str, Time)| {
        let time_s = time.as_s();
        let ns_per_io = (ios > 0).then(|| time_s * 1e9 / ios as f64);
        let share_pct = (all > 0.0).then(|| 100.0 * time_s / all);
        (name, Stage { time_s, ns_per_io, share_pct })
    };
    sums.iter().map(stage).collect()
}

/// Returns the times of each thread; no joules, as no power model applies.
fn accounts(shared: &Measured<'_>) -> Vec<Account> {
    let clock = &shared.control.clock;
    let account = |(number, post): (usize, &Post)| {
        let [sleeping, polling, working] = post.meter.times.until(ticks());
        let row = |state, mode, reason, ticks| {
            let row = Row { time: clock.span(ticks), ..Row::default() };
            (State(state), Cause { mode, reason }, row)
        };
        Account::of(
            format!("worker{number}"),
            vec![
                row("sleeping", Mode::Idle, "nothing-to-do", sleeping),
                row("polling", Mode::Idle, "nothing-found", polling),
                row("working", Mode::User, "requests", working),
            ],
        )
    };
    shared.posts.iter().enumerate().map(account).collect()
}

/// CPU time of this process, user and system.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is the caller's.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
