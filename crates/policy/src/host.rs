//! What stands between a policy and its world, simulated or live.
//!
//! ```text
//!   world ── deliver(now, event) ─▶ ┌──────┐ ── on_event, on_timer ─▶ ┌────────┐
//!         ── ring(now) ───────────▶ │ Host │                          │ policy │
//!         ◀─ actions, due() ─────── └──┬───┘ ◀─ actions, next timer ─ └────────┘
//!                                      ▼
//!                                     Log
//! ```
//!
//! A world that can lend its parts apart from the host gives [`Host::deliver`] and [`Host::ring`] a
//! closure that applies actions. One that cannot, because an action touches all of it, calls
//! [`Host::notify`] or [`Host::expire`] and then [`Host::next_action`] until there is none.
//!
//! **Logging costs nothing where nobody asked for it.** [`NoLog`] has no size and its calls no
//! bodies. And a host is itself a policy of its family: worlds are written for the unlogged one,
//! and a simulated run is logged by handing it `Box::new(Host::logged(policy, log))` as its policy.

use alloc::vec::Vec;
use core::fmt;

use halfwink_units::Time;

use crate::log::{Input, Log, NoLog};
use crate::{Policy, Snapshot};

/// Timers that may ring at one moment before a policy counts as stuck. Policies have a few per core
/// or machine; a world's worst bunch of equal times is far below this.
const MOST_RINGS: u32 = 1 << 20;

/// A policy with its time, its timers and its log.
///
/// Three things hold for every policy in every world because they hold here: its time never goes
/// back, all its actions are taken before it hears of the next event, and its timers ring when they
/// are due.
#[derive(Clone, Debug)]
pub struct Host<P, L = NoLog> {
    policy: P,
    log: L,
    now: Time,
    /// Times that were earlier than the one before, and were clamped.
    steps_back: u64,
    is_ordered: bool,
    /// All actions of the last call were taken. Worlds are held to it where debug assertions are
    /// on; elsewhere not even the note of it is paid for.
    #[cfg(debug_assertions)]
    is_drained: bool,
    /// The latest due time of a timer that rang, and how many rang since without a later one.
    rung: Time,
    rings: u32,
}

/// A policy's timer rings and rings and its time does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckTimer {
    /// Time at which it is due, again and again.
    pub due: Time,
}

impl fmt::Display for StuckTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the policy's timer rang {MOST_RINGS} times at {} and is still due", self.due)
    }
}

impl core::error::Error for StuckTimer {}

impl<P: Policy> Host<P> {
    /// Hosts a policy without a log.
    #[must_use]
    pub fn new(policy: P) -> Host<P> {
        Host::logged(policy, NoLog)
    }
}

impl<P: Policy, L: Log<P::Event, P::Action>> Host<P, L> {
    /// Hosts a policy and logs all that goes in and out of it.
    ///
    /// What a policy asks for at its start is taken, and logged, like actions after a call: with
    /// [`Host::start`], or with [`Host::next_action`] until there is none.
    #[must_use]
    pub fn logged(policy: P, log: L) -> Host<P, L> {
        Host {
            policy,
            log,
            now: Time::ZERO,
            steps_back: 0,
            is_ordered: true,
            #[cfg(debug_assertions)]
            is_drained: true,
            rung: Time::ZERO,
            rings: 0,
        }
    }

    /// Accepts times in any order: for a policy whose parts are independent, in a world that plays
    /// one part ahead of another ([`crate::scaling::Scaling::is_apart`]). Time is then in order for
    /// each part, which the host cannot check.
    #[must_use]
    pub fn unordered(mut self) -> Host<P, L> {
        self.is_ordered = false;
        self
    }

    /// Returns whether its times are in order.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Takes what the policy asks for at its start, at time zero.
    pub fn start(&mut self, act: impl FnMut(Time, P::Action)) {
        self.drain(act);
    }

    /// An event at `now`: passes it on, and hands every action to `act`, with the time at which
    /// the policy heard.
    #[inline]
    pub fn deliver(&mut self, now: Time, event: &P::Event, mut act: impl FnMut(Time, P::Action)) {
        let now = self.advance(now);
        let log = &mut self.log;
        log.begin(now, Input::Event(event));
        self.policy.deliver(now, event, &mut |action| {
            log.action(now, &action);
            act(now, action);
        });
        log.end();
        self.note_drained(true);
    }

    /// Delivers an event to a family that answers with at most one action. If there are more, the
    /// last one counts.
    #[inline]
    pub fn decide(&mut self, now: Time, event: &P::Event) -> Option<P::Action> {
        let mut answer = None;
        self.deliver(now, event, |_, action| answer = Some(action));
        answer
    }

    /// An event at `now`, for worlds that take the actions themselves: all of them, with
    /// [`Host::next_action`], before the next call.
    #[inline]
    pub fn notify(&mut self, now: Time, event: &P::Event) {
        let now = self.advance(now);
        self.log.begin(now, Input::Event(event));
        self.policy.on_event(now, event);
    }

    /// The next action; `None` once all are taken.
    #[inline]
    pub fn next_action(&mut self) -> Option<P::Action> {
        let action = self.policy.poll_action();
        match &action {
            Some(action) => self.log.action(self.now, action),
            None => {
                self.log.end();
                self.note_drained(true);
            }
        }
        action
    }

    /// Returns the deadline of the policy's timer: never before now, and [`Time::NEVER`] if it is
    /// off.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Time {
        self.policy.next_timer().map_or(Time::NEVER, |at| at.max(self.now))
    }

    /// Rings the timer once if it is due at `now`, for worlds that take the actions themselves or
    /// have other things to do at the same time; true if it rang.
    ///
    /// # Errors
    /// If it rang so often without moving on that it will for ever.
    #[inline]
    pub fn expire(&mut self, now: Time) -> Result<bool, StuckTimer> {
        let Some(due) = self.policy.next_timer().filter(|&at| at <= now.max(self.now)) else {
            return Ok(false);
        };
        if due > self.rung {
            (self.rung, self.rings) = (due, 0);
        } else {
            self.rings += 1;
            if self.rings > MOST_RINGS {
                return Err(StuckTimer { due });
            }
        }
        self.time_out(now);
        Ok(true)
    }

    /// Rings every timer that is due at `now`, and hands every action to `act`; how many rang.
    ///
    /// # Errors
    /// If they ring for ever.
    pub fn ring(
        &mut self,
        now: Time,
        mut act: impl FnMut(Time, P::Action),
    ) -> Result<u32, StuckTimer> {
        for rang in 0..MOST_RINGS {
            if !self.expire(now)? {
                return Ok(rang);
            }
            self.drain(&mut act);
        }
        // It moves on, but by so little that it will not get here.
        Err(StuckTimer { due: self.policy.next_timer().unwrap_or(self.now) })
    }

    /// A reading of the world's clock that is used for more than the policy, as its meters: what
    /// the policy would hear, which is never before an earlier reading.
    #[inline]
    pub fn observe(&mut self, now: Time) -> Time {
        if now < self.now && self.is_ordered {
            self.steps_back += 1;
        } else {
            self.now = now;
        }
        self.now
    }

    /// The time of the last call, or reading.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of times that the world's clock stepped back. Zero in simulated worlds.
    #[must_use]
    pub fn steps_back(&self) -> u64 {
        self.steps_back
    }

    /// The policy, for what its family says of it.
    #[must_use]
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Returns the log up to now.
    #[must_use]
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The log, to take lines from it.
    #[must_use]
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// The policy's state, for logs and live views.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.policy.snapshot()
    }

    /// Another policy from now on, with a log of its own; what the old one logged. Time goes on.
    pub fn replace(&mut self, policy: P, log: L) -> L {
        #[cfg(debug_assertions)]
        assert!(self.is_drained, "the old policy's actions are taken first");
        self.policy = policy;
        (self.rung, self.rings) = (Time::ZERO, 0);
        core::mem::replace(&mut self.log, log)
    }

    #[inline]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, clippy::unused_self))]
    fn note_drained(&mut self, is_drained: bool) {
        #[cfg(debug_assertions)]
        {
            self.is_drained = is_drained;
        }
    }

    #[inline]
    fn drain(&mut self, mut act: impl FnMut(Time, P::Action)) {
        while let Some(action) = self.next_action() {
            act(self.now, action);
        }
    }

    #[inline]
    fn time_out(&mut self, now: Time) {
        let now = self.advance(now);
        self.log.begin(now, Input::Timer);
        self.policy.on_timer(now);
    }

    /// The time at which the policy hears. Several threads that read one clock, and clocks that are
    /// set, can be behind what it heard last; no policy has to be prepared for that.
    #[inline]
    fn advance(&mut self, now: Time) -> Time {
        // A line of a log has all actions of one call: that is what replay compares.
        #[cfg(debug_assertions)]
        assert!(self.is_drained, "all actions are taken before the next call");
        self.note_drained(false);
        self.observe(now)
    }
}

/// A host is itself a policy, so that only the world that needs a log pays for it.
impl<P: Policy, L: Log<P::Event, P::Action>> Policy for Host<P, L> {
    type Event = P::Event;
    type Action = P::Action;

    fn on_event(&mut self, now: Time, event: &P::Event) {
        self.notify(now, event);
    }

    fn on_timer(&mut self, now: Time) {
        self.time_out(now);
    }

    fn next_timer(&self) -> Option<Time> {
        self.policy.next_timer()
    }

    fn poll_action(&mut self) -> Option<P::Action> {
        self.next_action()
    }

    fn snapshot(&self) -> Snapshot {
        self.policy.snapshot()
    }
}

/// An action, and when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<A> {
    /// Time of the event or timer that led to it.
    pub at: Time,
    /// Action that the policy requested then.
    pub action: A,
}

/// The smallest world: delivers these events, rings timers between them and up to `until`, and
/// returns all actions. At equal times events come before timers, as in every world here.
///
/// # Panics
/// If a timer rings for ever.
pub fn drive<P: Policy + ?Sized>(
    policy: &mut P,
    events: &[(Time, P::Event)],
    until: Time,
) -> Vec<Decision<P::Action>> {
    let mut host = Host::new(policy);
    let mut decisions = Vec::new();
    let mut keep = |at, action| decisions.push(Decision { at, action });
    host.start(&mut keep);
    for (at, event) in events.iter().take_while(|(at, _)| *at <= until) {
        while host.due() < *at {
            host.ring(host.due(), &mut keep).expect("a timer moves on");
        }
        host.deliver(*at, event, &mut keep);
    }
    while host.due() <= until && host.due() < Time::NEVER {
        host.ring(host.due(), &mut keep).expect("a timer moves on");
    }
    decisions
}
