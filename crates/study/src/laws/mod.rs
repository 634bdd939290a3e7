//! Laws of policies: what holds for every policy of a family, whatever its world sends it.
//!
//! ```text
//! scene of a family ── random lawful events ──▶ policy ── actions ──▶ scene: can it follow?
//!    (each seed without and with            ├──▶ its twin ── the same actions?
//!     late and lost messages)               └──▶ published techniques ── the same actions?
//! ```
//!
//! A scene is the smallest world of its family. It sends only what the world could send, in an
//! order in which the world could send it, and takes the actions as the world does.

mod circuits;
mod completion;
mod gating;
mod offload;
mod preheat;
mod published;
mod scaling;
mod segregation;
mod steering;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use halfwink_engine::draw::above_zero;
use halfwink_engine::{stream, Stream};
use halfwink_policy::Policy;
use halfwink_techniques::{router, server, techniques, Choice, Gating, Make, Technique};
use halfwink_units::Time;
use serde::Serialize;

use crate::error::StudyError;
use crate::library::Library;
pub use published::Likeness;
use published::{Published, Script};

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
    /// Seeds under which it was checked; 0 if the check ended before.
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
    /// Published techniques beside it, the most alike first. They are those of its family that
    /// decide in the same machine, can be told all that they ask for, and need no first run.
    pub published: Vec<Likeness>,
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
trait Scene: Sized {
    /// Policies of the family.
    type Policy: Policy<Event: Debug, Action: Debug + Copy + PartialEq>;

    /// Makes the policy of a technique, and the scene around it.
    ///
    /// # Errors
    /// If the technique has another scene, or cannot be made in this one.
    fn set(
        choice: &Choice,
        machines: &Machines,
        is_faulty: bool,
    ) -> Result<(Self, Self::Policy), StudyError>;

    /// Returns whether its policy is told of an event. Others are for published techniques that
    /// hear more.
    fn tells(&self, _event: &<Self::Policy as Policy>::Event) -> bool {
        true
    }

    /// Returns whether its events are all that the policy of another scene is told, and its actions
    /// mean the same there.
    fn covers(&self, _other: &Self) -> bool {
        true
    }

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
    script: Script<S::Policy>,
}

impl<S: Scene> Stage<'_, S> {
    /// Calls both with an event; with none their timer rings, or they start.
    fn call(
        &mut self,
        event: Option<&<S::Policy as Policy>::Event>,
        rings: bool,
    ) -> Result<(), Broken> {
        let now = self.now;
        let heard = self.script.events.len() + usize::from(event.is_some());
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
        self.script.decisions.note(heard, now, &actions);
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
                let called = match self.scene.tells(&event) {
                    true => self.call(Some(&event), false),
                    false => Ok(()),
                };
                let called = called.map_err(|broken| (format!("{event:?}"), broken));
                self.script.events.push((self.now, event));
                called?;
            }
        }
        Ok(())
    }
}

/// Returns the world of a technique: the one named, or the first that has it and has laws.
fn world_of(technique: &str) -> &'static str {
    let name = technique.split([':', '+']).next().unwrap_or_default();
    let known = ["chip", "router", "server", "storage", "preheat", "fabric", "racks"];
    if Choice::names_file(technique) {
        // A file says which world it is for.
        let is_for = |world: &&&str| Choice::parse(world, technique).is_ok();
        return known.iter().find(is_for).copied().unwrap_or(known[0]);
    }
    let has = |world: &&&str| techniques().any(|t| t.name == name && t.worlds.contains(*world));
    known.iter().find(has).copied().unwrap_or(known[0])
}

/// The described machines in which some families decide.
struct Machines<'a> {
    router: &'a router::Model,
    server: &'a server::Model,
    service: &'a server::Service,
}

/// Returns the error of a technique that has no scene, or another one.
fn no_laws(choice: &Choice) -> StudyError {
    let Technique { name, family, .. } = choice.technique();
    StudyError::Usage(format!(
        "{name}: no laws of the family `{family}` here, expected gating, c-states, scaling, \
         steering, completion, preheat, circuits, segregation, or offload without a first run"
    ))
}

/// A policy whose laws are checked.
struct Subject<'a> {
    choice: &'a Choice,
    machines: Machines<'a>,
    published: Published,
}

impl Subject<'_> {
    /// Plays the events of a seed, with or without faults.
    ///
    /// # Errors
    /// If its family has no laws, or it cannot be made.
    fn play(&mut self, seed: u64, is_faulty: bool) -> Result<Result<(), Unkept>, StudyError> {
        match self.choice.technique().make {
            Make::Gating(Gating { segregation: Some(_), .. }) => {
                self.play_in::<segregation::Scene>(seed, is_faulty)
            }
            Make::Gating(Gating { offload: Some(_), .. }) => {
                self.play_in::<offload::Scene>(seed, is_faulty)
            }
            Make::Gating(_) => self.play_in::<gating::Scene>(seed, is_faulty),
            Make::Circuits(_) => self.play_in::<circuits::Scene>(seed, is_faulty),
            Make::Completion(_) => self.play_in::<completion::Scene>(seed, is_faulty),
            Make::Preheat(_) => self.play_in::<preheat::Scene>(seed, is_faulty),
            Make::Scaling(_) => self.play_in::<scaling::Scene>(seed, is_faulty),
            Make::Steering(_) => self.play_in::<steering::Scene>(seed, is_faulty),
            _ => Err(no_laws(self.choice)),
        }
    }

    fn play_in<S: Scene>(
        &mut self,
        seed: u64,
        is_faulty: bool,
    ) -> Result<Result<(), Unkept>, StudyError> {
        let set = || S::set(self.choice, &self.machines, is_faulty);
        let ((scene, policy), (_, twin)) = (set()?, set()?);
        let mut stage = Stage {
            scene,
            policies: [policy, twin],
            choice: self.choice,
            now: Time::ZERO,
            calls: 0,
            dice: Dice(stream(seed, "laws")),
            script: Script::new(),
        };
        let played = stage.play();
        stage.script.end = stage.now;
        // A module that broke its limits requests nothing more: no decision of it is left to
        // compare.
        let is_stopped = matches!(played, Err((_, (Law::Limits, _))));
        if seed < published::SEEDS && !is_stopped {
            let Stage { scene, script, .. } = &stage;
            self.published.play(scene, &self.machines, (seed, is_faulty), script);
        }
        Ok(played.map_err(|(event, broken)| (stage.calls, stage.now, event, broken)))
    }
}

/// Checks the laws of a technique's family on its policy, and finds the published techniques that
/// decide as it does. Each seed is played without faults and with them.
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
    let choice = Choice::parse(world.unwrap_or_else(|| world_of(technique)), technique)?;
    // Only now: an error about a file whose name has a `+` says how to write that name.
    if choice.parts().count() > 1 {
        let message = format!("{technique}: expected one policy; check each of them alone");
        return Err(StudyError::Usage(message));
    }
    let router = library.router("westmere", &[])?;
    let server = library.server("niccolini", &[])?;
    let service = server.model.service("count");
    let service =
        service.ok_or_else(|| StudyError::Usage("niccolini: no workload `count`".to_owned()))?;
    let machines = Machines { router: &router.model, server: &server.model, service: &service };
    let mut subject = Subject { choice: &choice, machines, published: Published::of(&choice) };
    let mut laws: Vec<(Law, Verdict)> = Law::ALL
        .into_iter()
        .filter(|&law| law != Law::Limits || choice.has_module())
        .map(|law| (law, Verdict { law: law.title(), seeds: 0, breach: None }))
        .collect();
    let mut played = 0;
    for seed in 0..seeds {
        // Once at least, so that no law is left out by a clock.
        if seed > 0 && begun.elapsed() > within {
            break;
        }
        played += 1;
        if !check_seed(&mut subject, seed, &mut laws)? {
            break;
        }
    }
    let laws = laws.into_iter().map(|(_, verdict)| verdict).collect();
    let published = subject.published.likenesses();
    Ok(Checked { family: choice.technique().family, seeds: played, laws, published })
}

/// Plays a seed without and with faults. Returns false once a module broke its limits: it requests
/// nothing more.
fn check_seed(
    subject: &mut Subject<'_>,
    seed: u64,
    laws: &mut [(Law, Verdict)],
) -> Result<bool, StudyError> {
    for is_faulty in [false, true] {
        let found = subject.play(seed, is_faulty)?;
        let is_stopped = matches!(found, Err((_, _, _, (Law::Limits, _))));
        for (law, verdict) in laws.iter_mut() {
            let is_checked = match law {
                // Counted once, and also if it was broken.
                Law::Limits => !is_faulty,
                // A module that was stopped kept the others only as long as it answered.
                Law::Faults => is_faulty && !is_stopped,
                _ => !is_faulty && !is_stopped,
            };
            verdict.seeds += u64::from(is_checked);
        }
        let Err((event, at, input, (law, problem))) = found else { continue };
        let law = if is_faulty && law != Law::Limits { Law::Faults } else { law };
        let found = match law {
            Law::Limits => problem,
            _ => format!("at {at}, told {input}, it {problem}"),
        };
        if let Some((_, verdict)) = laws.iter_mut().find(|(of, _)| *of == law) {
            verdict.breach.get_or_insert(Breach { seed, event, found });
        }
        if is_stopped {
            return Ok(false);
        }
    }
    Ok(true)
}
