//! Loads along the stride in which an instruction misses, once it did so twice (reference
//! prediction table: Chen, Baer 1995, Sec 3.1). Knows nothing of requests.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::{LineAddr, Time};

use super::{Action, Event, Preheat};
use crate::{Policy, Snapshot};

/// Confidence of an entry in its stride (Chen, Baer 1995, Fig 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Initial,
    Transient,
    Steady,
    NoPrediction,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Address of the instruction; 0 of none.
    site: u64,
    line: u64,
    stride: i64,
    state: State,
}

/// Knobs of a [`Stride`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrideParameters {
    /// Entries of the table, one for each instruction: a power of two is used, the next one up.
    pub entries: u16,
    /// Lines loaded at each miss.
    pub degree: u16,
    /// Distance of the first line, in strides.
    pub distance: u16,
}

/// Policy that loads along strides.
#[derive(Clone, Debug)]
pub struct Stride {
    parameters: StrideParameters,
    table: Vec<Entry>,
    asked: VecDeque<Action>,
    fetches: i64,
}

impl Stride {
    /// Creates a policy with an empty table.
    #[must_use]
    pub fn new(parameters: StrideParameters) -> Stride {
        let entries = usize::from(parameters.entries.max(1)).next_power_of_two();
        let degree = parameters.degree.max(1);
        let parameters =
            StrideParameters { degree, distance: parameters.distance.max(1), ..parameters };
        Stride {
            parameters,
            table: vec![Entry::default(); entries],
            asked: VecDeque::with_capacity(usize::from(degree)),
            fetches: 0,
        }
    }

    /// A miss of an instruction; the stride to go along, if there is one.
    fn learn(&mut self, site: u64, line: u64) -> Option<i64> {
        // Instructions of x86 begin anywhere: the low bits tell most.
        let mixed = site ^ site >> 12;
        let at = mixed as usize & (self.table.len() - 1);
        let entry = &mut self.table[at];
        if entry.site != site {
            *entry = Entry { site, line, ..Entry::default() };
            return None;
        }
        let stride = line.wrapping_sub(entry.line) as i64;
        entry.line = line;
        let is_right = stride == entry.stride;
        // Fig 3: a steady entry keeps its stride after one miss elsewhere.
        let (state, keeps) = match (entry.state, is_right) {
            (State::Initial | State::Transient | State::Steady, true) => (State::Steady, true),
            (State::NoPrediction, true) => (State::Transient, true),
            (State::Steady, false) => (State::Initial, true),
            (State::Initial, false) => (State::Transient, false),
            (State::Transient | State::NoPrediction, false) => (State::NoPrediction, false),
        };
        entry.state = state;
        if !keeps {
            entry.stride = stride;
        }
        (state == State::Steady && stride != 0).then_some(entry.stride)
    }
}

impl Policy for Stride {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, event: &Event) {
        let Event::Missed { line, site, .. } = *event else { return };
        let Some(stride) = self.learn(site, line.0) else { return };
        let StrideParameters { degree, distance, .. } = self.parameters;
        for ahead in distance..distance.saturating_add(degree) {
            let by = stride.checked_mul(i64::from(ahead));
            let Some(first) = by.and_then(|by| line.0.checked_add_signed(by)) else { return };
            self.fetches += 1;
            self.asked.push_back(Action::Fetch { first: LineAddr(first), lines: 1 });
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.asked.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("fetches", self.fetches)]
    }
}

impl Preheat for Stride {}
