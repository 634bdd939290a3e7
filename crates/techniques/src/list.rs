//! Techniques by name.
//!
//! A technique is what a user names and compares; its policy is the object that decides. A row says
//! which worlds have the events that it needs and which parameters it takes, and makes its policy
//! from what a world hands over: costs, cores, rates. Policies never see machine files.

use std::any::Any;
use std::sync::OnceLock;

use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_policy::completion::CompletionPolicy;
use halfwink_policy::gating::GatingPolicy;
use halfwink_policy::offload::{CallProfile, DelegationParameters, OffloadPolicy};
use halfwink_policy::preheat::{Hears, PreheatPolicy};
use halfwink_policy::scaling::ScalingPolicy;
use halfwink_policy::segregation::{Replacement, SegregationPolicy};
use halfwink_policy::steering::SteeringPolicy;
use halfwink_units::Time;

use crate::context::{CircuitsContext, CompletionContext, GatingContext};
use crate::node::{Idler, Machine, NodePart};
use crate::rows::{self, Available};
use crate::{file_name, router, server, Choice, Error, Parameter, Slot};

/// A way to save energy that can be compared with others.
pub struct Technique {
    /// Name on the command line.
    pub name: &'static str,
    /// Family, as the folder of its policy.
    pub family: &'static str,
    /// Worlds whose events it understands.
    pub worlds: &'static [&'static str],
    /// A description in one line.
    pub title: &'static str,
    /// The publication that it comes from.
    pub source: &'static str,
    /// Whether an operator can use it today, and how.
    pub available: Available,
    /// The parameters that can be chosen.
    pub parameters: &'static [Parameter],
    /// Values of machines that no run under it reads, by path or section. Jobs that differ in
    /// nothing else share one result.
    pub unread: &'static [&'static str],
    /// The constructor of its policy or change, by family.
    pub make: Make,
    /// The file that its policy is in; none of the listed techniques has one.
    pub module: Option<&'static dyn Module>,
}

impl Technique {
    /// Returns whether it works while a core has something to do, so that a server of today has
    /// what requests cost under it from a profile.
    #[must_use]
    pub fn is_within_requests(&self) -> bool {
        match self.make {
            Make::Gating(row) => row.slots.iter().any(|&slot| slot != Slot::Idle),
            _ => false,
        }
    }
}

/// Makes a family's policy from what its worlds hand over.
pub enum Make {
    /// A technique that decides when a core sleeps.
    Gating(Gating),
    /// How many cores of a router forward, and how fast.
    Scaling(fn(&Choice, &router::Model) -> ScalingPolicy),
    /// Which machine serves a request.
    Steering(Steering),
    /// What a machine loads before a request comes.
    Preheat(Preheating),
    /// Which circuits an optical switch sets up next.
    Circuits(fn(&Choice, &CircuitsContext) -> CircuitsPolicy),
    /// Which CPU completes a block I/O.
    Completion(fn(&Choice, &CompletionContext) -> CompletionPolicy),
    /// One slot or more of a server of today.
    Node(NodePart),
    /// Which kernel a model of core switching runs, by its name there.
    Kernel(fn(&Choice) -> &'static str),
    /// Changes the machine under another technique, to which it is added: `tap+central-wake-up`.
    Modifier(Modifier),
}

/// Makes a policy that decides which machine of a pair or a set serves a request.
#[derive(Clone, Copy)]
pub enum Steering {
    /// Takes its parameters alone.
    Alone(fn(&Choice) -> SteeringPolicy),
    /// Takes values of the described machines, too.
    Of(fn(&Choice, &server::Model, &server::Service) -> SteeringPolicy),
    /// Likewise, and decides for any ordered set of machines; the others decide for a pair.
    Set(fn(&Choice, &server::Model, &server::Service) -> SteeringPolicy),
    /// Takes its parameters alone for a pair, and values of the machines for any other set.
    Either {
        /// Makes the policy of a pair.
        pair: fn(&Choice) -> SteeringPolicy,
        /// Makes the policy of another set.
        set: fn(&Choice, &server::Model, &server::Service) -> SteeringPolicy,
    },
}

/// A technique that prepares a machine for requests: its policy, and what it asks to be told.
#[derive(Clone, Copy)]
pub struct Preheating {
    /// The information that it is told beside what all policies are told.
    pub hears: Hears,
    /// A function that makes its policy.
    pub build: fn(&Choice) -> PreheatPolicy,
}

/// A technique of the chip: a policy for each core, and what surrounds it.
#[derive(Clone, Copy)]
pub struct Gating {
    /// Slots that it takes. A core for which no technique decides in stalls or in halts does as the
    /// technique in the slot of kernel code says, or else as the first one.
    pub slots: &'static [Slot],
    /// Needs cells that keep the state of a gated core, which leak while it is on.
    pub retention: bool,
    /// What it changes of the machine.
    pub change: Change,
    /// Moves kernel code to cores that the machine must set aside.
    pub needs_os_cores: bool,
    /// The way in which it is run.
    pub plan: Plan,
    /// A function that tells when it delays a core that has something to do.
    pub delays: fn(&Choice) -> Delays,
    /// Makes its policy for a core.
    pub build: fn(&Choice, &GatingContext) -> GatingPolicy,
    /// Makes the policy that decides where a core's kernel entries run, if they do not simply run
    /// where they are; told what a first run found out of the system calls, if there was one.
    pub offload: Option<MakeOffload>,
    /// The parameters of the same rule for the system calls of a real program (`halfwink live
    /// delegate`), if it can decide for one.
    pub delegation: Option<fn(&Choice) -> DelegationParameters>,
    /// The rule that keeps kernel and user apart in the second levels, if they are not plain
    /// caches.
    pub segregation: Option<Segregation>,
    /// The idle policy that it is for a core of a server of today, if it is one.
    pub idle: Option<fn(&Choice, &Machine) -> Idler>,
}

/// Makes an offload policy from the clock cycles that a move to another core takes, and from what a
/// first run found out of the system calls.
pub type MakeOffload = fn(&Choice, u64, &[CallProfile]) -> OffloadPolicy;

/// A change of a chip under a technique. The chip's world makes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Leaves the machine as it is.
    None,
    /// Stops the clock of a core that waits.
    GatedClock,
    /// Gates the execution units of a core in place of the core.
    GatedUnits,
    /// Sets no cores aside for the kernel.
    WithoutOsCores,
    /// Has halted cores enter the idle state of this name, which the machine must describe.
    IdleState(&'static str),
    /// Has halted cores enter any idle state that is on sale, of which the machine must describe
    /// some.
    IdleStates,
    /// Has what cores share sleep while all of them are halted, as the machine must describe.
    PackageSleep,
    /// Has cores wake at any time, always as fast as the machine says.
    FixedWakeUp,
    /// Has cores wake in slots that recur, assigned by place.
    DistributedWakeUp,
    /// Has cores wake as fast as a controller grants.
    CentralWakeUp {
        /// Time from a core to the controller, or back, if it is not the machine's.
        delay: Option<Time>,
    },
}

/// The rule by which a technique shares the second level of each core.
#[derive(Clone, Copy)]
pub struct Segregation {
    /// Which line of a set leaves.
    pub replacement: Replacement,
    /// Needs monitors of what each side would make of more ways.
    pub monitors: bool,
    /// Makes the policy of a second level of so many ways.
    pub build: fn(&Choice, u8) -> SegregationPolicy,
}

/// A change that a modifier makes.
#[derive(Clone, Copy)]
pub enum Modifier {
    /// The chip.
    Chip(fn(&Choice) -> Change),
    /// When idle cores of a model of core switching power down: a value of `kernel.power_down`.
    PowerDown(&'static str),
}

/// The situations in which a core that has something to do sleeps all the same. Techniques that
/// delay in the same way may share one run. The run itself finds out which of them do so; this
/// value only selects the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delays {
    /// It never delays a core.
    Never,
    /// It delays a core by one wake-up after each halt of the operating system.
    AfterHalts,
    /// After some halts, by its own choice.
    AfterSomeHalts,
    /// It delays a core also in stalls on memory.
    Anywhere,
}

/// The way in which a technique is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Once, at the machine's own frequency.
    Once,
    /// At every frequency of the machine; that with the least product of energy and delay counts.
    LeastEnergyDelay,
    /// At full frequency to measure how much of the time the cores run, then at the least frequency
    /// that is predicted to slow the work down no more than the technique's `max_slowdown`.
    BoundedSlowdown,
    /// Twice: at first nothing moves, and system calls are measured.
    Profiled,
}

/// A policy in a file of the user's.
pub trait Module: Send + Sync {
    /// Returns the digest of the file's content, in hexadecimal digits.
    fn digest(&self) -> &str;

    /// Returns the module as what its loader made it, from which its row makes policies.
    fn as_any(&self) -> &dyn Any;
}

/// Reads the file of this path into a row; with a digest, it must have that content.
pub type Loader = fn(path: &str, digest: &str) -> Result<&'static Technique, Error>;

static LOADER: OnceLock<Loader> = OnceLock::new();

/// Sets the loader of policies in files. A program that sets none rejects their names.
pub fn set_loader(loader: Loader) {
    // A second library of the same process sets the same one.
    let _ = LOADER.set(loader);
}

/// Reads the policy of a file into a row, whichever its worlds are.
///
/// # Errors
/// If the file cannot be read, is no policy, or this program plays none.
pub fn technique_in_file(name: &str) -> Result<&'static Technique, Error> {
    let (path, digest) = file_name::split(name);
    let Some(load) = LOADER.get() else {
        let message = format!("{path}: this program plays no policies from files, only named ones");
        return Err(Error::Usage(message));
    };
    load(path, digest)
}

/// Returns the row of a file in this world; see [`file_name`].
fn row_of_file(world: &str, name: &str) -> Result<&'static Technique, Error> {
    let technique = technique_in_file(name)?;
    if !technique.worlds.contains(&world) {
        let (family, worlds) = (technique.family, technique.worlds.join(", "));
        return Err(Error::Usage(format!(
            "{}: a policy of the family `{family}`, for {worlds}; not for the world `{world}`",
            technique.name
        )));
    }
    Ok(technique)
}

/// Every technique of every world.
pub fn techniques() -> impl Iterator<Item = &'static Technique> {
    rows::FAMILIES.iter().copied().flatten()
}

/// The technique with this name, in this world; or that of a file, if the name is one.
///
/// # Errors
/// If there is none; with the nearest name, or with the worlds that have it.
pub fn technique(world: &str, name: &str) -> Result<&'static Technique, Error> {
    if file_name::is_file(name) {
        return row_of_file(world, name);
    }
    let here = || techniques().filter(|t| t.worlds.contains(&world));
    if let Some(found) = here().find(|t| t.name == name) {
        return Ok(found);
    }
    if let Some(elsewhere) = techniques().find(|t| t.name == name) {
        let (name, world, asked) = (name.to_owned(), elsewhere.worlds[0], world.to_owned());
        return Err(Error::OtherWorld { name, world, asked });
    }
    if name.contains('/') {
        let message = format!("`{name}`: no file with a policy; {}", file_name::HINT);
        return Err(Error::Usage(message));
    }
    Err(Error::unknown("technique", name, here().map(|t| t.name)))
}

/// Finds these techniques of a world, with their parameters; if none are named, all that stand
/// alone.
///
/// # Errors
/// If there is none of a name.
pub fn choices(world: &str, named: &[String]) -> Result<Vec<Choice>, Error> {
    if !named.is_empty() {
        return named.iter().map(|text| Choice::parse(world, text)).collect();
    }
    let alone = |t: &&Technique| t.worlds.contains(&world) && !matches!(t.make, Make::Modifier(_));
    techniques().filter(alone).map(|t| Choice::parse(world, t.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_technique_is_met_with_its_neighbour() {
        let error = technique("chip", "mapg-conter").err().unwrap();
        assert_eq!(
            error.to_string(),
            "unknown technique `mapg-conter`; did you mean `mapg-counter`?"
        );
        assert!(technique("chip", "tap").is_ok());
    }

    #[test]
    fn a_technique_of_another_world_names_that_world() {
        let error = technique("chip", "power-save").err().unwrap().to_string();
        let expected = "technique `power-save` is of the world `router`, not `chip`";
        assert_eq!(error, expected);
    }

    #[test]
    fn names_are_unique_and_lower_case_with_hyphens() {
        let all: Vec<&Technique> = techniques().collect();
        for (n, technique) in all.iter().enumerate() {
            let name = technique.name;
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(plain), "{name}");
            let shared =
                |other: &Technique| other.worlds.iter().any(|w| technique.worlds.contains(w));
            let twice = all[..n].iter().any(|other| other.name == name && shared(other));
            assert!(!twice, "{name} twice");
            assert!(!technique.worlds.is_empty(), "{name}");
            assert!(!technique.available.how.is_empty(), "{name}");
            for (m, parameter) in technique.parameters.iter().enumerate() {
                let first = technique.parameters.iter().position(|p| p.name == parameter.name);
                assert_eq!(first, Some(m), "{name}:{}", parameter.name);
                parameter.check();
            }
        }
    }
}
