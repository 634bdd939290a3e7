//! Offload policies for system calls of a real program (`halfwink live delegate`): one for each of
//! its threads. What others count in instructions they count in nanoseconds.

use alloc::boxed::Box;

use halfwink_units::Time;

use super::{
    Action, Event, Feedback, FeedbackParameters, Fixed, Offload, Organisation, Parameters, PerCall,
    Predicted, PredictedParameters, Threshold,
};
use crate::{Policy, Snapshot};

/// Width of lengths: four seconds in nanoseconds. The published 16 bits would end at 65 us.
const LENGTH_BITS: u32 = 32;

/// Kind of a delegation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DelegationKind {
    /// Keeps every call.
    Never = 0,
    /// Every call moves that may.
    Always = 1,
    /// Moves calls with at least this number of bytes (Mogul 2007, Sec 5.2).
    EnoughWork = 2,
    /// Moves calls that are expected to be longer than N (Nellans 2014, ch. 4).
    Predicted = 3,
}

impl DelegationKind {
    /// Returns the kind of this number, if there is one.
    #[must_use]
    pub fn from_number(number: u32) -> Option<DelegationKind> {
        use DelegationKind::{Always, EnoughWork, Never, Predicted};
        [Never, Always, EnoughWork, Predicted].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Parameters of a policy, as the list of techniques makes them (`crates/techniques`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegationParameters {
    /// Kind of the policy.
    pub kind: DelegationKind,
    /// N in nanoseconds; `None` lets the controller find it.
    pub n_ns: Option<u64>,
    /// Bytes that are enough work.
    pub least_bytes: u64,
}

/// The policy of one thread.
#[derive(Clone, Debug)]
// One per thread, never moved about: another box would only cost each decision a cache line.
#[allow(clippy::large_enum_variant)]
pub enum Delegation {
    /// Moves every call or none.
    Fixed(Fixed),
    /// Moves calls by a list.
    PerCall(PerCall),
    /// Moves calls by their expected length.
    Predicted(Predicted),
}

impl Delegation {
    /// A policy that knows nothing yet. It allocates now, and never again.
    #[must_use]
    pub fn new(parameters: &DelegationParameters) -> Delegation {
        match parameters.kind {
            DelegationKind::Never => Delegation::Fixed(Fixed::never()),
            DelegationKind::Always => Delegation::Fixed(Fixed::always()),
            DelegationKind::EnoughWork => {
                Delegation::PerCall(PerCall::enough_work(parameters.least_bytes))
            }
            DelegationKind::Predicted => {
                // The direct-mapped table: the time of a lookup does not grow with what it holds.
                let predictor = Parameters {
                    length_bits: LENGTH_BITS,
                    ..Parameters::published(Organisation::PUBLISHED_DIRECT)
                };
                // The published epochs and grid, instructions read as nanoseconds.
                let threshold = match parameters.n_ns {
                    Some(n) => Threshold::Fixed(n),
                    None => {
                        let f = Feedback::new(FeedbackParameters::published());
                        Threshold::Feedback(Box::new(f))
                    }
                };
                let parameters = PredictedParameters::software(predictor, threshold);
                Delegation::Predicted(Predicted::new(parameters))
            }
        }
    }

    /// Expected length of the call that was decided last, and N, both in nanoseconds; `None` for
    /// policies that expect nothing.
    #[inline]
    #[must_use]
    pub fn expectation(&self) -> Option<(u64, u64)> {
        match self {
            Delegation::Predicted(policy) => Some((policy.expected(), policy.threshold())),
            _ => None,
        }
    }

    /// Returns whether the policy needs byte counts that are in memory.
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        matches!(self, Delegation::PerCall(_))
    }
}

impl Policy for Delegation {
    type Event = Event;
    type Action = Action;

    #[inline(always)]
    fn on_event(&mut self, now: Time, event: &Event) {
        match self {
            Delegation::Fixed(policy) => policy.on_event(now, event),
            Delegation::PerCall(policy) => policy.on_event(now, event),
            Delegation::Predicted(policy) => policy.on_event(now, event),
        }
    }

    #[inline(always)]
    fn poll_action(&mut self) -> Option<Action> {
        match self {
            Delegation::Fixed(policy) => policy.poll_action(),
            Delegation::PerCall(policy) => policy.poll_action(),
            Delegation::Predicted(policy) => policy.poll_action(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        match self {
            Delegation::Fixed(policy) => policy.snapshot(),
            Delegation::PerCall(policy) => policy.snapshot(),
            Delegation::Predicted(policy) => policy.snapshot(),
        }
    }
}

impl Offload for Delegation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delegation_kinds_are_found_by_number() {
        for number in 0..4 {
            assert_eq!(DelegationKind::from_number(number).map(|kind| kind as u32), Some(number));
        }
        assert_eq!(DelegationKind::from_number(4), None);
    }
}
