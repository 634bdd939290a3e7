//! Where the policy lives: workers tell it what they find, and it says how to rest; what it asks
//! of the whole router waits for the receiver, the only one who may do it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use halfwink_policy::scaling::{Action, Event, Rest, ScalingPolicy};
use halfwink_policy::Snapshot;
use halfwink_units::Time;
use serde::{Deserialize, Serialize};

use halfwink_live::clock::{ticks, Rate};

/// One line of the event log: what the policy was told, and what it asked for then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Picoseconds since the router's start.
    pub now_ps: u64,
    /// The event; none for its timer, or for its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Event>,
    /// What it asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Action>,
}

/// The policy and its surroundings.
pub struct Control {
    inner: Mutex<Inner>,
    waiting: AtomicBool,
    clock: Clock,
}

/// Time since the router's start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
    rate: Rate,
}

struct Inner {
    policy: ScalingPolicy,
    pending: VecDeque<Action>,
    log: Vec<Line>,
    room: usize,
    last: Time,
}

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn start(rate: Rate) -> Clock {
        Clock { start: ticks(), rate }
    }

    /// Now.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.rate.ps(ticks().saturating_sub(self.start)))
    }
}

impl Control {
    /// Takes a policy, with all that it asks for at its start; keeps so many lines of a log.
    #[must_use]
    pub fn new(policy: ScalingPolicy, clock: Clock, log_lines: usize) -> Control {
        let mut inner = Inner {
            policy,
            pending: VecDeque::new(),
            log: Vec::new(),
            room: log_lines,
            last: Time::ZERO,
        };
        inner.take(None, None);
        Control { inner: Mutex::new(inner), waiting: AtomicBool::new(true), clock }
    }

    /// Tells the policy; its answer, if the event asks how to rest.
    pub fn tell(&self, event: Event) -> Option<Rest> {
        let mut inner = self.lock();
        let now = inner.now(self.clock);
        inner.policy.on_event(now, &event);
        let asking = match event {
            Event::Empty { core } => Some(core),
            _ => None,
        };
        let rest = inner.take(Some(event), asking);
        self.note(&inner);
        rest
    }

    /// Lets the policy's timer ring if its time has come; when it wants to be called next.
    pub fn timer(&self) -> Option<Time> {
        let mut inner = self.lock();
        loop {
            let next = inner.policy.next_timer()?;
            let now = inner.now(self.clock);
            if next > now {
                return Some(next);
            }
            inner.policy.on_timer(now);
            inner.take(None, None);
            self.note(&inner);
        }
    }

    /// Something is to be done by the receiver.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// What is to be done, in order.
    #[must_use]
    pub fn pending(&self) -> VecDeque<Action> {
        let mut inner = self.lock();
        self.waiting.store(false, Ordering::Release);
        std::mem::take(&mut inner.pending)
    }

    /// The log so far.
    #[must_use]
    pub fn log(&self) -> Vec<Line> {
        self.lock().log.clone()
    }

    /// The policy's state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.lock().policy.snapshot()
    }

    /// Time since the start.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    fn note(&self, inner: &Inner) {
        if !inner.pending.is_empty() {
            self.waiting.store(true, Ordering::Release);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Never earlier than before: events are in the order in which they are told.
    fn now(&mut self, clock: Clock) -> Time {
        self.last = self.last.max(clock.now());
        self.last
    }

    /// Takes all actions; an answer to `asking` is returned, the others wait for the receiver.
    fn take(&mut self, told: Option<Event>, asking: Option<u8>) -> Option<Rest> {
        let mut asked = Vec::new();
        let mut answer = None;
        while let Some(action) = self.policy.poll_action() {
            match action {
                Action::Rest { core, rest } if Some(core) == asking => answer = Some(rest),
                other => self.pending.push_back(other),
            }
            if self.room > 0 {
                asked.push(action);
            }
        }
        if self.room > 0 {
            self.room -= 1;
            self.log.push(Line { now_ps: self.last.0, told, asked });
        }
        answer
    }
}

/// Tells a fresh policy what a log says; the first line, from 0, at which it asks for something
/// else, with what it asks for.
#[must_use]
pub fn replay(lines: &[Line], mut policy: ScalingPolicy) -> Option<(usize, Vec<Action>)> {
    for (n, line) in lines.iter().enumerate() {
        let now = Time(line.now_ps);
        match &line.told {
            Some(event) => policy.on_event(now, event),
            // The first line is what it asked for at its start.
            None if n == 0 => {}
            None => policy.on_timer(now),
        }
        let asked: Vec<Action> = std::iter::from_fn(|| policy.poll_action()).collect();
        if asked != line.asked {
            return Some((n, asked));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_policy::scaling::{Depth, PowerSave, PowerSaveParameters};

    fn power_save() -> ScalingPolicy {
        let parameters = PowerSaveParameters { c_up: 1, ..PowerSaveParameters::published(2, 1) };
        Box::new(PowerSave::new(parameters))
    }

    #[test]
    fn a_log_told_again_asks_for_the_same() {
        let control = Control::new(power_save(), Clock::start(Rate(1 << 20)), 100);
        let begun = control.pending().len();
        assert_eq!(begun, 1 + 1 + 128, "a P-state, a parked core, a table");
        for waiting in [40, 50, 2, 60] {
            assert_eq!(control.tell(Event::Poll { core: 0, taken: 8, waiting }), None);
        }
        let c1 = Some(Rest::Halt(Depth::C1));
        assert_eq!(control.tell(Event::Empty { core: 0 }), c1);
        assert_eq!(control.timer(), None);
        assert!(control.is_waiting());
        assert!(control.pending().contains(&Action::Wake { core: 1 }));
        assert!(!control.is_waiting());
        let mut log = control.log();
        assert_eq!(log.len(), 6);
        assert_eq!(replay(&log, power_save()), None);
        log[2].told = Some(Event::Poll { core: 0, taken: 8, waiting: 1 });
        assert_eq!(replay(&log, power_save()).map(|(n, _)| n), Some(2));
    }

    #[test]
    fn lines_survive_json() {
        let control = Control::new(power_save(), Clock::start(Rate(1 << 20)), 3);
        control.tell(Event::Empty { core: 1 });
        for line in control.log() {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
        }
    }
}
