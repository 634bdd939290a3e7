//! Laws of policies: what holds for every policy of a family, whatever its world sends it.
//!
//! ```text
//! scene of a family ── random lawful events ──▶ policy ── actions ──▶ scene: can it follow?
//!        (late and lost messages              └▶ its twin ── the same actions?
//!         in every other seed)
//! ```
//!
//! A scene is the smallest world of its family. It sends only what the world could send, in an
//! order in which the world could send it, and takes the actions as the world does.

mod circuits;
mod completion;
mod gating;
mod offload;
mod preheat;
mod scaling;
mod segregation;
mod steering;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use halfwink_engine::draw::above_zero;
use halfwink_engine::{stream, Stream};
use halfwink_policy::Policy;
use halfwink_techniques::{router, server, techniques, Choice, Gating, Make, Plan, Technique};
use halfwink_units::Time;
use serde::Serialize;

use crate::error::StudyError;
use crate::library::Library;

/// A law: a property that every policy of a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    Answers,
    Possible,
    Past,
    Storm,
    Twin,
    Faults,
    Limits,
}

impl Law {
    const ALL: [Law; 7] =
        [Law::Answers, Law::Possible, Law::Past, Law::Storm, Law::Twin, Law::Faults, Law::Limits];

    const fn title(self) -> &'static str {
        match self {
            Law::Answers => "answers every question once",
            Law::Possible => "requests only what its world can do",
            Law::Past => "sets no timer in the past",
            Law::Storm => "rings no timer without end",
            Law::Twin => "decides the same when told the same",
            Law::Faults => "keeps these laws while messages are late or lost",
            Law::Limits => "stays within the limits of a module",
        }
    }
}

/// First event at which a law was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// Seed of the events.
    pub seed: u64,
    /// Number of the event or timer, from 1.
    pub event: u64,
    /// Time, event, what was found and what was expected.
    pub found: String,
}

/// A law, and where it was broken first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The law in words.
    pub law: &'static str,
    /// Seeds under which it was checked.
    pub seeds: u64,
    /// The first breach; none if the law is kept.
    pub breach: Option<Breach>,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Family of the policy.
    pub family: &'static str,
    /// Seeds that were played; fewer than asked for if the time did not suffice.
    pub seeds: u64,
    /// One for each law.
    pub laws: Vec<Verdict>,
}

/// A breach without its place.
type Broken = (Law, String);
/// A breach with the number of its event, its time and the event.
type Unkept = (u64, Time, String, Broken);

/// Events of a seed.
const EVENTS: u64 = 200;
/// Timers that may ring at one moment, and between two events.
// Two bounds: a timer that is set anew for the same moment stops time, and one that moves on by a
// picosecond each would take years to reach the next event.
const RINGS: [u32; 2] = [100, 100_000];

/// Random numbers of a scene.
struct Dice(Stream);

impl Dice {
    /// Returns a number below `count`.
    fn below(&mut self, count: u64) -> u64 {
        // The draw lies in (0, 1], so that 1 itself has to be brought below `count`.
        ((above_zero(&mut self.0) * count as f64) as u64).min(count - 1)
    }

    fn comes(&mut self, share: f64) -> bool {
        above_zero(&mut self.0) <= share
    }

    /// Returns a time up to this, of any magnitude from a picosecond on.
    fn time(&mut self, most: Time) -> Time {
        // Uniform in the logarithm: a uniform draw up to 20 ms would hardly ever try the
        // nanoseconds at which policies race with their own timers.
        Time((most.0 as f64).powf(above_zero(&mut self.0)) as u64)
    }
}

/// The smallest world of a family.
trait Scene {
    /// Policies of the family.
    type Policy: Policy<Event: Debug, Action: Debug + Copy + PartialEq>;

    /// Returns the time of the next event that is on its way; `Time::NEVER` if there is none.
    fn due(&self) -> Time;

    /// Draws the next events at `now`, which reach the policy one after another.
    fn events(&mut self, now: Time, dice: &mut Dice) -> Vec<<Self::Policy as Policy>::Event>;

    /// Checks that nothing is left waiting at `now`.
    ///
    /// # Errors
    /// If something waited for too long.
    fn overdue(&self, _now: Time) -> Result<(), Broken> {
        Ok(())
    }

    /// Takes the actions of a call at `now`; of no event if a timer rang, or at the start.
    ///
    /// # Errors
    /// If it cannot follow them, or an answer is missing.
    fn follow(
        &mut self,
        now: Time,
        event: Option<&<Self::Policy as Policy>::Event>,
        actions: &[<Self::Policy as Policy>::Action],
        dice: &mut Dice,
    ) -> Result<(), Broken>;
}

/// A policy, its twin, and the scene in which both are.
struct Stage<'a, S: Scene> {
    scene: S,
    policies: [S::Policy; 2],
    choice: &'a Choice,
    now: Time,
    calls: u64,
    dice: Dice,
}

impl<S: Scene> Stage<'_, S> {
    /// Calls both with an event; with none their timer rings, or they start.
    fn call(
        &mut self,
        event: Option<&<S::Policy as Policy>::Event>,
        rings: bool,
    ) -> Result<(), Broken> {
        let now = self.now;
        // The twin finds decisions by what is not in the events: addresses, the order of a hash
        // map, a clock.
        let [actions, others] = self.policies.each_mut().map(|policy| {
            match event {
                Some(event) => policy.on_event(now, event),
                None if rings => policy.on_timer(now),
                None => {}
            }
            std::iter::from_fn(|| policy.poll_action()).collect::<Vec<_>>()
        });
        // Before the twins are compared: a module that was stopped answers nothing, which would
        // look like a broken law of its family.
        if let Some(fault) = self.choice.fault() {
            return Err((Law::Limits, fault.to_owned()));
        }
        if actions != others {
            return Err((Law::Twin, format!("requested {actions:?}, and its twin {others:?}")));
        }
        let [timer, other] = self.policies.each_ref().map(|p| p.next_timer());
        if timer != other {
            return Err((
                Law::Twin,
                format!("set its timer to {timer:?}, and its twin to {other:?}"),
            ));
        }
        if let Some(timer) = timer.filter(|&timer| timer < now) {
            return Err((
                Law::Past,
                format!("has its timer at {timer}, expected none before {now}"),
            ));
        }
        self.scene.follow(now, event, &actions, &mut self.dice)
    }

    /// Rings all timers before `until`, and moves there, or to the time of an event before.
    fn pass(&mut self, until: Time) -> Result<(), Broken> {
        let mut rings = [0_u32; 2];
        loop {
            // Inside the loop: an action on a timer may have brought the next event of the scene
            // forward, and no timer may ring behind it.
            let until = until.min(self.scene.due()).max(self.now);
            let timer = self.policies[0].next_timer().filter(|&due| due < until);
            let Some(due) = timer.map(|due| due.max(self.now)) else {
                self.now = until;
                return self.scene.overdue(until);
            };
            rings = [if due > self.now { 0 } else { rings[0] + 1 }, rings[1] + 1];
            self.now = due;
            if rings[0] > RINGS[0] || rings[1] > RINGS[1] {
                let found = format!("rang {} times since the last event, now at {due}", rings[1]);
                return Err((Law::Storm, found));
            }
            self.call(None, true)?;
        }
    }

    fn play(&mut self) -> Result<(), (String, Broken)> {
        let at_start = |broken| ("start".to_owned(), broken);
        // A policy may act before it hears of anything; these actions are judged like all others.
        self.call(None, false).map_err(at_start)?;
        let longest = Time::ns(20_000_000);
        while self.calls < EVENTS {
            let next = self.now + self.dice.time(longest);
            self.pass(next).map_err(|broken| ("timer".to_owned(), broken))?;
            self.calls += 1;
            for event in self.scene.events(self.now, &mut self.dice) {
                self.call(Some(&event), false).map_err(|b| (format!("{event:?}"), b))?;
            }
        }
        Ok(())
    }
}

/// Plays a policy in a scene.
fn play<S: Scene>(
    scene: S,
    make: impl Fn() -> S::Policy,
    choice: &Choice,
    seed: u64,
) -> Result<(), Unkept> {
    let policies = [make(), make()];
    let dice = Dice(stream(seed, "laws"));
    let mut stage = Stage { scene, policies, choice, now: Time::ZERO, calls: 0, dice };
    let played = stage.play();
    played.map_err(|(event, broken)| (stage.calls, stage.now, event, broken))
}

/// Returns the world of a technique: the one named, or the first that has it and has laws.
fn world_of(technique: &str) -> &'static str {
    let name = technique.split(':').next().unwrap_or_default();
    let known = ["chip", "router", "server", "storage", "preheat", "fabric", "racks"];
    if Choice::names_file(technique) {
        // A file says which world it is for.
        let is_for = |world: &&&str| Choice::parse(world, technique).is_ok();
        return known.iter().find(is_for).copied().unwrap_or(known[0]);
    }
    let has = |world: &&&str| techniques().any(|t| t.name == name && t.worlds.contains(*world));
    known.iter().find(has).copied().unwrap_or(known[0])
}

/// A policy, and what its world hands over to it at its start.
struct Subject<'a> {
    choice: &'a Choice,
    router: &'a router::Model,
    server: &'a server::Model,
    service: &'a server::Service,
}

impl Subject<'_> {
    /// Plays the events of a seed. In every other one messages are late or lost.
    ///
    /// # Errors
    /// If its family has no laws, or it cannot be made.
    fn play(&self, seed: u64) -> Result<Result<(), Unkept>, StudyError> {
        // Alternating, so that any number of seeds plays both kinds: a law that is broken only
        // under faults is reported as that one law.
        let (choice, is_faulty) = (self.choice, seed % 2 == 1);
        Ok(match choice.technique().make {
            Make::Gating(row) if row.offload.is_none() && row.segregation.is_none() => {
                let make = || (row.build)(choice, &gating::context());
                play(gating::Scene::new(is_faulty), make, choice, seed)
            }
            Make::Gating(Gating { segregation: Some(ruling), .. }) => {
                let make = || (ruling.build)(choice, segregation::WAYS);
                play(segregation::Scene::new(ruling.monitors, is_faulty), make, choice, seed)
            }
            Make::Gating(Gating { offload: Some(make), plan: Plan::Once, .. }) => {
                let make = || make(choice, offload::MOVE_CYCLES, &[]);
                play(offload::Scene::new(is_faulty), make, choice, seed)
            }
            Make::Circuits(make) => {
                let make = || make(choice, &circuits::context());
                play(circuits::Scene::new(&make(), is_faulty), make, choice, seed)
            }
            Make::Completion(make) => {
                let make = || make(choice, &completion::context());
                play(completion::Scene::new(&make(), is_faulty), make, choice, seed)
            }
            Make::Preheat(preheating) => {
                let make = || (preheating.build)(choice);
                play(preheat::Scene::new(preheating.hears, is_faulty), make, choice, seed)
            }
            Make::Scaling(make) => {
                let policy = make(choice, self.router);
                let scene = scaling::Scene::new(self.router, policy, is_faulty);
                play(scene, || make(choice, self.router), choice, seed)
            }
            Make::Steering(_) => {
                let make = || choice.steering(self.server, self.service);
                // Made once to see whether it can be: `play` makes two without a way to return an
                // error.
                make()?;
                let make = || make().expect("it was made before");
                play(steering::Scene::new(self.server, is_faulty), make, choice, seed)
            }
            _ => {
                let Technique { name, family, .. } = choice.technique();
                return Err(StudyError::Usage(format!(
                    "{name}: no laws of the family `{family}` here, expected gating, c-states, \
                     scaling, steering, completion, preheat, circuits, segregation, or offload \
                     without a first run"
                )));
            }
        })
    }
}

/// Checks the laws of a technique's family on its policy.
///
/// # Errors
/// If there is no such technique, or its family has no laws.
pub fn check_policy(
    library: &Library,
    world: Option<&str>,
    technique: &str,
    seeds: u64,
    within: Duration,
) -> Result<Checked, StudyError> {
    let begun = Instant::now();
    if technique.contains('+') {
        let message = format!("{technique}: expected one policy; check each of them alone");
        return Err(StudyError::Usage(message));
    }
    let choice = Choice::parse(world.unwrap_or_else(|| world_of(technique)), technique)?;
    let router = library.router("westmere", &[])?;
    let server = library.server("niccolini", &[])?;
    let service = server.model.service("count");
    let service =
        service.ok_or_else(|| StudyError::Usage("niccolini: no workload `count`".to_owned()))?;
    let (router, server, service) = (&router.model, &server.model, &service);
    let subject = Subject { choice: &choice, router, server, service };
    let mut laws: Vec<Verdict> = Law::ALL
        .into_iter()
        .filter(|&law| law != Law::Limits || choice.has_module())
        .map(|law| Verdict { law: law.title(), seeds: 0, breach: None })
        .collect();
    let mut played = 0;
    for seed in 0..seeds {
        if begun.elapsed() > within {
            break;
        }
        let found = subject.play(seed)?;
        played += 1;
        let Err((event, at, input, (law, problem))) = found else { continue };
        let law = if seed % 2 == 1 && law != Law::Limits { Law::Faults } else { law };
        let found = match law {
            Law::Limits => problem,
            _ => format!("at {at}, told {input}, it {problem}"),
        };
        if let Some(verdict) = laws.iter_mut().find(|verdict| verdict.law == law.title()) {
            verdict.breach.get_or_insert(Breach { seed, event, found });
        }
        // A module that broke its limits requests nothing more.
        if law == Law::Limits {
            break;
        }
    }
    for (law, verdict) in Law::ALL.into_iter().zip(&mut laws) {
        verdict.seeds = match law {
            Law::Limits => played,
            Law::Faults => played / 2,
            _ => played.div_ceil(2),
        };
    }
    Ok(Checked { family: choice.technique().family, seeds: played, laws })
}
