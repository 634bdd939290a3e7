//! What a switch and its hosts have counted, for people and programs. All of it is measured.

use halfwink_engine::Histogram;
use halfwink_policy::circuits::sync::Refused;
use halfwink_units::Time;
use serde::Serialize;

use crate::circuits::Violations;
use crate::port::Lost;

/// Times of many things, in microseconds; null if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many.
    pub count: u64,
    /// The shortest that 1 of 100 did not exceed.
    pub p1_us: Option<f64>,
    /// Half of them were no longer.
    pub p50_us: Option<f64>,
    /// 90 of 100 were no longer.
    pub p90_us: Option<f64>,
    /// 99 of 100 were no longer.
    pub p99_us: Option<f64>,
    /// The longest.
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

/// What a switch counted since its counts were last set to zero.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwitchReport {
    /// When this was said, in seconds of the monotonic clock, which all of them share.
    pub at_s: f64,
    /// How long, in seconds.
    pub duration_s: f64,
    /// CPU time of its thread.
    pub cpu_s: f64,
    /// Whether it had real-time priority.
    pub is_realtime: bool,
    /// Slots that began.
    pub slots: u64,
    /// Circuits that came up in them.
    pub circuits: u64,
    /// How long circuits were up, added up over inputs.
    pub up_s: f64,
    /// Time in which it rested, of rests that are over: nobody had anything to send.
    pub rested_s: f64,
    /// Slots that began late, because it did not run in time.
    pub late_slots: u64,
    /// Frames that passed.
    pub forwarded: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Frames that did not.
    pub violations: Violations,
    /// Two senders to one receiver.
    pub overlaps: u64,
    /// Circuits that the policy asked for and cannot be.
    pub refused_joins: u64,
    /// Sync frames sent.
    pub syncs: u64,
    /// Replies heard.
    pub replies: u64,
    /// Sync frames not heeded.
    pub refused: Refused,
    /// Hosts that were lost, and that came back.
    pub lost_hosts: u64,
    /// See there.
    pub back_hosts: u64,
    /// Hosts that are lost now.
    pub lost_now: Vec<u16>,
    /// Frames that sockets lost.
    pub lost: Lost,
    /// From a day's begin until its sync frames were on their way.
    pub sync_late: Quantiles,
    /// Guard time that was left: from the end of a day's last frame to the end of the day.
    pub guard: Quantiles,
}

/// What a host counted since its counts were last set to zero.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostReport {
    /// Its number.
    pub host: u16,
    /// When this was said, in seconds of the monotonic clock, which all of them share.
    pub at_s: f64,
    /// How long, in seconds.
    pub duration_s: f64,
    /// CPU time of its shaper.
    pub cpu_s: f64,
    /// Of that, time in which it waited awake.
    pub spun_s: f64,
    /// Whether it had real-time priority.
    pub is_realtime: bool,
    /// Frames taken from programs.
    pub taken: u64,
    /// Frames sent while their circuit was up.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that came over circuits, for programs.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames whose queue was full.
    pub overflowed: u64,
    /// Frames for nobody: broadcasts, unknown addresses.
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
    /// From a day's begin until its sync frame was handled.
    pub sync: Quantiles,
    /// From a day's begin until the host began to send.
    pub begin: Quantiles,
    /// The load of its own, if it has one.
    pub load: Option<crate::load::LoadReport>,
}
