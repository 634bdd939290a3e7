//! Laws of scaling: cores of a router that poll, find nothing, and rest.

use halfwink_policy::scaling::{Action, Event, Rest, Scaling, ScalingPolicy, ENTRIES};
use halfwink_techniques::router::Model;
use halfwink_units::Time;

use super::{Broken, Dice, Law};

pub(super) struct Scene {
    /// The cores that take part.
    awake: Vec<bool>,
    steps: u8,
    /// The cores whose polls the policy is told of.
    hears: Vec<bool>,
    is_faulty: bool,
}

impl Scene {
    pub(super) fn new(model: &Model, policy: ScalingPolicy, is_faulty: bool) -> Scene {
        let cores = model.spec().cores.count;
        Scene {
            awake: vec![true; cores.into()],
            steps: model.steps(),
            hears: (0..cores).map(|core| policy.hears_polls(core)).collect(),
            is_faulty,
        }
    }

    fn check(&self, action: &Action) -> Result<(), String> {
        let below = |what: &str, found: u8, count: usize| match usize::from(found) < count {
            true => Ok(()),
            false => Err(format!("named the {what} {found}, expected one below {count}")),
        };
        let core = |core| below("core", core, self.awake.len());
        let step = |step| below("P-state", step, self.steps.into());
        match *action {
            Action::Wake { core: n } | Action::Park { core: n } => core(n),
            Action::SetStep { step: n } => step(n),
            Action::Wish { core: n, step: m } => core(n).and_then(|()| step(m)),
            Action::Move { entry, to, .. } => {
                below("entry", entry, ENTRIES).and_then(|()| core(to))
            }
            Action::Rest { core: n, rest } => match rest {
                Rest::Pause { span } | Rest::HaltFor { span, .. } | Rest::Sleep { span, .. }
                    if span == Time::ZERO =>
                {
                    Err("requested a rest of no time".to_owned())
                }
                Rest::Again { polls: 0 } => Err("requested no polls".to_owned()),
                _ => core(n),
            },
        }
    }
}

impl super::Scene for Scene {
    type Policy = ScalingPolicy;

    fn due(&self) -> Time {
        Time::NEVER
    }

    fn events(&mut self, _now: Time, dice: &mut Dice) -> Vec<Event> {
        let core = dice.below(self.awake.len() as u64) as u8;
        if !self.awake[usize::from(core)] {
            return vec![];
        }
        let taken = if dice.comes(0.5) { dice.below(33) as u32 } else { 0 };
        let waiting = taken + if taken == 32 { dice.below(1000) as u32 } else { 0 };
        let poll = Event::Poll { core, taken, waiting };
        let mut events = if self.hears[usize::from(core)] { vec![poll] } else { vec![] };
        if taken == 0 {
            events.push(Event::Empty { core });
        }
        // Messages that are lost: a core polls, and its policy does not hear of it.
        if self.is_faulty && !events.is_empty() && dice.comes(0.2) {
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
            self.check(action).map_err(|found| (Law::Possible, found))?;
            match *action {
                Action::Wake { core } => self.awake[usize::from(core)] = true,
                Action::Park { core } => self.awake[usize::from(core)] = false,
                _ => {}
            }
        }
        if !self.awake.contains(&true) {
            return Err((Law::Possible, "parked all cores, expected one to forward".to_owned()));
        }
        if let Some(&Event::Empty { core: asked }) = event {
            let is_answer = |a: &&Action| matches!(a, Action::Rest { core, .. } if *core == asked);
            let answers = actions.iter().filter(is_answer).count();
            if answers != 1 {
                let found = format!("answered {answers} times, expected one rest of core {asked}");
                return Err((Law::Answers, found));
            }
        }
        Ok(())
    }
}
