//! Response times with and without pages, and how they are told.

use serde::Serialize;

use crate::statistics::{sign_test, Summary};

/// Place of dropped pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages are in memory, but not mapped: faults are minor.
    Unmapped,
    /// The process's own memory only on the disk.
    Evicted,
}

impl Kind {
    /// Both kinds, in order.
    pub const ALL: [Kind; 2] = [Kind::Unmapped, Kind::Evicted];

    /// Returns the name that tables use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Unmapped => "unmapped",
            Kind::Evicted => "own memory on disk",
        }
    }
}

/// Preparation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Other requests just before it.
    Warm,
    /// The process was stopped and went on; nothing was dropped.
    Stopped,
    /// The pages of the process were dropped.
    Dropped,
    /// Pages were dropped, and the recording was replayed as the request arrived: the time includes
    /// both.
    Replayed,
    /// Pages were dropped, and the recording was replayed when the request was announced.
    Ahead,
    /// Pages were dropped, and another request on another connection came before.
    Sham,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Class; 6] =
        [Class::Warm, Class::Stopped, Class::Dropped, Class::Replayed, Class::Ahead, Class::Sham];
}

/// Time and faults of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub us: f64,
    pub minor: u64,
    pub major: u64,
}

/// A class: quantiles of its response times in microseconds, and its faults.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Class of the requests.
    pub class: Class,
    /// Response times of the class.
    #[serde(flatten)]
    pub summary: Summary,
    /// Faults of a request in the mean, of which none waits for a disk.
    pub minor_faults: f64,
    /// And of which each does.
    pub major_faults: f64,
}

/// Response times after one kind of drop.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Name of the place of dropped pages.
    pub kind: &'static str,
    /// Response times by class.
    pub classes: Vec<Row>,
    /// Share of the median penalty (dropped less warm) that a replay at the request removes.
    pub removed_by_replay: f64,
    /// Share that a replay ahead of the request removes.
    pub removed_ahead: f64,
    /// And by a sham request.
    pub removed_by_sham: f64,
    /// Sign tests of pairs, the former below the latter.
    pub p_stopped_dropped: f64,
    /// Sign test of warm below ahead; see `p_stopped_dropped`.
    pub p_warm_ahead: f64,
    /// Sign test of replayed below dropped; see `p_stopped_dropped`.
    pub p_replayed_dropped: f64,
    /// Sign test of ahead below dropped; see `p_stopped_dropped`.
    pub p_ahead_dropped: f64,
    /// Sign test of sham below ahead; see `p_stopped_dropped`.
    pub p_sham_ahead: f64,
}

pub(super) fn table(kind: Kind, samples: &[Vec<Sample>]) -> Table {
    let times: Vec<Vec<f64>> = samples.iter().map(|s| s.iter().map(|s| s.us).collect()).collect();
    let row = |class: Class| {
        let all = &samples[class as usize];
        let mean = |of: fn(&Sample) -> u64| {
            all.iter().map(of).sum::<u64>() as f64 / all.len().max(1) as f64
        };
        let summary = Summary::of(&times[class as usize]);
        Row { class, summary, minor_faults: mean(|s| s.minor), major_faults: mean(|s| s.major) }
    };
    let classes: Vec<Row> = Class::ALL.into_iter().map(row).collect();
    let p50 = |class: Class| classes[class as usize].summary.p50.value;
    let penalty = p50(Class::Dropped) - p50(Class::Warm);
    let removed = |class| (p50(Class::Dropped) - p50(class)) / penalty;
    let test = |a: Class, b: Class| sign_test(&times[a as usize], &times[b as usize]);
    Table {
        kind: kind.name(),
        removed_by_replay: removed(Class::Replayed),
        removed_ahead: removed(Class::Ahead),
        removed_by_sham: removed(Class::Sham),
        p_stopped_dropped: test(Class::Stopped, Class::Dropped),
        p_warm_ahead: test(Class::Warm, Class::Ahead),
        p_replayed_dropped: test(Class::Replayed, Class::Dropped),
        p_ahead_dropped: test(Class::Ahead, Class::Dropped),
        p_sham_ahead: test(Class::Sham, Class::Ahead),
        classes,
    }
}
