//! Announced requests of which something is done at a time before they are due: what anticipation
//! without line sets needs.

use alloc::vec::Vec;

use halfwink_units::Time;

use super::announce::MAX_LEAD;

/// Announced requests that are waited for. More at once than there is room for are done at once.
const ROOM: usize = 64;

/// Requests by the time at which something is due for them.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    /// Time before the request.
    lead: Time,
    /// Deadlines of the preparations, with their services.
    waiting: Vec<(Time, u16)>,
}

impl Ahead {
    /// Creates a queue for preparations of this length.
    pub(super) fn new(lead: Time) -> Ahead {
        Ahead { lead, waiting: Vec::with_capacity(ROOM) }
    }

    /// A request is due; true if there is no time to wait. A service waits for one at a time, its
    /// first; requests due too far ahead are not believed.
    pub(super) fn announce(&mut self, now: Time, service: u16, due: Time) -> bool {
        if due > now.saturating_add(MAX_LEAD) {
            return false;
        }
        let at = due.saturating_sub(self.lead);
        if let Some(known) = self.waiting.iter_mut().find(|(_, id)| *id == service) {
            known.0 = known.0.min(at);
            return false;
        }
        if at <= now || self.waiting.len() == ROOM {
            return true;
        }
        self.waiting.push((at, service));
        false
    }

    /// Returns the first deadline.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.iter().map(|&(at, _)| at).min()
    }

    /// The service that was due first, if it is time.
    pub(super) fn take(&mut self, now: Time) -> Option<u16> {
        let first = (0..self.waiting.len()).min_by_key(|&n| self.waiting[n])?;
        (self.waiting[first].0 <= now).then(|| self.waiting.swap_remove(first).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_ring_their_lead_before_the_request() {
        let mut ahead = Ahead::new(Time(30));
        assert!(ahead.announce(Time(0), 80, Time(30)), "no time to wait");
        assert!(!ahead.announce(Time(0), 80, Time(100)));
        assert!(!ahead.announce(Time(0), 81, Time(90)));
        assert!(!ahead.announce(Time(0), 80, Time(95)), "one at a time, the first");
        assert!(!ahead.announce(Time(0), 82, Time::NEVER), "not believed");
        assert_eq!((ahead.next(), ahead.take(Time(59))), (Some(Time(60)), None));
        assert_eq!(ahead.take(Time(65)), Some(81));
        assert_eq!((ahead.take(Time(65)), ahead.next()), (Some(80), None));
    }
}
