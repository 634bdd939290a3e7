//! Laws of scaling: cores of a router that poll, find nothing, and rest.

use halfwink_policy::scaling::{Action, Event, Rest, Scaling, ScalingPolicy};
use halfwink_techniques::router::Model;
use halfwink_techniques::Choice;
use halfwink_units::Time;

use super::{Broken, Dice, Law, Machines};
use crate::error::StudyError;

pub(super) struct Scene {
    /// The cores that take part.
    awake: Vec<bool>,
    steps: u8,
    /// The cores whose polls the policy is told of.
    hears: Vec<bool>,
    is_faulty: bool,
}

impl Scene {
    fn new(model: &Model, policy: &ScalingPolicy, is_faulty: bool) -> Scene {
        let cores = model.spec().cores.count;
        Scene {
            awake: vec![true; cores.into()],
            steps: model.steps(),
            hears: (0..cores).map(|core| policy.hears_polls(core)).collect(),
            is_faulty,
        }
    }

    fn check(&self, action: &Action) -> Result<(), String> {
        if let Action::Rest { rest: Rest::Again { polls: 0 }, .. } = action {
            return Err("requested no polls".to_owned());
        }
        action.check(self.awake.len() as u8, self.steps)
    }
}

impl super::Scene for Scene {
    type Policy = ScalingPolicy;

    fn set(
        choice: &Choice,
        machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, ScalingPolicy), StudyError> {
        let policy = choice.scaling(machines.router)?;
        Ok((Scene::new(machines.router, &policy, is_faulty), policy))
    }

    fn tells(&self, event: &Event) -> bool {
        match *event {
            Event::Poll { core, .. } => self.hears[usize::from(core)],
            _ => true,
        }
    }

    fn covers(&self, other: &Scene) -> bool {
        self.hears.iter().zip(&other.hears).all(|(mine, others)| *mine || !others)
    }

    fn due(&self) -> Time {
        Time::NEVER
    }

    fn events(&mut self, _now: Time, dice: &mut Dice) -> Vec<Event> {
        let core = dice.below(self.awake.len() as u64) as u8;
        // A parked core does not poll: an event of it would be one that no world can send.
        if !self.awake[usize::from(core)] {
            return vec![];
        }
        let taken = if dice.comes(0.5) { dice.below(33) as u32 } else { 0 };
        // Only a poll that took a full batch leaves packets behind: one that waits while a poll
        // takes fewer would be an event that no world sends.
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
