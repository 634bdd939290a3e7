//! Replays of event logs, of simulated runs and of live programs.
//!
//! A replay needs nothing but the file: the header has the job's names, and what is listed for the
//! technique makes its policies from them.

use std::path::Path;

use halfwink_eventlog as eventlog;
use halfwink_eventlog::{replayer, Family, Header, Place, Reader, Replayer};
use halfwink_policy::offload::Delegation;
use halfwink_techniques::block::{self, LIVE_BLOCK};
use halfwink_techniques::circuits::LIVE_CIRCUITS;
use halfwink_techniques::delegate::{self, LIVE_DELEGATE};
use halfwink_techniques::Choice;

use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::worlds::list::world;

/// The live world that may do without a description of its machines.
const STEER: &str = "live steer";
/// Live worlds, and the simulated ones whose techniques decide in them.
const LIVE: [(&str, &str); 4] = [
    ("live router", "router"),
    (STEER, "server"),
    ("live preheat", "preheat"),
    (LIVE_CIRCUITS, "fabric"),
];

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
    // No machine describes these policies: they count in nanoseconds, and take parameters alone.
    if header.world == LIVE_DELEGATE && place.family == Family::Offload {
        let (parameters, _) = delegate::parameters(technique)?;
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
    // Live steering runs without a description of its machines, so that none may be asked for here.
    if header.world == STEER && header.machine.is_empty() {
        return Ok(replayer(Choice::parse("server", technique)?.steering_alone()?));
    }
    let simulated = LIVE.iter().find(|(live, _)| *live == header.world);
    let world = world(simulated.map_or(&header.world, |(_, world)| world))?;
    let job = Job {
        world: world.name().to_owned(),
        workload: header.workload.clone(),
        machine: header.machine.clone(),
        technique: technique.to_owned(),
        set: header.set.clone().into_iter().collect(),
        // The header does not say which values were options, and `settings` finds them among the
        // others by name.
        options: Vec::new(),
    };
    let mut settings = job.settings(world)?;
    if simulated.is_some() {
        settings.choice = settings.choice.for_live();
    }
    world.replayer(library, &job, &settings, place)
}
