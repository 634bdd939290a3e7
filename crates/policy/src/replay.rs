//! Telling a fresh policy what a log says, and comparing what it asks for.

use alloc::vec::Vec;
use core::fmt;

use halfwink_units::Time;

use crate::log::{Input, Line};
use crate::Policy;

/// Counters of a replay whose actions all agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of lines replayed.
    pub lines: u64,
    /// Number of events among them.
    pub events: u64,
    /// Number of timers among them.
    pub timers: u64,
    /// Number of actions, all equal.
    pub actions: u64,
    /// Time of the last line.
    pub end: Time,
    /// Lines from the first dropped one on, which were not replayed.
    pub unheard: u64,
}

/// First line at which a policy decides otherwise than a log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<E, A> {
    /// Number of the line, as it came with it.
    pub line: u64,
    /// Time of the line.
    pub now: Time,
    /// Input of the line.
    pub input: Input<E>,
    /// The actions in the log.
    pub expected: Vec<A>,
    /// Actions that the policy requested.
    pub found: Vec<A>,
    /// Deadline of the policy's timer, if the log says that it rang at another time.
    pub not_due: Option<Time>,
}

impl<E: fmt::Debug, A: fmt::Debug> fmt::Display for Difference<E, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, at {}, {:?}: ", self.line, self.now, self.input)?;
        match self.not_due {
            Some(Time::NEVER) => write!(f, "the policy has no timer"),
            Some(due) => write!(f, "the policy's timer is due at {due}"),
            None => write!(f, "expected {:?}, found {:?}", self.expected, self.found),
        }
    }
}

/// A fresh policy that is told a log line by line.
#[derive(Clone, Debug)]
pub struct Replay<P> {
    policy: P,
    summary: Summary,
    /// Whether the actions of the start were taken.
    begun: bool,
}

impl<P> Replay<P>
where
    P: Policy,
    P::Action: PartialEq,
{
    /// Creates a replay before its first line.
    #[must_use]
    pub fn new(policy: P) -> Replay<P> {
        Replay { policy, summary: Summary::default(), begun: false }
    }

    /// Tells a line; `number` is what an error calls it. Does nothing once lines were dropped: a
    /// policy that has not heard of something cannot be compared any further.
    ///
    /// # Errors
    /// If it asks for something else, or its timer is said to have rung before it was due.
    pub fn line(
        &mut self,
        number: u64,
        line: Line<P::Event, P::Action>,
    ) -> Result<(), Difference<P::Event, P::Action>> {
        let Line { now, input, actions: expected, dropped } = line;
        if dropped > 0 || self.summary.unheard > 0 {
            self.summary.unheard += dropped + 1;
            return Ok(());
        }
        // Where nothing was asked for at the start there is no line for it.
        let at_start = !core::mem::replace(&mut self.begun, true);
        let mut found = Vec::new();
        if at_start && !matches!(input, Input::Start) {
            found.extend(core::iter::from_fn(|| self.policy.poll_action()));
        }
        let mut not_due = None;
        match &input {
            Input::Start => {}
            Input::Timer => {
                let due = self.policy.next_timer().unwrap_or(Time::NEVER);
                not_due = Some(due).filter(|&due| due > now);
                self.policy.on_timer(now);
            }
            Input::Event(event) => self.policy.on_event(now, event),
        }
        found.extend(core::iter::from_fn(|| self.policy.poll_action()));
        if found != expected || not_due.is_some() {
            return Err(Difference { line: number, now, input, expected, found, not_due });
        }
        self.summary.lines += 1;
        self.summary.events += u64::from(matches!(input, Input::Event(_)));
        self.summary.timers += u64::from(matches!(input, Input::Timer));
        self.summary.actions += expected.len() as u64;
        self.summary.end = now;
        Ok(())
    }

    /// Returns the counters up to now.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.summary
    }
}

/// Tells a fresh policy what the lines say, and compares its actions. Each comes with its number,
/// which an error names.
///
/// # Errors
/// The first difference; see [`Replay::line`].
pub fn replay<P>(
    policy: P,
    lines: impl IntoIterator<Item = (u64, Line<P::Event, P::Action>)>,
) -> Result<Summary, Difference<P::Event, P::Action>>
where
    P: Policy,
    P::Action: PartialEq,
{
    let mut replay = Replay::new(policy);
    for (number, line) in lines {
        replay.line(number, line)?;
    }
    Ok(replay.summary())
}
