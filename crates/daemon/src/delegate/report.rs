//! The report of a program under delegation, and its page of metrics.

use halfwink_live::program::rapl::Measured;
use halfwink_live_delegate::report::Report as LiveReport;
use serde::Serialize;

use crate::openmetrics::{meters, Count, Page};

/// Report of a program under delegation.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Counts and times, measured; joules of cores of unlike size, modelled.
    #[serde(flatten)]
    pub live: LiveReport,
    /// Exit status of the program: 128 and the signal's number if a signal ended it; null while it
    /// runs.
    pub status: Option<u8>,
    /// Joules and watts of this machine, with all that runs on it, by meters that it has.
    pub measured: Measured,
}

const COUNTS: [Count<Report>; 6] = [
    ("process_images", "Programs that loaded the library, and forks", |r| r.live.process_images),
    ("threads", "Threads that made a call", |r| r.live.threads),
    ("uncounted_threads", "Threads without room, which ran uncounted and unmoved", |r| {
        r.live.uncounted_threads
    }),
    ("workers", "Threads on the OS CPU that were started", |r| r.live.workers),
    ("worker_wakes", "Times that a sleeping worker was woken", |r| r.live.hand_off.worker_wakes),
    ("log_dropped_events", "Events that came when the log was full", |r| r.live.log_dropped),
];

impl Report {
    /// Returns the report as OpenMetrics text.
    #[must_use]
    pub fn metrics(&self) -> String {
        let mut page = Page::default();
        page.counts("halfwink_delegate", &COUNTS, self);
        let help = "System calls of the program, by name and by where they were made";
        let mut calls = page.counter("halfwink_delegate_calls", help);
        for call in &self.live.calls {
            let mut add = |place, count| calls.add(&[("call", call.name), ("place", place)], count);
            add("delegated", call.delegated);
            add("stayed", call.stayed);
            add("refused", call.refused.values().sum());
        }
        let help = "Time of calls on the OS CPU";
        page.counter("halfwink_delegate_worked_seconds", help)
            .add(&[], self.live.residency.os_cpu_worked_s);
        meters(&mut page, &self.measured);
        page.end()
    }
}
