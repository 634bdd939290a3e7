//! A module as a policy of its family.

use std::any::Any;
use std::collections::VecDeque;

use halfwink_policy::record::{Fields, Record, FIELDS};
use halfwink_policy::{Policy, Snapshot};
use halfwink_techniques::{Choice, Module};
use halfwink_units::Time;

use crate::about::About;
use crate::block::{ACTIONS, MOST_ACTIONS};
use crate::code::{Code, Limits, Started};

/// Number of the first input, in which a policy is told of its machine.
pub const START: u64 = 0;
/// Number of a timer that rings.
pub const TIMER: u64 = 1;
/// Number of the first kind of event of a family.
pub const FIRST_EVENT: u64 = 2;
/// Number of the call that fetches the actions which did not fit into the block.
pub const MORE: u64 = u64::MAX;

/// Most calls at one time: 511 racks, the most that a module can join, have fewer pairs between
/// which something may wait.
const MOST_AT_ONCE: u32 = 1 << 18;

/// A module that was read.
pub(crate) struct Opened {
    /// The path, as the user named it.
    pub path: &'static str,
    /// Digest of its content.
    pub digest: String,
    /// The module, translated once for all cores.
    pub code: Box<dyn Code>,
    /// The description that the module gives.
    pub about: About,
}

impl Module for Opened {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A family adds this to a module: its events and actions, and what its world can follow.
pub(crate) trait Told: Send {
    /// Events that the world delivers.
    type Event: Record;
    /// Actions that the module can request.
    type Action: Record;

    /// Checks an action that its world would follow blindly.
    ///
    /// # Errors
    /// The value found and the values allowed.
    fn check(&self, _action: &Self::Action) -> Result<(), String> {
        Ok(())
    }

    /// Checks that an event that is a question has its answer among the actions of the call.
    ///
    /// # Errors
    /// The answer that is missing.
    fn answers(
        &self,
        _event: &Self::Event,
        _requested: &VecDeque<Self::Action>,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Returns an action that no world can do, by which a run ends. Without one, a run ends by a
    /// timer that stays due.
    fn impossible(&self) -> Option<Self::Action> {
        None
    }
}

/// A module that plays one policy of a family.
pub(crate) struct Played<T: Told> {
    module: &'static Opened,
    /// The choice in which a fault is noted.
    choice: Choice,
    /// The module with a memory of its own; none after a fault.
    instance: Option<Box<dyn Started>>,
    told: T,
    timer: Option<Time>,
    requested: VecDeque<T::Action>,
    calls: i64,
    /// Time of the last call, and calls at it.
    at: (Time, u32),
}

impl<T: Told> Played<T> {
    /// Starts a policy with what its world says of the machine.
    pub(crate) fn new(
        module: &'static Opened,
        choice: &Choice,
        start: &[u64],
        told: T,
    ) -> Played<T> {
        let mut played = Played {
            module,
            choice: choice.clone(),
            instance: None,
            told,
            timer: None,
            requested: VecDeque::with_capacity(ACTIONS),
            calls: 0,
            at: (Time::ZERO, 0),
        };
        // The policies of a run share its choice, and by it their room.
        let limits = Limits::of(choice.is_live());
        match module.code.start(module.about.family, limits, choice.memory()) {
            Ok(mut instance) => {
                let parameters = module.about.parameters.iter();
                let values: Vec<f64> = parameters.map(|p| choice.number(p.name)).collect();
                instance.begin(&values);
                played.instance = Some(instance);
                played.call(Time::ZERO, START, start);
            }
            Err(problem) => played.fail(Time::ZERO, START, &problem),
        }
        played
    }

    /// Tells it more of its machine, behind the start, as an event of its family that no world
    /// delivers. Only a module that lists the event knows it: the first version had none.
    pub(crate) fn tell(&mut self, kind: usize, fields: &[u64]) {
        if self.module.about.lists(&[self.module.about.family.events[kind]]) {
            self.call(Time::ZERO, FIRST_EVENT + kind as u64, fields);
        }
    }

    /// Returns what its family added.
    pub(crate) fn told(&self) -> &T {
        &self.told
    }

    fn call(&mut self, now: Time, event: u64, fields: &[u64]) {
        let Some(instance) = &mut self.instance else { return };
        self.calls += 1;
        self.at = (now, if now == self.at.0 { self.at.1 + 1 } else { 1 });
        if self.at.1 > MOST_AT_ONCE {
            // Its world answers at once, and would do so for ever.
            let problem = "asked again and again at one time, expected time to pass";
            return self.fail(now, event, problem);
        }
        if let Err(problem) =
            instance.call(now.0, event, fields).and_then(|()| self.take(now, event))
        {
            self.fail(now, event, &problem);
        }
    }

    /// Takes the timer and the actions that a call left in the block.
    fn take(&mut self, now: Time, event: u64) -> Result<(), String> {
        let Some(instance) = &mut self.instance else { return Ok(()) };
        let timer = Time(instance.timer());
        self.timer = (timer < Time::NEVER).then_some(timer);
        // A timer that rings again at once would ring for ever.
        if timer < now || timer == now && event == TIMER {
            return Err(format!("set its timer to {timer}, expected a time to come"));
        }
        let mut left = instance.count();
        if left > MOST_ACTIONS as u64 {
            return Err(format!("requested {left} actions, expected {MOST_ACTIONS} at most"));
        }
        loop {
            for n in 0..left.min(ACTIONS as u64) as usize {
                let (kind, fields) = instance.action(n);
                let action = action(kind, &fields)?;
                self.told.check(&action)?;
                self.requested.push_back(action);
            }
            left = left.saturating_sub(ACTIONS as u64);
            if left == 0 {
                return Ok(());
            }
            instance.call(now.0, MORE, &[])?;
            let (timer, found) = (Time(instance.timer()), instance.count());
            if found != left {
                return Err(format!("had {found} more actions, expected {left}"));
            }
            if (timer < Time::NEVER).then_some(timer) != self.timer {
                return Err("changed its timer when asked for more actions".to_owned());
            }
        }
    }

    /// Notes a fault. A simulated run ends by it; a live program has another policy take over.
    #[cold]
    fn fail(&mut self, now: Time, event: u64, problem: &str) {
        let name = match event {
            START => "start",
            TIMER => "timer",
            _ => self.module.about.family.events[(event - FIRST_EVENT) as usize],
        };
        let path = self.module.path;
        self.choice.blame(format!("{path}: at {now}, told `{name}`, it {problem}"));
        // Its memory may be half changed: it is never called again.
        self.instance = None;
        // Its requests of the same call may be half of what it meant.
        self.requested.clear();
        let is_live = self.choice.is_live();
        let impossible = self.told.impossible().filter(|_| !is_live);
        self.timer = (impossible.is_none() && !is_live).then_some(Time::ZERO);
        self.requested.extend(impossible);
    }
}

/// Reads an action of a call from its record.
fn action<A: Record>(kind: u64, fields: &Fields) -> Result<A, String> {
    let place = kind.checked_sub(1).and_then(|place| usize::try_from(place).ok());
    let found = place.and_then(|place| A::take(place, fields));
    found.ok_or_else(|| {
        let known = A::KINDS.iter().enumerate();
        let known: Vec<String> = known.map(|(n, name)| format!("{} ({name})", n + 1)).collect();
        match place.and_then(|place| A::KINDS.get(place)) {
            Some(name) => format!("requested `{name}` with {}, which is out of range", fields[0]),
            None => format!("requested the action {kind}, expected {}", known.join(", ")),
        }
    })
}

impl<T: Told> Policy for Played<T> {
    type Event = T::Event;
    type Action = T::Action;

    fn on_event(&mut self, now: Time, event: &T::Event) {
        let mut fields = [0; FIELDS];
        let wanted = self.module.about.wanted;
        let mut n = 0;
        while let Some((kind, count)) = event.before(n, &mut fields) {
            if wanted & 1 << kind != 0 {
                self.call(now, FIRST_EVENT + kind as u64, &fields[..count]);
            }
            n += 1;
        }
        let (kind, count) = event.put(&mut fields);
        if wanted & 1 << kind == 0 {
            return;
        }
        let number = FIRST_EVENT + kind as u64;
        self.call(now, number, &fields[..count]);
        if self.instance.is_some() {
            if let Err(missing) = self.told.answers(event, &self.requested) {
                self.fail(now, number, &missing);
            }
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.call(now, TIMER, &[]);
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<T::Action> {
        self.requested.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("calls", self.calls)]
    }
}
