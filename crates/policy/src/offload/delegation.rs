//! Offload policies for system calls of a real program (`halfwink live delegate`): one for each of
//! its threads. What others count in instructions they count in nanoseconds.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use halfwink_units::Time;

use super::{
    Action, Event, Feedback, FeedbackParameters, Fixed, Offload, Organisation, Parameters, PerCall,
    Predicted, PredictedParameters, Threshold, ENOUGH_WORK_BYTES,
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
    /// All of them, by the names of the options.
    pub const NAMES: [(&'static str, DelegationKind); 4] = [
        ("never", DelegationKind::Never),
        ("always", DelegationKind::Always),
        ("enough-work", DelegationKind::EnoughWork),
        ("predicted", DelegationKind::Predicted),
    ];

    /// Returns the kind of this number, if there is one.
    #[must_use]
    pub fn from_number(number: u32) -> Option<DelegationKind> {
        Self::NAMES.into_iter().map(|(_, kind)| kind).find(|kind| *kind as u32 == number)
    }

    /// Returns the name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Parameters of a policy. As text it is a technique with its parameters: `predicted:n_ns=2000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegationParameters {
    /// Kind of the policy.
    pub kind: DelegationKind,
    /// N in nanoseconds; `None` lets the controller find it.
    pub n_ns: Option<u64>,
    /// Bytes that are enough work.
    pub least_bytes: u64,
}

impl fmt::Display for DelegationParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match (self.kind, self.n_ns) {
            (DelegationKind::Predicted, Some(n)) => write!(f, ":n_ns={n}"),
            (DelegationKind::EnoughWork, _) => write!(f, ":least_bytes={}", self.least_bytes),
            _ => Ok(()),
        }
    }
}

impl FromStr for DelegationParameters {
    type Err = String;

    fn from_str(text: &str) -> Result<DelegationParameters, String> {
        let (name, value) = text.split_once(':').map_or((text, None), |(n, v)| (n, Some(v)));
        let known = DelegationKind::NAMES.into_iter().find(|(known, _)| *known == name);
        let Some((_, kind)) = known else {
            let names = DelegationKind::NAMES.map(|(name, _)| name).join(", ");
            return Err(format!("`{name}`: expected one of {names}"));
        };
        let mut parameters =
            DelegationParameters { kind, n_ns: None, least_bytes: ENOUGH_WORK_BYTES };
        let Some(value) = value else { return Ok(parameters) };
        let number = |parameter: &str| {
            let found = value.strip_prefix(parameter).and_then(|v| v.strip_prefix('='));
            let number = found.and_then(|v| v.parse().ok());
            number.ok_or_else(|| format!("`{text}`: expected `{name}:{parameter}=NUMBER`"))
        };
        match kind {
            DelegationKind::Predicted => parameters.n_ns = Some(number("n_ns")?),
            DelegationKind::EnoughWork => parameters.least_bytes = number("least_bytes")?,
            DelegationKind::Never | DelegationKind::Always => {
                return Err(format!("`{text}`: expected `{name}`, which takes no parameters"));
            }
        }
        Ok(parameters)
    }
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
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn parameters_survive_their_text() {
        for text in
            ["never", "always", "enough-work:least_bytes=512", "predicted", "predicted:n_ns=7"]
        {
            assert_eq!(text.parse::<DelegationParameters>().unwrap().to_string(), text);
        }
        for (text, expected) in [
            ("sometimes", "one of never, always, enough-work, predicted"),
            ("never:n_ns=1", "`never`, which takes no parameters"),
            ("predicted:n_ns=", "`predicted:n_ns=NUMBER`"),
            ("enough-work:n_ns=1", "`enough-work:least_bytes=NUMBER`"),
        ] {
            let error = text.parse::<DelegationParameters>().unwrap_err();
            assert_eq!(error, format!("`{text}`: expected {expected}"));
        }
    }

    #[test]
    fn delegation_kinds_are_found_by_name_and_number() {
        for (name, kind) in DelegationKind::NAMES {
            assert_eq!(DelegationKind::from_number(kind as u32), Some(kind));
            assert_eq!(kind.name(), name);
        }
        assert_eq!(DelegationKind::from_number(4), None);
    }
}
