//! What a router has done, for people and programs. All times are measured here.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use halfwink_engine::Histogram;
use halfwink_live::program::ledger::Length;
use halfwink_live::program::report::Latency;
use halfwink_live::program::stand_in::PolicyFaults;
use serde::Serialize;

use super::config::Forward;
use super::meter::Residency;
use super::sync::locked;
use super::user::UserSpace;

/// Counts and times since the start.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Since the start, in seconds.
    pub duration_s: f64,
    /// Range of the length, given the time that the reading took.
    #[serde(skip)]
    pub length: Length,
    /// Frames taken from sockets.
    pub received: u64,
    /// Frames sent, with those that the router made itself.
    pub sent: u64,
    /// Frames that the kernel dropped before they could be taken.
    pub lost: u64,
    /// Frames whose queue was full.
    pub overflowed: u64,
    /// Frames that no socket took.
    pub unsent: u64,
    /// Counters of the forwarders, by name.
    pub packets: BTreeMap<String, u64>,
    /// Time from taking a frame off its socket until it was sent; time in the kernel is not
    /// included.
    pub latency: Latency,
    /// Reports of the ports, in the order of the description.
    pub ports: Vec<PortReport>,
    /// Workers; the first is the receiver.
    pub workers: Vec<WorkerReport>,
    /// Changes of cores or P-state.
    pub changes: u64,
    /// Entries of the redirect table that moved.
    pub moves: u64,
    /// The P-state that was asked for last, from the slowest.
    pub step: u32,
    /// State of the policy, by name.
    pub policy: BTreeMap<&'static str, i64>,
    /// Faults of policies in files.
    #[serde(flatten)]
    pub faults: PolicyFaults,
    /// Times that the clock stepped back, and stood still for the policy.
    pub steps_back: u64,
    /// Reason why sequence numbers of ESP could not be recorded the last time; null if they could.
    pub unrecorded: Option<String>,
    /// Datagrams with flows that were sent.
    pub exported: u64,
    /// Datagrams that could not be sent.
    pub unexported: u64,
    /// Place where packets are forwarded, and its own counts.
    pub forward: By,
}

/// Place where packets are forwarded, and what its control has done.
#[derive(Clone, Debug, Serialize)]
pub struct By {
    /// Value of `forward` in a description: `user-space` or `xdp`.
    pub forwarded_by: Forward,
    /// Looks at the kernel's counters; each is a wake-up. None in user space, where workers look.
    pub looks: u64,
    /// Rests that the policy requested at looks; the kernel's idle governor chooses the state.
    pub rests: u64,
    /// Moves of entries that a frame has followed, counted by each receiving CPU.
    pub followed: u64,
    /// Moves that did not wait for the old CPU, since it did not come to an end.
    pub forced: u64,
    /// Clocks that busy times are read from.
    pub busy_from: &'static str,
}

/// Report of a port.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// Name of the interface.
    pub interface: String,
    /// Interface to the kernel that was opened.
    pub io: &'static str,
    /// Number of queues in use.
    pub queues: usize,
    /// Whether the interface is present.
    pub up: bool,
    /// Times that it went away.
    pub gone: u64,
    /// Frames taken from it.
    pub received: u64,
    /// Frames sent by it.
    pub sent: u64,
    /// Frames that it did not take.
    pub unsent: u64,
    /// Frames that the kernel dropped before they could be taken.
    pub lost: u64,
    /// Frames that came cut off, since they were longer than 1,600 bytes; dropped as `short`.
    pub too_long: u64,
}

/// Report of a worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerReport {
    /// Whether it is parked, and gets no frames.
    pub parked: bool,
    /// Number of frames served.
    pub served: u64,
    /// Number of frames waiting.
    pub waiting: u64,
    /// Number of batches.
    pub passes: u64,
    /// Times that it went to sleep.
    pub sleeps: u64,
    /// Times in its states.
    pub residency: Residency,
    /// Processor time of its thread, in seconds.
    pub cpu_s: f64,
}

pub(super) fn of(router: &UserSpace) -> Report {
    let seen: Vec<_> = router.seen.iter().map(|s| locked(s).clone()).collect();
    let mut packets = BTreeMap::new();
    let mut latency = Histogram::default();
    for worker in &seen {
        latency.add(&worker.latency);
        for (name, count) in &worker.counters {
            *packets.entry(name.clone()).or_default() += count;
        }
    }
    let by_port = |n: usize, of: fn(&super::worker::Seen) -> &Vec<u64>| -> u64 {
        seen.iter().filter_map(|s| of(s).get(n)).sum()
    };
    let ports: Vec<PortReport> = locked(&router.ports)
        .iter()
        .enumerate()
        .map(|(n, port)| PortReport {
            interface: port.interface.clone(),
            io: port.io.name(),
            queues: port.queues,
            up: port.up,
            gone: port.gone,
            received: port.received,
            sent: by_port(n, |s| &s.sent),
            unsent: by_port(n, |s| &s.unsent),
            lost: port.lost,
            too_long: port.too_long,
        })
        .collect();
    let (workers, length) = Length::while_reading(router.began, || {
        (0..seen.len()).map(|n| worker(router, n, seen[n].passes)).collect()
    });
    let steering = &router.steering;
    let (policy, steps_back) = router.common.control.snapshot();
    Report {
        duration_s: length.most.as_s(),
        length,
        received: ports.iter().map(|p| p.received).sum(),
        sent: ports.iter().map(|p| p.sent).sum(),
        lost: ports.iter().map(|p| p.lost).sum(),
        overflowed: steering.overflowed.load(Ordering::Relaxed),
        unsent: ports.iter().map(|p| p.unsent).sum(),
        packets,
        latency: Latency::of(&latency),
        ports,
        workers,
        changes: steering.changes.load(Ordering::Relaxed),
        moves: steering.moves.load(Ordering::Relaxed),
        step: steering.step.load(Ordering::Relaxed),
        policy: policy.into_iter().collect(),
        faults: router.common.control.faults(),
        steps_back,
        unrecorded: router.keeper.problem(),
        exported: seen.iter().map(|s| s.exported[0]).sum(),
        unexported: seen.iter().map(|s| s.exported[1]).sum(),
        forward: By {
            forwarded_by: Forward::UserSpace,
            looks: 0,
            rests: 0,
            followed: 0,
            forced: 0,
            busy_from: "clocks of the workers",
        },
    }
}

fn worker(router: &UserSpace, n: usize, passes: u64) -> WorkerReport {
    let (standing, meter) = (&router.standings[n], &router.meters[n]);
    let served = standing.done.load(Ordering::Acquire);
    WorkerReport {
        parked: standing.parked.load(Ordering::Relaxed),
        served,
        waiting: standing.put.load(Ordering::Relaxed).saturating_sub(served),
        passes,
        sleeps: meter.times_asleep(),
        residency: meter.residency(),
        cpu_s: meter.cpu_s(),
    }
}
