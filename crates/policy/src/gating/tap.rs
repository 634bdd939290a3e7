//! TAP: gates for as long as the memory system promises that nothing will come (Strong 2013,
//! Sec 2.3.4).
//!
//! Every cache that misses sends a token with the earliest time the next level could answer; the
//! last level sends "unknown", and the memory controller follows with an estimate that is a lower
//! bound. The core sleeps until just before the earliest of them, so it is never late.
//!
//! Tokens may be lost or late. Who waits for the first response is woken by that at the latest; who
//! waits for the last one must not wait for a response that came before its token did. So what
//! nobody told more of for [`PATIENCE`] is forgotten.

use alloc::vec;
use alloc::vec::Vec;

use halfwink_units::{LineAddr, Time};

use super::{Action, Bound, Costs, Estimate, Event, Gating, Pending, Token};
use crate::{Policy, Snapshot};

/// assumption: no access takes so long. (The thesis' registers hold 3.28 us; but 256 others may
/// pass one by in our controllers, at 50 ns each, and two queues of 32 be served before.)
const PATIENCE: Time = Time::ns(20_000);

/// One outstanding access: 1 valid + 64 address + 15 bound = 80 bits in hardware.
#[derive(Clone, Copy, Debug)]
struct Entry {
    line: LineAddr,
    /// Earliest response; `None` while unknown.
    earliest: Option<Time>,
    /// Time of its first token.
    since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Stalled,
    /// Gated, or on the way there.
    Gated,
    /// Told to wake, and not yet awake.
    Waking,
    /// Halted by the operating system, and gated.
    Idle,
}

/// Which of several outstanding responses the core must be awake for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeFor {
    /// The first, as published: never late.
    FirstResponse,
    /// The last (Strong 2013, ch. 5, future work): sleeps longer, and waits where the first
    /// response would have let the pipeline go on.
    LastResponse,
}

/// The token-based controller of one core.
#[derive(Clone, Debug)]
pub struct Tap {
    costs: Costs,
    /// Outstanding accesses: at most one per miss register of the level-1 caches.
    table: Vec<Entry>,
    capacity: usize,
    state: State,
    /// The pipeline waits for memory (it may do so through gating and waking).
    stalled: bool,
    /// Woken for this response: the core waits for it with its clock on.
    no_gate_before: Time,
    timer: Option<Time>,
    pending: Pending,
    /// Tokens that found the table full.
    overflows: i64,
    most_entries: usize,
    wake_for: WakeFor,
    estimate: Estimate,
    enabled: bool,
    /// A faster wake-up than usual, for this time.
    granted: Option<Time>,
}

impl Tap {
    /// A controller with room for `entries` outstanding accesses.
    #[must_use]
    pub fn new(costs: Costs, entries: usize) -> Tap {
        Tap {
            costs,
            table: Vec::with_capacity(entries),
            capacity: entries,
            state: State::Running,
            stalled: false,
            no_gate_before: Time::ZERO,
            timer: None,
            pending: None,
            overflows: 0,
            most_entries: 0,
            wake_for: WakeFor::FirstResponse,
            estimate: Estimate::Scheduled,
            enabled: true,
            granted: None,
        }
    }

    /// Costs of waking this time.
    fn costs_now(&self) -> Costs {
        Costs { wake_up: self.granted.unwrap_or(self.costs.wake_up), ..self.costs }
    }

    /// Returns the policy with another response that it wakes for.
    #[must_use]
    pub fn waking_for(mut self, wake_for: WakeFor) -> Tap {
        self.wake_for = wake_for;
        self
    }

    /// Returns the policy with another estimate of memory that it hears.
    #[must_use]
    pub fn hearing(mut self, estimate: Estimate) -> Tap {
        self.estimate = estimate;
        self
    }

    /// Enables gating in stalls; the table is kept in any case.
    pub(super) fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    fn token(&mut self, now: Time, token: &Token) {
        let earliest = match token.bound {
            Bound::Unknown => None,
            Bound::NotBefore(span) | Bound::Eta(span) => Some(token.created + span),
        };
        if let Some(entry) = self.table.iter_mut().find(|e| e.line == token.line) {
            entry.earliest = earliest;
        } else if earliest.is_some_and(|at| at < now) {
            // Stale: it promises nothing any more.
        } else if self.table.len() < self.capacity {
            self.table.push(Entry { line: token.line, earliest, since: now });
            self.most_entries = self.most_entries.max(self.table.len());
        } else {
            // Without an entry the core may sleep past this response; in `FirstResponse` it then
            // wakes when that comes.
            self.overflows += 1;
        }
    }

    fn has_unknown(&self) -> bool {
        self.table.iter().any(|e| e.earliest.is_none())
    }

    /// Drops what should have been heard of long ago: as long as it is there, it would keep the
    /// core asleep, or awake.
    fn forget(&mut self, now: Time) {
        let since = |e: &Entry| e.earliest.map_or(e.since, |at| at.max(e.since));
        self.table.retain(|e| now.saturating_sub(since(e)) < PATIENCE);
    }

    /// Returns the time to wake at without further tokens; `known` is the known deadline. A core
    /// that wakes for any response needs no alarm without one.
    fn alarm(&self, now: Time, known: Option<Time>) -> Option<Time> {
        match (known, self.wake_for) {
            (Some(at), _) => Some(self.costs_now().wake_start(at)),
            (None, WakeFor::FirstResponse) => None,
            (None, WakeFor::LastResponse) => Some(now + PATIENCE),
        }
    }

    /// Returns the time at which the core must be awake, by the bounds known now.
    fn deadline(&self) -> Option<Time> {
        let known = self.table.iter().filter_map(|e| e.earliest);
        match self.wake_for {
            WakeFor::FirstResponse => known.min(),
            WakeFor::LastResponse if self.has_unknown() => None,
            WakeFor::LastResponse => known.max(),
        }
    }

    fn reevaluate(&mut self, now: Time) {
        let known = self.deadline();
        match self.state {
            State::Stalled if self.enabled => {
                let pays = match known {
                    Some(at) => self.costs.pays(now, at) && at >= self.no_gate_before,
                    // No bound is known yet: the last level has missed, and memory's estimate is
                    // still to come.
                    None => self.has_unknown(),
                };
                if pays {
                    self.state = State::Gated;
                    self.pending = Some(Action::Gate);
                    self.timer = self.alarm(now, known);
                }
            }
            State::Gated => self.sleep_until(now, known),
            State::Stalled | State::Running | State::Waking | State::Idle => {}
        }
    }

    /// The earliest response decides when to wake; a new bound may be earlier or later.
    fn sleep_until(&mut self, now: Time, known: Option<Time>) {
        match known {
            Some(at) if self.costs_now().wake_start(at) <= now => self.wake(now),
            _ => self.timer = self.alarm(now, known),
        }
    }

    fn wake(&mut self, now: Time) {
        self.state = State::Waking;
        self.timer = None;
        self.pending = Some(Action::Wake);
        self.no_gate_before = now + self.costs_now().lead();
    }
}

impl Policy for Tap {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        match *event {
            Event::Token(token) => {
                self.token(now, &token);
                self.reevaluate(now);
            }
            Event::Response { line } => {
                self.table.retain(|e| e.line != line);
                let wanted = self.wake_for == WakeFor::FirstResponse || self.table.is_empty();
                match self.state {
                    // Never by design for the first response: each has announced itself.
                    State::Gated if wanted => self.wake(now),
                    _ => self.reevaluate(now),
                }
            }
            Event::StallBegin => {
                self.stalled = true;
                self.state = State::Stalled;
                self.forget(now);
                self.reevaluate(now);
            }
            Event::StallEnd { .. } => {
                self.stalled = false;
                self.state = State::Running;
                self.timer = None;
            }
            Event::IdleBegin => {
                // This is no `Gated`: tokens and responses that still come must not wake a halted
                // core.
                self.state = State::Idle;
                self.pending = Some(Action::Gate);
            }
            Event::IdleEnd { .. } => {
                self.state = State::Waking;
                self.pending = Some(Action::Wake);
            }
            Event::Granted { wake_up } => {
                self.granted = Some(wake_up);
                self.reevaluate(now);
            }
            Event::Awake => {
                self.granted = None;
                self.state = if self.stalled { State::Stalled } else { State::Running };
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.timer = None;
        self.forget(now);
        if self.state == State::Gated {
            self.wake(now);
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.take()
    }

    fn snapshot(&self) -> Snapshot {
        let unknown = self.table.iter().filter(|e| e.earliest.is_none()).count();
        vec![
            ("entries", self.table.len() as i64),
            ("unknown", unknown as i64),
            ("most_entries", self.most_entries as i64),
            ("overflows", self.overflows),
            ("gated", i64::from(matches!(self.state, State::Gated | State::Idle))),
        ]
    }
}

impl Gating for Tap {
    fn hears(&self) -> Option<Estimate> {
        Some(self.estimate)
    }
}
