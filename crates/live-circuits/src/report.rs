//! What a switch and its hosts have counted, for people and programs. All of it is measured.

use halfwink_engine::Histogram;
use halfwink_policy::circuits::sync::Refused;
use halfwink_units::Time;
use serde::Serialize;

use crate::circuits::Violations;
use crate::port::Lost;

/// Moves what a listener has refused to a report.
pub(crate) fn take_refused(report: &mut Refused, from: &mut Refused) {
    let Refused { malformed, foreign, replayed } = std::mem::take(from);
    report.malformed += malformed;
    report.foreign += foreign;
    report.replayed += replayed;
}

/// Times of many things, in microseconds; null if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// The shortest that 1 of 100 did not exceed.
    pub p1_us: Option<f64>,
    /// Half of them were no longer.
    pub p50_us: Option<f64>,
    /// 90 of 100 were no longer.
    pub p90_us: Option<f64>,
    /// 99 of 100 were no longer.
    pub p99_us: Option<f64>,
    /// Largest value, in microseconds.
    pub max_us: Option<f64>,
}

impl Quantiles {
    /// Sums up a histogram.
    #[must_use]
    pub fn of(all: &Histogram) -> Quantiles {
        let us = |time: Option<Time>| time.map(|t| t.0 as f64 * 1e-6);
        Quantiles {
            count: all.count(),
            p1_us: us(all.quantile(0.01)),
            p50_us: us(all.quantile(0.5)),
            p90_us: us(all.quantile(0.9)),
            p99_us: us(all.quantile(0.99)),
            max_us: us(all.max()),
        }
    }
}

/// Counters of a switch since they were last set to zero.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwitchReport {
    /// Time of the report, in seconds of the monotonic clock, which all processes share.
    pub at_s: f64,
    /// Length of the counted time, in seconds.
    pub duration_s: f64,
    /// CPU time of its thread.
    pub cpu_s: f64,
    /// Whether it had real-time priority.
    pub is_realtime: bool,
    /// Number of slots begun.
    pub slots: u64,
    /// Circuits that came up in them.
    pub circuits: u64,
    /// Time during which circuits were up, summed over inputs.
    pub up_s: f64,
    /// Time of completed rests, in which no host had data to send.
    pub rested_s: f64,
    /// Slots that began late, because it did not run in time.
    pub late_slots: u64,
    /// Number of frames that passed.
    pub forwarded: u64,
    /// Bytes of these frames.
    pub forwarded_bytes: u64,
    /// Frames that did not.
    pub violations: Violations,
    /// Two senders to one receiver.
    pub overlaps: u64,
    /// Circuits that the policy asked for and cannot be.
    pub refused_joins: u64,
    /// Number of sync frames sent.
    pub syncs: u64,
    /// Number of replies received.
    pub replies: u64,
    /// Sync frames not heeded.
    pub refused: Refused,
    /// Hosts that were lost, and that came back.
    pub lost_hosts: u64,
    /// Number of hosts that came back.
    pub back_hosts: u64,
    /// Hosts that are lost now.
    pub lost_now: Vec<u16>,
    /// Frames that sockets lost.
    pub lost: Lost,
    /// Time from a day's begin until its sync frames were sent.
    pub sync_late: Quantiles,
    /// Guard time that was left: from the end of a day's last frame to the end of the day.
    pub guard: Quantiles,
}

/// Counters of a host since they were last set to zero.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostReport {
    /// Number of the host.
    pub host: u16,
    /// Time of the report, in seconds of the monotonic clock, which all processes share.
    pub at_s: f64,
    /// Length of the counted time, in seconds.
    pub duration_s: f64,
    /// CPU time of its shaper.
    pub cpu_s: f64,
    /// Part of that time in which it spun.
    pub spun_s: f64,
    /// Whether it had real-time priority.
    pub is_realtime: bool,
    /// Frames taken from programs.
    pub taken: u64,
    /// Frames sent while their circuit was up.
    pub sent: u64,
    /// Bytes of these frames.
    pub sent_bytes: u64,
    /// Frames that came over circuits, for programs.
    pub received: u64,
    /// Bytes of these frames.
    pub received_bytes: u64,
    /// Frames whose queue was full.
    pub overflowed: u64,
    /// Frames without a receiver: broadcasts, unknown addresses.
    pub for_nobody: u64,
    /// Frames that the device did not take.
    pub untaken: u64,
    /// Bytes that wait now.
    pub waiting_bytes: u64,
    /// Nights, days and rests that were heard of.
    pub syncs: u64,
    /// Sync frames not heeded.
    pub refused: Refused,
    /// Frames that sockets lost.
    pub lost: Lost,
    /// Days on which it had something to send.
    pub days: u64,
    /// Time from a day's begin until its sync frame was handled.
    pub sync: Quantiles,
    /// Time from a day's begin until the host began to send.
    pub begin: Quantiles,
    /// The load of its own, if it has one.
    pub load: Option<crate::load::LoadReport>,
}
