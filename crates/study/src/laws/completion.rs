//! Laws of completion: I/Os that end on two sockets of six CPUs, and CPUs that find nothing.

use halfwink_policy::completion::{
    Action, Completion, CompletionPolicy, Done, Event, Hears, Queues, Topology,
};
use halfwink_techniques::{Choice, CompletionContext};
use halfwink_units::Time;

use super::{Broken, Dice, Law, Machines};
use crate::error::StudyError;

const SOCKETS: u16 = 2;
const CPUS: u16 = 6;

/// Returns the machine that the policy is told of.
fn context() -> CompletionContext {
    CompletionContext { topology: Topology::uniform(SOCKETS, CPUS), hears: 0 }
}

pub(super) struct Scene {
    hears_polls: bool,
    /// CPU that completions are signalled to, and queues of the device.
    signals: (Hears, Queues),
    period: Option<Time>,
    /// Time at which the policy is told next how busy CPUs are.
    look: Time,
    /// Tags that I/Os have had.
    tags: u32,
    is_faulty: bool,
}

impl Scene {
    fn new(policy: &CompletionPolicy, is_faulty: bool) -> Scene {
        let period = policy.period();
        let look = period.unwrap_or(Time::NEVER);
        let (hears_polls, signals) = (policy.hears_polls(), (policy.hears(), policy.queues()));
        Scene { hears_polls, signals, period, look, tags: 0, is_faulty }
    }

    fn cpu(dice: &mut Dice) -> u16 {
        dice.below(u64::from(SOCKETS * CPUS)) as u16
    }
}

impl super::Scene for Scene {
    type Policy = CompletionPolicy;

    fn set(
        choice: &Choice,
        _machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, CompletionPolicy), StudyError> {
        let policy = choice.completion(&context())?;
        Ok((Scene::new(&policy, is_faulty), policy))
    }

    fn tells(&self, event: &Event) -> bool {
        match event {
            Event::Poll { .. } => self.hears_polls,
            Event::Used { .. } => self.period.is_some(),
            _ => true,
        }
    }

    fn covers(&self, other: &Scene) -> bool {
        let has_loads = other.period.is_none() || other.period == self.period;
        has_loads && (self.hears_polls || !other.hears_polls) && self.signals == other.signals
    }

    fn due(&self) -> Time {
        self.look
    }

    fn events(&mut self, now: Time, dice: &mut Dice) -> Vec<Event> {
        let cpu = Scene::cpu(dice);
        let waiting = dice.below(20) as u32;
        let mut events = Vec::new();
        if let Some(period) = self.period.filter(|_| now >= self.look) {
            // All CPUs in one batch, as worlds do: a policy may compare loads only of one and the
            // same period.
            self.look = now + period;
            let used = |cpu| Event::Used { cpu, busy: dice.below(1001) as u32, of: 1000 };
            events.extend((0..SOCKETS * CPUS).map(used));
        }
        if dice.comes(0.3) {
            let poll = Event::Poll { cpu, taken: 0, waiting: 0 };
            events.extend(self.hears_polls.then_some(poll));
            events.push(Event::Empty { cpu });
        } else {
            let poll = Event::Poll { cpu, taken: 1, waiting };
            events.extend(self.hears_polls.then_some(poll));
            self.tags += 1;
            let (issuer, took) = (Scene::cpu(dice), dice.time(Time::ns(10_000_000)));
            events.push(Event::Done(Done { io: self.tags, issuer, heard: cpu, waiting, took }));
        }
        // Messages that are lost: a CPU polls, or was busy, and the policy does not hear of it.
        if self.is_faulty && dice.comes(0.2) {
            events.remove(0);
        }
        events
    }

    fn follow(
        &mut self,
        _now: Time,
        event: Option<&Event>,
        actions: &[Action],
        _dice: &mut Dice,
    ) -> Result<(), Broken> {
        for action in actions {
            action.check(SOCKETS * CPUS).map_err(|found| (Law::Possible, found))?;
        }
        let expected = match event {
            Some(Event::Done(done)) => format!("one place of I/O {}", done.io),
            Some(Event::Empty { cpu }) => format!("one rest of CPU {cpu}"),
            _ if actions.is_empty() => return Ok(()),
            _ => {
                let found = format!("requested {actions:?} unasked, expected nothing");
                return Err((Law::Answers, found));
            }
        };
        if let ([action], Some(event)) = (actions, event) {
            if event.is_answered_by(action) {
                return Ok(());
            }
        }
        let found = format!("answered {actions:?}, expected {expected}");
        Err((Law::Answers, found))
    }
}
