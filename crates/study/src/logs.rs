//! Event logs of simulated runs.
//!
//! ```text
//! run ── policies, hosted with a log ──▶ file ── header ──▶ fresh policies ── its lines ──▶ report
//! ```
//!
//! Worlds take any policy of a family: a logged run gets each inside a [`Host`] with a log, and is
//! the same run. A replay needs nothing but the file: the header has the job's names, and what is
//! listed for the technique makes its policies from them.

use std::path::Path;

use halfwink_eventlog::{Family, Header, Place, Writer};
use halfwink_policy::circuits::CircuitsPolicy;
use halfwink_policy::completion::CompletionPolicy;
use halfwink_policy::gating::GatingPolicy;
use halfwink_policy::offload::OffloadPolicy;
use halfwink_policy::preheat::PreheatPolicy;
use halfwink_policy::scaling::ScalingPolicy;
use halfwink_policy::segregation::SegregationPolicy;
use halfwink_policy::steering::SteeringPolicy;
use halfwink_policy::switching::IdlePowerPolicy;
use halfwink_policy::wake_up::WakeUpPolicy;
use halfwink_policy::Host;
use halfwink_techniques::{Choice, Make};
use halfwink_units::Time;

use crate::error::StudyError;
use crate::job::Job;

/// The log of a run's policies, if they are logged.
#[derive(Default)]
pub struct Logs(Option<(Writer, Header)>);

/// A policy of a family, logged if the run is. Each has a number of its own in its family: its
/// core, its thread, its server.
macro_rules! hosts {
    ($($name:ident: $policy:ty, $family:ident;)*) => {
        impl Logs {$(
            pub(crate) fn $name(&self, number: usize, policy: $policy) -> $policy {
                // Without a log the policy is not wrapped: the run pays nothing for the
                // possibility.
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
        // Everything that a replay needs to make the same policies; `identity` has digests of
        // files that the technique names.
        let header = Header::new(&job.world, family(choice), &choice.identity())
            .on(&job.machine, &job.workload)
            .with(all.map(|(path, value)| (path.as_str(), value.as_str())));
        Ok(Logs(Some((Writer::create(path, &header)?, header))))
    }

    /// The job runs once more, with fresh policies: at another frequency, say.
    pub(crate) fn begin_again(&self) {
        // A header again: a replay makes its policies anew at each, since those of the first run
        // ended with it.
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
        // Lines of other families name theirs: this is what most lines need not repeat.
        Make::Gating(_) | Make::Modifier(_) => Family::Gating,
        Make::Scaling(_) | Make::Node(_) => Family::Scaling,
        Make::Steering(_) => Family::Steering,
        Make::Kernel(_) => Family::Offload,
        Make::Preheat(_) => Family::Preheat,
        Make::Circuits(_) => Family::Circuits,
        Make::Completion(_) => Family::Completion,
    }
}

/// Returns the error of a world that has no policy at a place.
pub(crate) fn nobody_at(job: &Job, place: Place) -> StudyError {
    let (world, Place { family, stream }) = (&job.world, place);
    let technique = &job.technique;
    StudyError::Usage(format!(
        "no policy {stream} of the family `{family}` in the world `{world}` with `{technique}`"
    ))
}
