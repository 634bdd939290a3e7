//! Laws of steering: a small and a big machine, each of which can be lost.

use std::collections::VecDeque;

use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_techniques::server::Model;
use halfwink_techniques::Choice;
use halfwink_units::Time;

use super::{Broken, Dice, Law, Machines};
use crate::error::StudyError;

#[derive(Clone, Debug, Default)]
struct Machine {
    /// Times at which its requests came.
    requests: VecDeque<Time>,
    is_asleep: bool,
    is_lost: bool,
    /// Times at which it is awake, or asleep.
    awake: Option<Time>,
    asleep: Option<Time>,
}

/// Most requests of a machine.
const MOST: usize = 64;

pub(super) struct Scene {
    machines: [Machine; 2],
    wake: [Time; 2],
    down: [Time; 2],
    is_faulty: bool,
}

impl Scene {
    fn new(model: &Model, is_faulty: bool) -> Scene {
        let [small, big] = Side::BOTH.map(|side| &model.set().machines()[side.index()]);
        Scene {
            machines: Default::default(),
            wake: [small, big].map(|machine| machine.sleep[0].wake),
            down: [small, big].map(|machine| machine.sleep[0].down),
            is_faulty,
        }
    }

    fn turns(&self) -> impl Iterator<Item = (Time, Side)> + '_ {
        Side::BOTH.into_iter().flat_map(|side| {
            let machine = &self.machines[side.index()];
            [machine.awake, machine.asleep].into_iter().flatten().map(move |at| (at, side))
        })
    }

    /// Lets the oldest request of a machine finish.
    fn finish(&mut self, side: Side, now: Time) -> Event {
        let machine = &mut self.machines[side.index()];
        let came = machine.requests.pop_front().expect("it serves a request");
        Event::Finish { side, latency: now - came }
    }

    fn fault(&mut self, now: Time, side: Side) -> Vec<Event> {
        let machine = &mut self.machines[side.index()];
        if machine.is_lost {
            (machine.is_lost, machine.is_asleep) = (false, false);
            return vec![Event::Back { side }];
        }
        (machine.is_lost, machine.awake, machine.asleep) = (true, None, None);
        let mut events = vec![Event::Lost { side }];
        // Its requests finish, and come anew.
        for _ in 0..self.machines[side.index()].requests.len() {
            events.push(self.finish(side, now));
            events.push(Event::Arrive);
        }
        events
    }
}

impl super::Scene for Scene {
    type Policy = SteeringPolicy;

    fn set(
        choice: &Choice,
        machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, SteeringPolicy), StudyError> {
        let policy = choice.steering(machines.server, machines.service)?;
        Ok((Scene::new(machines.server, is_faulty), policy))
    }

    fn due(&self) -> Time {
        self.turns().map(|(at, _)| at).min().unwrap_or(Time::NEVER)
    }

    fn events(&mut self, now: Time, dice: &mut Dice) -> Vec<Event> {
        if let Some((at, side)) = self.turns().min_by_key(|turn| turn.0).filter(|t| t.0 <= now) {
            let machine = &mut self.machines[side.index()];
            if machine.asleep == Some(at) {
                (machine.asleep, machine.is_asleep) = (None, true);
                // Not sent if it was asked to wake meanwhile.
                return if machine.awake.is_none() { vec![Event::Asleep { side }] } else { vec![] };
            }
            (machine.awake, machine.is_asleep) = (None, false);
            return vec![Event::Awake { side }];
        }
        let side = Side::BOTH[dice.below(2) as usize];
        if self.is_faulty && dice.comes(0.05) {
            return self.fault(now, side);
        }
        let machine = &self.machines[side.index()];
        let serves = !machine.is_asleep && machine.asleep.is_none() && !machine.requests.is_empty();
        let is_full = self.machines.iter().any(|machine| machine.requests.len() >= MOST);
        match serves && (is_full || dice.comes(0.5)) {
            true => vec![self.finish(side, now)],
            false if is_full => vec![],
            false => vec![Event::Arrive],
        }
    }

    fn follow(
        &mut self,
        now: Time,
        event: Option<&Event>,
        actions: &[Action],
        dice: &mut Dice,
    ) -> Result<(), Broken> {
        let mut sent = 0;
        for action in actions {
            match *action {
                Action::Send { side } => {
                    sent += 1;
                    let [machine, other] = [side, side.other()].map(|s| &self.machines[s.index()]);
                    // With both lost there is no right answer, and the policy has to answer all the
                    // same.
                    if machine.is_lost && !other.is_lost {
                        let found = format!("sent a request to the lost machine {side:?}");
                        return Err((Law::Possible, found));
                    }
                    let machine = &mut self.machines[side.index()];
                    machine.requests.push_back(now);
                }
                Action::Wake { side } => {
                    let late = if self.is_faulty {
                        dice.time(Time::ns(60_000_000_000))
                    } else {
                        Time::ZERO
                    };
                    let machine = &mut self.machines[side.index()];
                    let is_down = machine.is_asleep || machine.asleep.is_some();
                    if is_down && machine.awake.is_none() && !machine.is_lost {
                        // A machine on its way down has to arrive there before it can wake.
                        let from = machine.asleep.unwrap_or(now);
                        machine.awake = Some(from + self.wake[side.index()] + late);
                    }
                }
                Action::Sleep { side } => {
                    let machine = &mut self.machines[side.index()];
                    if !machine.is_asleep && machine.asleep.is_none() && !machine.is_lost {
                        machine.asleep = Some(now + self.down[side.index()]);
                    }
                }
            }
        }
        let asked = usize::from(matches!(event, Some(Event::Arrive)));
        if sent != asked {
            let found = format!("sent {sent} requests, expected {asked}");
            return Err((Law::Answers, found));
        }
        Ok(())
    }
}
