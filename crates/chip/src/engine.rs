//! Agents that are no core: a preheating engine beside memory, and devices.
//!
//! What they do is known when a run begins, so their requests wait in the one queue of the shared
//! levels from the start, and are served between those of the cores in the order of arrival.

use std::collections::VecDeque;

use halfwink_units::Time;

use crate::agent::Agent;
use crate::memory::ReadNews;
use crate::uncore::{Request, Served, Uncore, Want};

/// Counters of the agents of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounts {
    /// Lines that the preheating engine asked for.
    pub lines: u64,
    /// Number of these that were not in the third level.
    pub loaded: u64,
    /// Time at which the last of its lines was present.
    pub ended: Time,
    /// Lines that devices wrote.
    pub device_writes: u64,
}

/// The agents of a run.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) counts: EngineCounts,
    /// Times of device writes that were not served yet.
    devices: VecDeque<Time>,
}

impl Engine {
    /// Brings these lines into the third level, one each `interval` from `start` on.
    pub(crate) fn preheat(
        &mut self,
        lines: &[u64],
        start: Time,
        interval: Time,
        uncore: &mut Uncore,
    ) {
        for (n, &line) in lines.iter().enumerate() {
            let at = start + interval * n as u64;
            self.counts.lines += 1;
            push(uncore, Agent::PREHEATER, at, line, Want::Preheat);
        }
    }

    /// A device writes this line at `at`, into the third level if it may `stash`. Writes come in
    /// the order of time.
    pub(crate) fn device_writes(&mut self, line: u64, at: Time, stash: bool, uncore: &mut Uncore) {
        debug_assert!(self.devices.back().is_none_or(|last| *last <= at), "in the order of time");
        self.devices.push_back(at);
        self.counts.device_writes += 1;
        let want = if stash { Want::Stash } else { Want::DeviceWrite };
        push(uncore, Agent::DEVICE, at, line, want);
    }

    /// Returns the time at which a device next snoops caches: no core may be further.
    pub(crate) fn next_device(&mut self, uncore: &Uncore) -> Time {
        // What waits to be served is the queue's first, or behind it.
        while self.devices.front().is_some_and(|&at| at < uncore.next_time()) {
            self.devices.pop_front();
        }
        self.devices.front().copied().unwrap_or(Time::NEVER)
    }

    pub(crate) fn served(&mut self, served: &Served) {
        match served {
            Served::Answered(answer) => self.counts.ended = self.counts.ended.max(answer.at),
            Served::Missed(_) => self.counts.loaded += 1,
        }
    }

    pub(crate) fn hears(&mut self, news: &ReadNews) {
        if let ReadNews::Done { answer, .. } = news {
            self.counts.ended = self.counts.ended.max(answer.at);
        }
    }
}

fn push(uncore: &mut Uncore, agent: Agent, at: Time, line: u64, want: Want) {
    uncore.push(at, Request { agent, number: 0, line, want, kernel: true, issued: at });
}
