//! Events and actions of a second level that user and kernel share, between a world and its rule.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use super::{Rule, Split};
use crate::{below, Host, Log, Policy};

/// Most ways of a cache that can be ruled.
pub const MAX_WAYS: usize = 32;

/// A policy that sets the registers of a cache.
pub trait Segregation: Policy<Event = Event, Action = Action> + Send {}

impl<S: Segregation + ?Sized> Segregation for Box<S> {}

impl<S: Segregation, L: Log<Event, Action> + Send> Segregation for Host<S, L> {}

/// A boxed segregation policy.
pub type SegregationPolicy = Box<dyn Segregation>;

/// Hits that a side would have had in a cache of its own, by how recently used the line was: `[0]`
/// of the most recent line of its set. A cache of `n` ways would have had the first `n` sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Utility {
    /// Hits by side (user, kernel), then by recency.
    pub hits: [[u64; MAX_WAYS]; 2],
}

/// Counters since the last sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Retired, by privilege (user, kernel).
    pub instructions: [u64; 2],
    /// Reads of the cache.
    pub accesses: [u64; 2],
    /// Number of these that missed.
    pub misses: [u64; 2],
    /// Cycles of the core's clock.
    pub cycles: u64,
    /// Counts of the monitors, where the technique has them.
    pub utility: Option<Box<Utility>>,
}

impl Sample {
    /// Misses for 1000 instructions, in millionths; none without instructions.
    #[must_use]
    pub fn misses_per_thousand_ppm(&self) -> Option<u64> {
        let instructions = self.total_instructions();
        let misses = u128::from(self.misses[0] + self.misses[1]);
        (instructions > 0).then(|| (misses * 1_000_000_000 / u128::from(instructions)) as u64)
    }

    /// Returns the instructions of both sides.
    #[must_use]
    pub fn total_instructions(&self) -> u64 {
        self.instructions[0] + self.instructions[1]
    }

    pub(super) fn add(&mut self, more: &Sample) {
        for side in 0..2 {
            self.instructions[side] += more.instructions[side];
            self.accesses[side] += more.accesses[side];
            self.misses[side] += more.misses[side];
        }
        self.cycles += more.cycles;
    }
}

/// Events from a cache to its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Event {
    /// The run begins, with a cache of so many ways, in two banks if it can be split so.
    Begin {
        /// Number of ways of each set.
        ways: u8,
    },
    /// The time asked for with [`Action::SampleAfter`] is over.
    Sample(Sample),
}

/// Time until the next sample. Worlds may give it a little later, at the end of what they do in one
/// piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Span {
    /// Number of retired instructions.
    Instructions(u64),
    /// Cycles of the core's clock.
    Cycles(u64),
}

/// Actions that a policy requests of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Action {
    /// Sets the registers of the cache.
    Set(Rule),
    /// Wants a sample after so long.
    SampleAfter(Span),
}

impl Action {
    /// Checks that a cache of so many ways can do it. Whether it has two banks is its own to say.
    ///
    /// # Errors
    /// The value found and the values allowed.
    pub fn check(&self, ways: u8) -> Result<(), String> {
        match *self {
            Action::Set(Rule { split: Split::Ways(kernel), .. })
                if !(1..ways).contains(&kernel) =>
            {
                Err(format!("gave the kernel {kernel} ways of {ways}, expected 1 to all but one"))
            }
            Action::Set(Rule { insertion, .. }) => {
                insertion.into_iter().try_for_each(|rank| below("rank", rank.into(), ways.into()))
            }
            Action::SampleAfter(Span::Instructions(0) | Span::Cycles(0)) => {
                Err("requested a sample after 0, expected 1 at least".to_owned())
            }
            Action::SampleAfter(_) => Ok(()),
        }
    }
}

/// Hands over at most a rule and a time to sample, in this order.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    pub(super) rule: Option<Rule>,
    pub(super) after: Option<Span>,
}

impl Pending {
    pub(super) fn poll(&mut self) -> Option<Action> {
        let rule = self.rule.take().map(Action::Set);
        rule.or_else(|| self.after.take().map(Action::SampleAfter))
    }
}
