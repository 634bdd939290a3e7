//! What a CPU issues, and when.

use halfwink_engine::draw::exponential;
use halfwink_engine::Stream;

use super::Setting;
use crate::description::Device;
use crate::device::gap_ps;
use crate::load::{Issues, Request};

/// Source of the I/Os of one CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// I/Os that it has in flight at most.
    pub depth: u32,
    /// Mean time between two I/Os, where rates are limited.
    pub gap: u64,
    /// Whether these times are exponential; otherwise they are even.
    poisson: bool,
    /// Time from the end of an I/O to the next one in its place.
    pub think: u64,
    /// Time for which the device takes no other request after the next I/O.
    pub device: u64,
    /// Position in a trace, if one is replayed.
    open: Option<Open>,
}

/// Position of a CPU in a trace.
#[derive(Clone, Debug)]
struct Open {
    requests: Vec<Request>,
    next: usize,
    /// Start and length of this lap of the trace.
    lap: u64,
    span: u64,
}

impl Source {
    /// Creates the sources of all CPUs that issue.
    pub(super) fn all(setting: &Setting, device: &Device) -> Vec<Source> {
        if let Some(issues) = setting.load {
            return issues.iter().map(|issues| Source::of(issues, device)).collect();
        }
        let issuers = f64::from(setting.issuers);
        let it = Source {
            depth: setting.depth,
            gap: setting.rate.map_or(0, |rate| (issuers / rate * 1e12) as u64),
            poisson: setting.poisson,
            device: gap_ps(device, setting.bytes),
            ..Source::default()
        };
        vec![it; usize::from(setting.issuers)]
    }

    fn of(issues: &Issues, device: &Device) -> Source {
        let depth = issues.depth();
        match issues {
            Issues::Closed(closed) => Source {
                depth,
                gap: closed.rate.map_or(0, |rate| (1e12 / rate) as u64),
                poisson: closed.poisson,
                think: closed.think_ps,
                device: gap_ps(device, closed.bytes),
                open: None,
            },
            Issues::Open { requests, span_ps } => {
                // Requests are only told apart where their bytes are the limit.
                let (requests, span) = (requests.clone(), *span_ps);
                let open = Open { requests, next: 0, lap: 0, span };
                let first = open.requests.first().map_or(0, |first| gap_ps(device, first.bytes));
                Source { depth, device: first, open: Some(open), ..Source::default() }
            }
        }
    }

    /// Returns the time of the first issue, with all first issues spread over `submit` or the gap.
    pub(super) fn first(&self, submit: u64, (number, of): (u64, u64)) -> u64 {
        match &self.open {
            Some(open) => open.requests.first().map_or(0, |first| first.at_ps),
            // Spread, or all CPUs would want the first lock at one time.
            None => self.gap.max(submit).max(1) / of * number,
        }
    }

    /// Returns the request time of an I/O that is issued now, and was due before.
    pub(super) fn asked(&self, due: u64, now: u64) -> u64 {
        // An open trace keeps its own times: an I/O that the CPU could only issue late has waited
        // since it was due, and its latency must say so. A closed loop asks when it issues.
        if self.open.is_some() {
            due
        } else {
            now
        }
    }

    /// Returns the time from which the next I/O may be issued.
    pub(super) fn next(&mut self, due: u64, now: u64, random: &mut Stream) -> u64 {
        if let Some(open) = &mut self.open {
            return open.next();
        }
        let gap = if !self.poisson || self.gap == 0 {
            self.gap
        } else {
            (self.gap as f64 * exponential(random)) as u64
        };
        // Never so far behind that it could catch up at once.
        (due + gap).max(now.saturating_sub(self.gap))
    }

    /// Returns the time for which the device takes no other request after this I/O.
    pub(super) fn device_ps(&self, device: &Device) -> u64 {
        match &self.open {
            Some(open) => gap_ps(device, open.requests[open.next].bytes),
            None => self.device,
        }
    }
}

impl Open {
    fn next(&mut self) -> u64 {
        self.next += 1;
        // Laps follow each other at the trace's own length, which leaves the gap after the last
        // request as it was recorded.
        if self.next == self.requests.len() {
            (self.next, self.lap) = (0, self.lap + self.span);
        }
        self.lap + self.requests[self.next].at_ps
    }
}
