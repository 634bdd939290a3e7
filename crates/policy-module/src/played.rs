//! A module as a policy of its family.

use std::collections::VecDeque;

use halfwink_policy::gating::{self, Gating, GatingPolicy};
use halfwink_policy::record::{Fields, Record, FIELDS};
use halfwink_policy::{Policy, Snapshot};
use halfwink_techniques::{Choice, GatingContext, Module};
use halfwink_units::Time;

use crate::about::About;
use crate::block::ACTIONS;
use crate::engine::{Compiled, Instance};

/// Numbers of the two inputs that are no events of a family; those follow.
const START: u64 = 0;
const TIMER: u64 = 1;
const FIRST_EVENT: u64 = 2;

/// A module that was read.
pub(crate) struct Opened {
    /// The path, as the user named it.
    pub path: &'static str,
    /// Digest of its content.
    pub digest: String,
    /// The module, translated once for all cores.
    pub compiled: Compiled,
    /// The description that the module gives.
    pub about: About,
}

impl Module for Opened {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn gating(&'static self, choice: &Choice, core: &GatingContext) -> GatingPolicy {
        gating(self, choice, core)
    }
}

/// A module that plays one policy, from events `E` to actions `A`.
struct Played<E, A> {
    module: &'static Opened,
    /// The choice in which a fault is noted.
    choice: Choice,
    /// The module with a memory of its own; none after a fault.
    instance: Option<Instance>,
    hears_tokens: bool,
    timer: Option<Time>,
    requested: VecDeque<A>,
    /// Action that no world can do, by which a run ends.
    impossible: fn() -> A,
    calls: i64,
    of: std::marker::PhantomData<fn(E)>,
}

impl<E: Record, A: Record> Played<E, A> {
    /// Starts a policy with what its world says of the machine.
    fn new(
        module: &'static Opened,
        choice: &Choice,
        context: &[u64],
        impossible: fn() -> A,
    ) -> Played<E, A> {
        let mut played = Played {
            module,
            choice: choice.clone(),
            instance: None,
            hears_tokens: module.about.wants(&["token", "response"]),
            timer: None,
            requested: VecDeque::with_capacity(ACTIONS),
            impossible,
            calls: 0,
            of: std::marker::PhantomData,
        };
        match module.compiled.instance() {
            Ok(mut instance) => {
                let parameters = module.about.parameters.iter();
                let values: Vec<f64> = parameters.map(|p| choice.number(p.name)).collect();
                instance.begin(&values);
                played.instance = Some(instance);
                played.call(Time::ZERO, START, context);
            }
            Err(problem) => played.fail(Time::ZERO, START, &problem),
        }
        played
    }

    fn call(&mut self, now: Time, event: u64, fields: &[u64]) {
        let Some(instance) = &mut self.instance else { return };
        self.calls += 1;
        if let Err(problem) = instance.call(now.0, event, fields).and_then(|()| {
            let block = instance.block();
            let timer = Time(block.timer());
            self.timer = (timer < Time::NEVER).then_some(timer);
            // A timer that rings again at once would ring for ever.
            if timer < now || timer == now && event == TIMER {
                return Err(format!("set its timer to {timer}, expected a time to come"));
            }
            let count = block.count();
            if count > ACTIONS as u64 {
                return Err(format!("requested {count} actions, expected {ACTIONS} at most"));
            }
            for n in 0..count as usize {
                let (kind, fields) = block.action(n);
                self.requested.push_back(action(kind, &fields)?);
            }
            Ok(())
        }) {
            self.fail(now, event, &problem);
        }
    }

    /// Notes a fault and ends the run.
    #[cold]
    fn fail(&mut self, now: Time, event: u64, problem: &str) {
        let name = match event {
            START => "start",
            TIMER => "timer",
            _ => E::KINDS[(event - FIRST_EVENT) as usize],
        };
        let path = self.module.path;
        self.choice.blame(format!("{path}: at {now}, told `{name}`, it {problem}"));
        self.instance = None;
        self.timer = None;
        self.requested.clear();
        self.requested.push_back((self.impossible)());
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

impl<E: Record, A: Record> Policy for Played<E, A> {
    type Event = E;
    type Action = A;

    fn on_event(&mut self, now: Time, event: &E) {
        let mut fields = [0; FIELDS];
        let (kind, count) = event.put(&mut fields);
        if self.module.about.wanted & 1 << kind != 0 {
            self.call(now, FIRST_EVENT + kind as u64, &fields[..count]);
        }
    }

    fn on_timer(&mut self, now: Time) {
        self.call(now, TIMER, &[]);
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn poll_action(&mut self) -> Option<A> {
        self.requested.pop_front()
    }

    fn snapshot(&self) -> Snapshot {
        vec![("calls", self.calls)]
    }
}

impl Gating for Played<gating::Event, gating::Action> {
    fn hears_tokens(&self) -> bool {
        self.hears_tokens
    }
}

/// Makes the policy of a core.
fn gating(module: &'static Opened, choice: &Choice, core: &GatingContext) -> GatingPolicy {
    let costs = &core.costs;
    let [cache, memory] = core.memory;
    let times = [costs.entry, costs.break_even, costs.wake_up, costs.restore];
    let [entry, break_even, wake_up, restore] = times.map(|time| time.0);
    let context = [
        entry,
        break_even,
        wake_up,
        restore,
        costs.slots.period.0,
        costs.slots.offset.0,
        core.token_entries as u64,
        cache.0,
        memory.0,
    ];
    let impossible = || gating::Action::Rest { state: u8::MAX };
    Box::new(Played::<gating::Event, _>::new(module, choice, &context, impossible))
}
