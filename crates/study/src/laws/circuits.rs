//! Laws of circuits: hosts that can be lost, what waits at them, and a switch that asks for its
//! next day.

use halfwink_policy::circuits::{Action, Circuits, CircuitsPolicy, Event};
use halfwink_techniques::{Choice, CircuitsContext, Make};
use halfwink_units::Time;

use super::{no_laws, Broken, Dice, Law, Machines};
use crate::error::StudyError;

const HOSTS: u16 = 8;
const SHORTEST_DAY_US: f64 = 50.0;

/// Returns the fabric that the policy is told of.
fn context() -> CircuitsContext {
    CircuitsContext {
        night_us: 10.0,
        shortest_day_us: SHORTEST_DAY_US,
        port_gbps: 10.0,
        hosts: HOSTS,
        planes: 3,
    }
}

pub(super) struct Scene {
    wants_demand: bool,
    /// Slots that each plane had; no planes if packets have a switch of their own.
    slots: Vec<u32>,
    lost: [bool; HOSTS as usize],
    is_faulty: bool,
}

impl Scene {
    fn new(policy: &CircuitsPolicy, is_faulty: bool) -> Scene {
        let planes = if policy.has_circuits() { policy.planes() } else { 0 };
        let slots = vec![0; planes.into()];
        Scene { wants_demand: policy.wants_demand(), slots, lost: Default::default(), is_faulty }
    }

    fn host(dice: &mut Dice) -> u16 {
        dice.below(HOSTS.into()) as u16
    }

    /// Checks that each host sends to one, and receives from one, and that both are there.
    fn check(&self, actions: &[Action]) -> Result<(), String> {
        let mut taken = [[false; HOSTS as usize]; 2];
        for action in actions {
            action.check(HOSTS, Time::from_ns(1e3 * SHORTEST_DAY_US))?;
            let Action::Join { from, to, .. } = *action else { continue };
            for (host, taken) in [from, to].map(usize::from).into_iter().zip(&mut taken) {
                if self.lost[host] {
                    return Err(format!("requested {action:?}, and host {host} is lost"));
                }
                if std::mem::replace(&mut taken[host], true) {
                    return Err(format!("requested {action:?}, and host {host} has one already"));
                }
            }
        }
        Ok(())
    }
}

impl super::Scene for Scene {
    type Policy = CircuitsPolicy;

    fn set(
        choice: &Choice,
        _machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, CircuitsPolicy), StudyError> {
        let Make::Circuits(make) = choice.technique().make else { return Err(no_laws(choice)) };
        let policy = make(choice, &context());
        Ok((Scene::new(&policy, is_faulty), policy))
    }

    fn tells(&self, event: &Event) -> bool {
        self.wants_demand || !matches!(event, Event::Demand { .. })
    }

    fn covers(&self, other: &Scene) -> bool {
        // Planes are scheduled one by one: an action of another number of them joins other hosts.
        self.slots.len() == other.slots.len() && (self.wants_demand || !other.wants_demand)
    }

    fn due(&self) -> Time {
        Time::NEVER
    }

    fn events(&mut self, _now: Time, dice: &mut Dice) -> Vec<Event> {
        let host = Scene::host(dice);
        if self.is_faulty && dice.comes(0.05) {
            let is_lost = &mut self.lost[usize::from(host)];
            *is_lost = !*is_lost;
            return vec![if *is_lost { Event::Lost { host } } else { Event::Back { host } }];
        }
        let mut events = Vec::new();
        for _ in 0..dice.below(6) {
            let (from, to) = (Scene::host(dice), Scene::host(dice));
            let bytes = if dice.comes(0.3) { 0 } else { dice.time(Time(1 << 36)).0 };
            // What a policy does not want to know, and messages that are lost.
            let is_told = self.wants_demand && from != to && !(self.is_faulty && dice.comes(0.2));
            events.extend(is_told.then_some(Event::Demand { from, to, bytes }));
        }
        if let Some(plane) = self.slots.len().checked_sub(1).map(|last| dice.below(last as u64 + 1))
        {
            let slot = &mut self.slots[plane as usize];
            events.push(Event::Next { plane: plane as u8, slot: *slot });
            *slot += 1;
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
        self.check(actions).map_err(|found| (Law::Possible, found))?;
        let answered = event.map_or(Ok(()), |event| event.is_answered_by(actions.iter()));
        answered.map_err(|found| (Law::Answers, found))
    }
}
