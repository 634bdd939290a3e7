//! Event logs of simulated runs, and replays of every log.
//!
//! ```text
//! run ── policies, hosted with a log ──▶ file ── header ──▶ fresh policies ── its lines ──▶ report
//! ```
//!
//! Worlds take any policy of a family: a logged run gets each inside a [`Host`] with a log, and is
//! the same run. A replay needs nothing but the file: the header has the job's names, and what is
//! listed for the technique makes its policies from them.

use std::path::Path;

use halfwink_eventlog as eventlog;
use halfwink_eventlog::{replayer, Family, Header, Place, Reader, Replayer, Writer};
use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_policy::completion::CompletionPolicy;
use halfwink_policy::gating::GatingPolicy;
use halfwink_policy::offload::{Delegation, DelegationParameters, OffloadPolicy};
use halfwink_policy::preheat::PreheatPolicy;
use halfwink_policy::scaling::ScalingPolicy;
use halfwink_policy::segregation::SegregationPolicy;
use halfwink_policy::steering::SteeringPolicy;
use halfwink_policy::switching::IdlePowerPolicy;
use halfwink_policy::wake_up::WakeUpPolicy;
use halfwink_policy::Host;
use halfwink_techniques::block::{self, LIVE_BLOCK};
use halfwink_techniques::{Choice, Make};
use halfwink_units::Time;

use crate::error::StudyError;
use crate::library::Library;
use crate::live_circuits::LIVE_CIRCUITS;
use crate::world::{world, Job};

/// Live worlds, and the simulated ones whose techniques decide in them.
const LIVE: [(&str, &str); 4] = [
    ("live router", "router"),
    ("live steer", "server"),
    ("live preheat", "preheat"),
    (LIVE_CIRCUITS, "fabric"),
];
/// The live world whose policies no machine describes: they count in nanoseconds, and are made from
/// their parameters alone.
const DELEGATE: &str = "live delegate";

/// The log of a run's policies, if they are logged.
#[derive(Default)]
pub struct Logs(Option<(Writer, Header)>);

/// A policy of a family, logged if the run is. Each has a number of its own in its family: its
/// core, its thread, its server.
macro_rules! hosts {
    ($($name:ident: $policy:ty, $family:ident;)*) => {
        impl Logs {$(
            pub(crate) fn $name(&self, number: usize, policy: $policy) -> $policy {
                let Some((writer, _)) = &self.0 else { return policy };
                let place = Place { family: Family::$family, stream: number as u32 };
                Box::new(Host::logged(policy, writer.stream(place)))
            }
        )*}
    };
}

hosts! {
    gating: GatingPolicy, Gating;
    wake_up: WakeUpPolicy, WakeUp;
    offload: OffloadPolicy, Offload;
    idle_power: IdlePowerPolicy, Switching;
    scaling: ScalingPolicy, Scaling;
    steering: SteeringPolicy, Steering;
    segregation: SegregationPolicy, Segregation;
    preheat: PreheatPolicy, Preheat;
    circuits: CircuitsPolicy, Circuits;
    completion: CompletionPolicy, Completion;
}

impl Logs {
    /// Begins the log of a job, if there is a place for it.
    pub(crate) fn of(job: &Job, choice: &Choice, path: Option<&Path>) -> Result<Logs, StudyError> {
        let Some(path) = path else { return Ok(Logs::default()) };
        let all = job.options.iter().chain(&job.set);
        let header = Header::new(&job.world, family(choice), &choice.to_string())
            .on(&job.machine, &job.workload)
            .with(all.map(|(path, value)| (path.as_str(), value.as_str())));
        Ok(Logs(Some((Writer::create(path, &header)?, header))))
    }

    /// The job runs once more, with fresh policies: at another frequency, say.
    pub(crate) fn begin_again(&self) {
        if let Some((writer, header)) = &self.0 {
            writer.header(header);
        }
    }

    /// The run is whole.
    ///
    /// # Errors
    /// If the log could not be written to its end.
    pub(crate) fn end(self, end: Time) -> Result<(), StudyError> {
        if let Some((writer, _)) = self.0 {
            writer.end(end, 0)?;
        }
        Ok(())
    }
}

/// The family of most policies of a run.
fn family(choice: &Choice) -> Family {
    match choice.technique().make {
        Make::Gating(_) | Make::Modifier(_) => Family::Gating,
        Make::Scaling(_) | Make::Node(_) => Family::Scaling,
        Make::Steering(_) => Family::Steering,
        Make::Kernel(_) => Family::Offload,
        Make::Preheat(_) => Family::Preheat,
        Make::Circuits(_) => Family::Circuits,
        Make::Completion(_) => Family::Completion,
    }
}

/// Tells fresh policies what a log says, of a simulated run or of a live program, up to the first
/// decision that differs. They are made from the log's header alone; those of another `technique`,
/// if one is given, for who asks where that would have decided otherwise.
///
/// # Errors
/// If the log cannot be read, or names what is not there.
pub fn replay(
    library: &Library,
    path: &Path,
    technique: Option<&str>,
) -> Result<eventlog::Report, StudyError> {
    let fresh = |header: &Header, place| {
        let technique = technique.unwrap_or(&header.technique);
        fresh_policy(library, header, technique, place).map_err(|error| error.to_string())
    };
    Ok(eventlog::replay_log(Reader::open(path)?, fresh)?)
}

/// Lays two logs side by side: where they first decide differently, and why.
///
/// # Errors
/// If one of them cannot be read.
pub fn beside(a: &Path, b: &Path) -> Result<eventlog::Beside, StudyError> {
    Ok(eventlog::beside(Reader::open(a)?, Reader::open(b)?)?)
}

fn fresh_policy(
    library: &Library,
    header: &Header,
    technique: &str,
    place: Place,
) -> Result<Box<dyn Replayer>, StudyError> {
    if header.world == DELEGATE && place.family == Family::Offload {
        let parameters: DelegationParameters = technique.parse().map_err(StudyError::Usage)?;
        return Ok(replayer(Delegation::new(&parameters)));
    }
    if header.world == LIVE_BLOCK {
        if place.family != Family::Completion {
            let family = place.family;
            return Err(StudyError::Usage(format!("{LIVE_BLOCK} has no policy of `{family}`")));
        }
        let value = |key: &str| header.set.get(key).map(String::as_str);
        return Ok(replayer(block::again(technique, value)?));
    }
    let simulated = LIVE.iter().find(|(live, _)| *live == header.world);
    let world = world(simulated.map_or(&header.world, |(_, world)| world))?;
    let job = Job {
        world: world.name().to_owned(),
        workload: header.workload.clone(),
        machine: header.machine.clone(),
        technique: technique.to_owned(),
        set: header.set.clone().into_iter().collect(),
        options: Vec::new(),
    };
    let settings = job.settings(world)?;
    world.replayer(library, &job, &settings, place)
}

/// Returns the error of a world that has no policy at a place.
pub(crate) fn nobody_at(job: &Job, place: Place) -> StudyError {
    let (world, Place { family, stream }) = (&job.world, place);
    let technique = &job.technique;
    StudyError::Usage(format!(
        "no policy {stream} of the family `{family}` in the world `{world}` with `{technique}`"
    ))
}
