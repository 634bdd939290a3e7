//! Event logs: recording what a policy was told and what it asked for, and telling it again.

use alloc::vec::Vec;

use halfwink_units::Time;

use crate::{Policy, Snapshot};

/// Something that a policy was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<E> {
    /// An event.
    Event(E),
    /// Its timer.
    Timer,
}

/// Something that a policy asked for, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<A> {
    /// Time of the event or timer that led to it.
    pub at: Time,
    /// What it asked for.
    pub action: A,
}

/// A policy that keeps a log of everything in and out.
#[derive(Clone, Debug)]
pub struct Logged<P: Policy> {
    policy: P,
    now: Time,
    /// What it was told, with the times.
    pub told: Vec<(Time, Entry<P::Event>)>,
    /// What it asked for.
    pub asked: Vec<Decision<P::Action>>,
}

impl<P: Policy> Logged<P> {
    /// Starts a log.
    pub fn new(policy: P) -> Logged<P> {
        Logged { policy, now: Time::ZERO, told: Vec::new(), asked: Vec::new() }
    }
}

impl<P> Policy for Logged<P>
where
    P: Policy,
    P::Event: Clone,
    P::Action: Clone,
{
    type Event = P::Event;
    type Action = P::Action;

    fn on_event(&mut self, now: Time, event: &P::Event) {
        self.now = now;
        self.told.push((now, Entry::Event(event.clone())));
        self.policy.on_event(now, event);
    }

    fn on_timer(&mut self, now: Time) {
        self.now = now;
        self.told.push((now, Entry::Timer));
        self.policy.on_timer(now);
    }

    fn next_timer(&self) -> Option<Time> {
        self.policy.next_timer()
    }

    fn poll_action(&mut self) -> Option<P::Action> {
        let action = self.policy.poll_action()?;
        self.asked.push(Decision { at: self.now, action: action.clone() });
        Some(action)
    }

    fn snapshot(&self) -> Snapshot {
        self.policy.snapshot()
    }
}

/// Tells `policy` these events, runs its timers between them and up to `until`, and returns all it
/// asked for. At equal times events come before timers, as in every world here.
pub fn drive<P: Policy>(
    policy: &mut P,
    events: &[(Time, P::Event)],
    until: Time,
) -> Vec<Decision<P::Action>> {
    let mut asked = Vec::new();
    let mut take = |policy: &mut P, at: Time| {
        while let Some(action) = policy.poll_action() {
            asked.push(Decision { at, action });
        }
    };
    let mut events = events.iter().peekable();
    loop {
        let event_time = events.peek().map_or(Time::NEVER, |(at, _)| *at);
        let timer = policy.next_timer().unwrap_or(Time::NEVER);
        if event_time.min(timer) > until || event_time.min(timer) == Time::NEVER {
            return asked;
        }
        if event_time <= timer {
            let (at, event) = events.next().expect("peeked");
            policy.on_event(*at, event);
        } else {
            policy.on_timer(timer);
        }
        take(policy, event_time.min(timer));
    }
}
