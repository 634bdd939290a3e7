//! Lines that the cores of one program's threads contend for.
//!
//! The order in which the shared levels serve requests is the order in which cores have a line.
//! Two things follow. A core that has asked for a line and was not served yet does not have it,
//! whatever its caches note for the answer: another core's request takes nothing from it. And a
//! core can pass a line on only when it has arrived.

use std::collections::HashMap;

use halfwink_units::Time;

use crate::uncore::Request;

/// Requests for lines, and lines on their way.
#[derive(Debug, Default)]
pub(crate) struct Contended {
    /// Cores whose requests were not served yet, by line.
    asked: Vec<(u64, usize)>,
    /// Time at which each line is at the core that it was sent to last.
    arrivals: HashMap<u64, Time>,
}

/// Lines whose arrivals are kept; more are looked through for those that have arrived.
const ARRIVALS: usize = 1 << 12;

impl Contended {
    /// An agent asks for a line. One that only gives it back, or takes it from others, has it.
    pub(crate) fn asks(&mut self, request: &Request) {
        if let Some(core) = request.agent.number().filter(|_| request.want.is_awaited()) {
            self.asked.push((request.line, core));
        }
    }

    /// A request for a line is served now; returns the other cores, a bit each, whose requests for
    /// it were not.
    pub(crate) fn serves(&mut self, request: &Request) -> u128 {
        let core = request.agent.number().filter(|_| request.want.is_awaited());
        let is_it = |&(line, by): &(u64, usize)| line == request.line && Some(by) == core;
        if let Some(place) = self.asked.iter().position(is_it) {
            self.asked.swap_remove(place);
        }
        let others = self.asked.iter().filter(|(line, _)| *line == request.line);
        others.fold(0, |mask, &(_, core)| mask | 1 << core)
    }

    /// A line leaves the shared levels at `sent`; returns its arrival, after `transfer` if it comes
    /// from another core.
    pub(crate) fn arrival(&mut self, line: u64, sent: Time, transfer: Option<Time>) -> Time {
        if self.arrivals.len() >= ARRIVALS {
            self.arrivals.retain(|_, arrival| *arrival > sent);
        }
        let before = self.arrivals.get(&line).copied().unwrap_or(Time::ZERO);
        let at = transfer.map_or(sent, |transfer| sent.max(before) + transfer);
        self.arrivals.insert(line, at);
        at
    }
}
