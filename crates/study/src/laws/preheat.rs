//! Laws of preheat: three services of a machine that loses its caches, and what it answers.

use std::collections::BTreeSet;

use halfwink_policy::preheat::{Action, Event, Hears, PreheatPolicy, SetId};
use halfwink_techniques::{Choice, Make};
use halfwink_units::{LineAddr, Time};

use super::{no_laws, Broken, Dice, Law, Machines};
use crate::error::StudyError;

const SERVICES: u64 = 3;
/// Most dumps that the machine keeps.
const MOST_DUMPS: usize = 64;
/// Longest time of a load, a dump or a request, and from an announcement to its packet.
const LONGEST: Time = Time::ns(10_000_000);
/// Likewise of answers that are late.
const LATE: Time = Time::ns(60_000_000_000);

pub(super) struct Scene {
    hears: Hears,
    is_faulty: bool,
    /// Events that are on their way.
    coming: Vec<(Time, Event)>,
    /// Service whose window of estimation is open.
    window: Option<u16>,
    dumps: BTreeSet<u32>,
    built: BTreeSet<u16>,
    /// Number of the last dump.
    last: u32,
}

impl Scene {
    fn new(hears: Hears, is_faulty: bool) -> Scene {
        let (dumps, built) = (BTreeSet::new(), BTreeSet::new());
        Scene { hears, is_faulty, coming: Vec::new(), window: None, dumps, built, last: 0 }
    }

    /// Answers an action after a while.
    fn answer(&mut self, now: Time, event: Event, dice: &mut Dice) {
        let most = if self.is_faulty { LATE } else { LONGEST };
        self.coming.push((now + dice.time(most), event));
    }

    fn is_loading(&self, of: u16) -> bool {
        self.coming.iter().any(|(_, e)| matches!(e, Event::Loaded { service } if *service == of))
    }

    /// Takes the answers about a service that have not come yet.
    fn cancel(&mut self, of: u16, is_forgotten: bool) {
        self.coming.retain(|(_, event)| match event {
            Event::Loaded { service } => *service != of,
            Event::Built { service, .. } => !is_forgotten || *service != of,
            _ => true,
        });
    }

    fn packet(port: u16, dice: &mut Dice) -> Vec<Event> {
        let mut events = Vec::new();
        let line = LineAddr(dice.below(1 << 32));
        events.push(Event::Received { first: line, lines: 1 + dice.below(24) as u16 });
        events.push(Event::Arrived { port });
        let missed =
            |n| Event::Missed { line: LineAddr(line.0 + n), site: dice.below(8), is_code: n < 3 };
        events.extend((0..6).map(missed));
        events
    }

    /// Does an action; what it cannot do breaks a law.
    fn act(&mut self, now: Time, action: Action, dice: &mut Dice) -> Result<(), String> {
        action.check()?;
        match action {
            Action::Estimate { service } => {
                if let Some(open) = self.window {
                    return Err(format!(
                        "opened a window of service {service}, and that of {open} is open"
                    ));
                }
                self.window = Some(service);
            }
            Action::Dump { service } => {
                if self.window.take() != Some(service) {
                    return Err(format!("dumped for service {service}, which has no window"));
                }
                // Never used twice: a policy that names a dump it has used up is found out, which a
                // number that comes back would hide.
                self.last += 1;
                let (set, lines) = (SetId(self.last), dice.below(1 << 12) as u32);
                self.answer(now, Event::Dumped { service, set, lines }, dice);
            }
            Action::Abandon { service } => {
                self.window.take_if(|open| *open == service);
            }
            Action::Intersect { set, .. } | Action::Unite { set, .. } | Action::Discard { set }
                if !self.dumps.remove(&set.0) =>
            {
                return Err(format!("named the dump {}, which is not kept", set.0));
            }
            Action::Subtract { service } | Action::Build { service } => {
                let lines = dice.below(1 << 12) as u32;
                self.answer(now, Event::Built { service, lines }, dice);
            }
            Action::Load { service, .. } if !self.built.contains(&service) => {
                return Err(format!("loaded the set of service {service}, which has none"));
            }
            Action::Load { service, .. } | Action::Sham { service } => {
                self.answer(now, Event::Loaded { service }, dice);
            }
            // A stopped load is over at once, and still answered: a policy that holds a request
            // waits for that answer.
            Action::Stop { service } => {
                self.cancel(service, false);
                self.coming.push((now, Event::Loaded { service }));
            }
            Action::Hold { service } if !self.is_loading(service) => {
                return Err(format!("held a request of service {service}, which loads nothing"));
            }
            Action::Forget { service } => {
                self.built.remove(&service);
                self.cancel(service, true);
            }
            _ => {}
        }
        Ok(())
    }
}

impl super::Scene for Scene {
    type Policy = PreheatPolicy;

    fn set(
        choice: &Choice,
        _machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Scene, PreheatPolicy), StudyError> {
        let Make::Preheat(preheating) = choice.technique().make else {
            return Err(no_laws(choice));
        };
        Ok((Scene::new(preheating.hears, is_faulty), (preheating.build)(choice)))
    }

    fn tells(&self, event: &Event) -> bool {
        match event {
            Event::Missed { .. } => self.hears.misses,
            Event::Received { .. } => self.hears.packets,
            Event::Closed { .. } => self.hears.restarts,
            _ => true,
        }
    }

    fn due(&self) -> Time {
        self.coming.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }

    fn events(&mut self, now: Time, dice: &mut Dice) -> Vec<Event> {
        let first = (0..self.coming.len()).min_by_key(|&n| self.coming[n].0);
        if let Some(first) = first.filter(|&n| self.coming[n].0 <= now) {
            let (_, event) = self.coming.remove(first);
            match event {
                Event::Dumped { set, .. } => {
                    self.dumps.insert(set.0);
                }
                Event::Built { service, .. } => {
                    self.built.insert(service);
                }
                Event::Arrived { port } => {
                    let idle = now + dice.time(LONGEST);
                    self.coming.push((idle, Event::Idle));
                    return Scene::packet(port, dice);
                }
                _ => {}
            }
            return vec![event];
        }
        let service = 80 + dice.below(SERVICES) as u16;
        if dice.comes(0.1) {
            return vec![Event::Lost];
        }
        if dice.comes(0.05) {
            return vec![Event::Closed { port: service }];
        }
        let due = now + dice.time(LONGEST);
        let [is_lost, is_false] = [0.2, 0.2].map(|share| self.is_faulty && dice.comes(share));
        if !is_false {
            self.coming.push((due, Event::Arrived { port: service }));
        }
        if is_lost {
            vec![]
        } else {
            vec![Event::Announced { service, due }]
        }
    }

    fn follow(
        &mut self,
        now: Time,
        event: Option<&Event>,
        actions: &[Action],
        dice: &mut Dice,
    ) -> Result<(), Broken> {
        for action in actions {
            let taken = event.map_or(Ok(()), |event| event.takes(action));
            let done = taken.and_then(|()| self.act(now, *action, dice));
            done.map_err(|found| (Law::Possible, found))?;
        }
        if self.dumps.len() > MOST_DUMPS {
            let found = format!("kept more than {MOST_DUMPS} dumps, expected use of them");
            return Err((Law::Answers, found));
        }
        Ok(())
    }
}
