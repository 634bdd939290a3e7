//! The policy of one thread, as the options say: the very objects that decide in the simulator.

use halfwink_policy::offload::{
    Action, Cause, Event, Feedback, FeedbackParameters, Fixed, KernelEntry, Organisation,
    Parameters, PerCall, Place, Predicted, PredictedParameters, Registers, Sample, Threshold,
};
use halfwink_policy::Policy;
use halfwink_units::Time;

/// What stands in for PSTATE: user privilege, interrupts on. It never changes here, since every
/// call comes from user code (Nellans 2014, Sec 4.6.2 hashes it to tell such states apart).
const PSEUDO_PSTATE: u64 = 0x203;
/// Width of lengths: four seconds in nanoseconds. The published 16 bits would end at 65 us.
const LENGTH_BITS: u32 = 32;

/// Which policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Every call stays.
    Never = 0,
    /// Every call moves that may.
    Always = 1,
    /// Those with so many bytes (Mogul 2007, Sec 5.2).
    EnoughWork = 2,
    /// Those that are expected to be longer than N (Nellans 2014, ch. 4).
    Predicted = 3,
}

impl Kind {
    /// All of them, by the names of the options.
    pub const NAMES: [(&'static str, Kind); 4] = [
        ("never", Kind::Never),
        ("always", Kind::Always),
        ("enough-work", Kind::EnoughWork),
        ("predicted", Kind::Predicted),
    ];

    /// By its number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Kind> {
        Kind::NAMES.into_iter().map(|(_, kind)| kind).find(|kind| *kind as u32 == number)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Kind::NAMES.into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// How a policy is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub kind: Kind,
    /// N in nanoseconds; `None` lets the controller find it.
    pub n_ns: Option<u64>,
    /// Bytes that are enough work.
    pub least_bytes: u64,
}

/// The policy of one thread.
#[derive(Clone, Debug)]
// One per thread, never moved about: another box would only cost each decision a cache line.
#[allow(clippy::large_enum_variant)]
pub enum Chooser {
    /// Never or always.
    Fixed(Fixed),
    /// By a list.
    PerCall(PerCall),
    /// By expected length.
    Predicted(Predicted),
}

impl Chooser {
    /// A policy that knows nothing yet. It allocates now, and never again.
    #[must_use]
    pub fn new(choice: &Choice) -> Chooser {
        match choice.kind {
            Kind::Never => Chooser::Fixed(Fixed::never()),
            Kind::Always => Chooser::Fixed(Fixed::always()),
            Kind::EnoughWork => Chooser::PerCall(PerCall::enough_work(choice.least_bytes)),
            Kind::Predicted => {
                // The direct-mapped table: the time of a lookup does not grow with what it holds.
                let predictor = Parameters {
                    length_bits: LENGTH_BITS,
                    ..Parameters::published(Organisation::PUBLISHED_DIRECT)
                };
                // The published epochs and grid, instructions read as nanoseconds.
                let threshold = match choice.n_ns {
                    Some(n) => Threshold::Fixed(n),
                    None => {
                        let f = Feedback::new(FeedbackParameters::published());
                        Threshold::Feedback(Box::new(f))
                    }
                };
                let parameters = PredictedParameters::software(predictor, threshold);
                Chooser::Predicted(Predicted::new(parameters))
            }
        }
    }

    /// Tells it something; what it asks for.
    #[inline(always)]
    pub fn tell(&mut self, now: Time, event: &Event) -> Option<Action> {
        match self {
            Chooser::Fixed(policy) => tell(policy, now, event),
            Chooser::PerCall(policy) => tell(policy, now, event),
            Chooser::Predicted(policy) => tell(policy, now, event),
        }
    }

    /// Where a call runs.
    #[inline(always)]
    pub fn decide(&mut self, now: Time, enter: &Event) -> Place {
        self.tell(now, enter).map_or(Place::Here, |action| action.place)
    }

    /// A call that lasted so many nanoseconds has ended.
    #[inline]
    pub fn ended(&mut self, now: Time, ns: u64) {
        self.tell(now, &Event::Exit { instructions: ns });
    }

    /// How the time since the last sample was spent.
    pub fn sample(&mut self, now: Time, sample: Sample) {
        self.tell(now, &Event::Sample(sample));
    }

    /// Expected length of the call that was decided last, and N, both in nanoseconds; `None` for
    /// policies that expect nothing.
    #[inline]
    #[must_use]
    pub fn expectation(&self) -> Option<(u64, u64)> {
        match self {
            Chooser::Predicted(policy) => Some((policy.expected(), policy.threshold())),
            _ => None,
        }
    }

    /// Whether the policy looks at bytes that stand in memory.
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        matches!(self, Chooser::PerCall(_))
    }
}

#[inline(always)]
fn tell<P>(policy: &mut P, now: Time, event: &Event) -> Option<Action>
where
    P: Policy<Event = Event, Action = Action>,
{
    policy.on_event(now, event);
    policy.poll_action()
}

/// What a policy is told of a call.
#[inline(always)]
#[must_use]
pub fn enter(number: u32, args: [u64; 6], bytes_in_memory: Option<u64>) -> Event {
    Event::Enter(KernelEntry {
        cause: Cause::SystemCall { number },
        args,
        bytes_in_memory,
        registers: Registers::x86_64(PSEUDO_PSTATE, u64::from(number), args[0], args[1]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(kind: Kind, n_ns: Option<u64>, lengths: &[u64]) -> Vec<Place> {
        let mut chooser = Chooser::new(&Choice { kind, n_ns, least_bytes: 4096 });
        let mut decide = |(i, &ns): (usize, &u64)| {
            let now = Time::ns(i as u64 * 10_000);
            let place = chooser.decide(now, &enter(0, [3, 0x1000, ns, 0, 0, 0], None));
            chooser.ended(now, ns);
            place
        };
        lengths.iter().enumerate().map(&mut decide).collect()
    }

    #[test]
    fn each_kind_decides() {
        use Place::{Here, OsCore};
        assert_eq!(places(Kind::Never, None, &[9_000, 9_000]), [Here, Here]);
        assert_eq!(places(Kind::Always, None, &[1, 1]), [OsCore, OsCore]);
        assert_eq!(places(Kind::EnoughWork, None, &[4095, 4096]), [Here, OsCore]);
        // The first of a kind is expected to be nothing; then the table knows.
        let predicted = places(Kind::Predicted, Some(1_000), &[5_000, 5_000, 500, 500, 500]);
        assert_eq!(predicted, [Here, OsCore, OsCore, Here, Here]);
    }

    #[test]
    fn names_and_numbers() {
        for (name, kind) in Kind::NAMES {
            assert_eq!(Kind::from_number(kind as u32), Some(kind));
            assert_eq!(kind.name(), name);
        }
        assert_eq!(Kind::from_number(4), None);
    }
}
