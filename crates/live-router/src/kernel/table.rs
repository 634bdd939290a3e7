//! A redirect table that the kernel executes: what a policy's control needs of it.

use crate::config::Forward;
use crate::report::PortReport;

/// Sums of a table's counters since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Frames that found no room on their way to another CPU.
    pub(super) overflowed: u64,
    /// Frames that were forwarded before the kernel's stack; none where the stack forwards.
    pub(super) forwarded: Option<u64>,
    /// Frames that the kernel's stack got.
    pub(super) passed: u64,
    /// Frames dropped while an entry waited for its old CPU.
    pub(super) held: u64,
    /// Moves that did not wait for the old CPU.
    pub(super) forced: u64,
    /// Moves that a frame followed.
    pub(super) followed: u64,
}

/// Counters of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Frames that it has served.
    pub(super) served: u64,
    /// Frames that others handed to it.
    pub(super) handed: u64,
    /// Frames that wait there, with those that were lost behind the last one that it served.
    pub(super) unserved: u64,
}

/// A redirect table with its CPUs and ports.
pub(super) trait Table: Send + Sync {
    /// Returns the way in which it forwards.
    fn forward(&self) -> Forward;

    /// Points an entry at a CPU; `settle` may make it effective.
    fn redirect(&self, entry: u8, cpu: u32, in_order: bool);

    /// Makes the moves since the last call effective.
    fn settle(&self) {}

    /// Reads the counters of CPUs anew, where that takes a system call.
    fn refresh(&self) {}

    /// Returns the counters of a CPU.
    fn counts(&self, cpu: u32) -> Counts;

    /// Returns the sums of all counters; `waiting` frames are on their way.
    fn sums(&self, waiting: u64) -> Sums;

    /// Follows interfaces that have gone or are back.
    fn look_after(&self);

    /// Returns the reports of the ports.
    fn ports(&self) -> Vec<PortReport>;

    /// Takes no frames any more: the kernel forwards as it did before.
    fn end(&self);
}

/// Reports a port with its counts.
pub(super) fn port(name: &str, io: &'static str, counts: [u64; 3], up: bool) -> PortReport {
    let [received, sent, gone] = counts;
    PortReport {
        interface: name.to_owned(),
        io,
        queues: 0,
        up,
        gone,
        received,
        sent,
        unsent: 0,
        lost: 0,
        too_long: 0,
    }
}
