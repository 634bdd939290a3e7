//! What a core did when, for looking at.

use halfwink_power::CoreState;
use halfwink_units::Time;

/// The states of one core over part of a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    from: Time,
    until: Time,
    /// Spans in order; each state with its start and end.
    pub spans: Vec<(CoreState, Time, Time)>,
}

impl Timeline {
    /// Records the states between two times.
    #[must_use]
    pub fn new(from: Time, until: Time) -> Timeline {
        Timeline { from, until, spans: Vec::new() }
    }

    pub(crate) fn push(&mut self, state: CoreState, start: Time, end: Time) {
        let (start, end) = (start.max(self.from), end.min(self.until));
        if start >= end {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.0 == state && last.2 == start => last.2 = end,
            _ => self.spans.push((state, start, end)),
        }
    }
}
