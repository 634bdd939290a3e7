//! Jobs whose names were found: their keys, and runs of one or of several together.

use std::time::Instant;

use halfwink_engine::{nearest, RunControl};
use halfwink_techniques::{Choice, Error, Values};
use halfwink_units::Time;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::Logs;
use crate::parallel::parallel;
use crate::table::{Table, Value};
use crate::world::{Control, Prepared, Settings, Tables, Work, World};
use crate::worlds::list::{command_of, world};

/// Digest of the sources that results depend on, made when this crate is built: two builds of the
/// same models share their results.
const MODEL: &str = env!("HALFWINK_MODEL_DIGEST");

/// Jobs in a row that are planned by one thread.
const NEIGHBOURS: usize = 64;

/// A job whose names were found, with what is the same in every world.
pub struct PreparedJob {
    job: Job,
    choice: Choice,
    technique: String,
    options: String,
    /// The description with values that its runs do not read, where there are such values.
    described: Option<String>,
    pub(crate) prepared: Box<dyn Prepared>,
}

/// A job before it runs.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The key of its result, see [`PreparedJob::key`].
    pub key: String,
    /// The amount of work.
    pub work: Work,
    /// A digest of its pace, see [`PreparedJob::pace`].
    pub pace: Option<String>,
}

impl Library {
    /// Finds what jobs name, on all host cores, and keeps nothing that was opened for them.
    #[must_use]
    pub fn plan(&self, jobs: &[Job]) -> Vec<Result<Planned, StudyError>> {
        let plan = |job: &Job| {
            let job = job.prepare(self)?;
            let pace = job.pace().map(|pace| format!("{:032x}", xxh3_128(pace.as_bytes())));
            Ok(Planned { key: job.key(), work: job.work(), pace })
        };
        // Neighbours name one machine with the same values, which two threads would both read.
        let shares: Vec<&[Job]> = jobs.chunks(NEIGHBOURS).collect();
        let planned = parallel(&shares, |share| share.iter().map(plan).collect::<Vec<_>>());
        planned.into_iter().flatten().collect()
    }
}

impl Job {
    /// Finds everything that the job names.
    ///
    /// # Errors
    /// The first name or setting that does not exist, or a workload that does not fit the machine.
    pub fn prepare(&self, library: &Library) -> Result<PreparedJob, StudyError> {
        let world = world(&self.world)?;
        // A mutant breaks the job before anything is found, so that no world knows of mutants and
        // the key differs by content.
        let broken = library.mutant().map(|mutant| mutant.broken_job(self));
        let job = broken.as_ref().unwrap_or(self);
        let settings = job.settings(world)?;
        let (choice, options) = (settings.choice.clone(), settings.options.to_string());
        let paths: Vec<String> = settings.machine.iter().map(|(path, _)| path.clone()).collect();
        let mut read = settings.clone();
        read.machine.retain(|(path, _)| choice.reads(path));
        // With all values first: a value that the machine does not have is an error even where the
        // technique does not read it.
        let mut prepared = world
            .prepare(library, job, settings)
            .map_err(|error| option_meant(world, &choice, &paths, error))?;
        let mut described = None;
        // Played without the values that it does not read, a baseline is one run for all of them.
        if read.machine.len() < paths.len() {
            if let Ok(without) = world.prepare(library, job, read) {
                described = Some(prepared.machine_text().to_owned());
                prepared = without;
            }
        }
        let technique = choice.to_string();
        Ok(PreparedJob { job: self.clone(), choice, technique, options, described, prepared })
    }

    pub(crate) fn settings(&self, world: &dyn World) -> Result<Settings, StudyError> {
        let mut choice = Choice::parse(world.name(), &self.technique).map_err(elsewhere)?;
        let mut options = Values::of(world.options());
        let mut machine = Vec::new();
        // The world's options, then the technique's parameters, and the rest is the machine's,
        // which checks its own names: an unknown name is thus found last (`option_meant`).
        for (path, value) in self.options.iter().chain(&self.set) {
            if options.knows(path) {
                options.set(path, value).map_err(StudyError::Usage)?;
            } else if !choice.sweep(world.name(), path, value)? {
                if let Some((_, now)) = world.moved().iter().find(|(old, _)| old == path) {
                    let message = format!("`{path}` is no longer a machine's; write `{now}` now");
                    return Err(StudyError::Usage(message));
                }
                machine.push((path.clone(), value.clone()));
            }
        }
        Ok(Settings { choice, options, machine })
    }
}

/// Replaces the error about a value that neither the world nor the machine has: it names the
/// parameter of the technique, the nearest option, or all of them.
fn option_meant(
    world: &dyn World,
    choice: &Choice,
    paths: &[String],
    error: StudyError,
) -> StudyError {
    let said = error.to_string();
    // The text is all there is: the error comes from the parser of the description, which knows
    // nothing of the world's options.
    let is_unknown = |path: &&String| said.ends_with(&format!("unknown key `{path}`"));
    let Some(path) = paths.iter().find(is_unknown) else { return error };
    let names: Vec<&str> = world.options().iter().map(|option| option.name).collect();
    let parameters = choice.parts().map(Choice::technique);
    let mut parameters = parameters.filter(|t| t.parameters.iter().any(|p| p.name == *path));
    let hint = match (parameters.next(), nearest(path, names.iter().copied())) {
        (Some(technique), _) => format!("did you mean `{}:{path}`?", technique.name),
        (None, Some(name)) => format!("did you mean `{name}`?"),
        (None, None) => format!(
            "the world `{}` has {}, and the machine's values; a technique's is `NAME:{path}`",
            world.name(),
            names.join(", ")
        ),
    };
    StudyError::Usage(format!("unknown value `{path}`; {hint}"))
}

impl PreparedJob {
    /// The names that it was prepared from.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The technique with its parameters, in its one spelling.
    #[must_use]
    pub fn technique(&self) -> &str {
        &self.technique
    }

    /// Identifies the result: equal for jobs that must give the same, and of content alone.
    #[must_use]
    pub fn key(&self) -> String {
        let (world, identity) = (&self.job.world, self.prepared.identity());
        let (technique, options) = (self.choice.identity(), &self.options);
        // Names are left out: the same work under two names (the baseline at each point of a sweep
        // that is not about it) is done once.
        let text = format!("{MODEL}\n{world}\n{technique}\n{options}\n{identity}");
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    /// Returns how much it will play.
    #[must_use]
    pub fn work(&self) -> Work {
        self.prepared.work()
    }

    /// The machine description with all values that were set.
    #[must_use]
    pub fn machine_text(&self) -> &str {
        self.described.as_deref().unwrap_or_else(|| self.prepared.machine_text())
    }

    /// Plays it: the world's tables, and `host` with what the host took, which no kept result
    /// holds. A log that was asked for ends with a footer if and only if the run was whole.
    ///
    /// # Errors
    /// If the run is stopped, an input is damaged, the model fails, or the log cannot be written.
    pub fn run(&self, control: &Control) -> Result<Tables, StudyError> {
        let begun = Instant::now();
        let logs = Logs::of(&self.job, &self.choice, control.log.as_deref())?;
        let tables = blamed(&self.choice, self.prepared.run(&control.run, &logs))?;
        // Only a whole run writes the footer: a log without one says that its run failed.
        logs.end(duration(&tables))?;
        Ok(self.with_host(tables, begun.elapsed().as_secs_f64()))
    }

    /// Returns its tables with one more, of the time that the host took for them.
    fn with_host(&self, mut tables: Tables, host_s: f64) -> Tables {
        let work = self.work();
        let host = Table::row(vec![
            ("host_s", host_s.into()),
            ("rate", (work.amount as f64 / host_s).into()),
            ("unit", Value::from(work.unit)),
        ]);
        tables.push(("host", host));
        tables
    }

    /// Returns the pace of the job. Jobs of one pace may share a run ([`run_together`]); a job
    /// without one runs alone.
    #[must_use]
    pub fn pace(&self) -> Option<String> {
        let pace = self.prepared.pace()?;
        Some(format!("{}\n{}\n{pace}", self.job.world, self.options))
    }
}

/// Plays jobs in as few runs as it takes: the first, and with it every other of its [pace] that
/// turns out to be the same run; then the first of those that are left. Each result is that of a
/// run of its own, to the bit; `host` has a job's share of the time that its run took.
///
/// [pace]: PreparedJob::pace
///
/// # Errors
/// The errors of [`PreparedJob::run`], for each job.
pub fn run_together(
    jobs: &[&PreparedJob],
    control: &RunControl,
) -> Vec<Result<Tables, StudyError>> {
    let mut found: Vec<Option<Result<Tables, StudyError>>> = jobs.iter().map(|_| None).collect();
    while let Some(first) = found.iter().position(Option::is_none) {
        let begun = Instant::now();
        let pace = jobs[first].pace();
        // Equal pace is necessary, not sufficient: the world decides in the run who follows, and
        // those that do not are left for the next round.
        let is_with = |n: &usize| found[*n].is_none() && pace.is_some() && jobs[*n].pace() == pace;
        let with: Vec<usize> = (first + 1..jobs.len()).filter(is_with).collect();
        let others: Vec<&dyn Prepared> = with.iter().map(|&n| &*jobs[n].prepared).collect();
        let run = jobs[first].prepared.run_together(&others, control);
        let (tables, followed) = match blamed(&jobs[first].choice, run) {
            Ok(run) => run,
            // Only the first is blamed: the others are played on their own in the next round, and
            // may succeed.
            Err(error) => {
                found[first] = Some(Err(error));
                continue;
            }
        };
        let numbers = [first].into_iter().chain(with);
        let run: Vec<(usize, Tables)> = numbers
            .zip([Some(tables)].into_iter().chain(followed))
            .filter_map(|(n, tables)| Some((n, tables?)))
            .collect();
        // Shared out evenly: nothing tells which job a common cycle was spent for, and the sum over
        // jobs stays the time of the host.
        let share_s = begun.elapsed().as_secs_f64() / run.len() as f64;
        for (n, tables) in run {
            found[n] = Some(Ok(jobs[n].with_host(tables, share_s)));
        }
    }
    found.into_iter().flatten().collect()
}

/// Replaces the outcome of a run by the fault of a module that its policy is in. What such a policy
/// requests that the world cannot do is a mistake of the user's, too.
pub(crate) fn blamed<T>(choice: &Choice, outcome: Result<T, StudyError>) -> Result<T, StudyError> {
    match (choice.fault(), outcome) {
        // First: a run that the user stopped may have left a module in a fault, which is not why it
        // ended.
        (_, Err(StudyError::Interrupted)) => Err(StudyError::Interrupted),
        (Some(fault), _) => Err(StudyError::Usage(fault.to_owned())),
        (None, Err(error)) if choice.has_module() && !error.is_usage() => {
            Err(StudyError::Usage(format!("{choice}: {error}")))
        }
        (None, outcome) => outcome,
    }
}

/// Length of a run, as its tables say.
fn duration(tables: &Tables) -> Time {
    let run = tables.iter().find(|(name, _)| *name == "run");
    match run.and_then(|(_, table)| table.get(0, "duration_s")) {
        Some(Value::Real(seconds)) => Time::from_ns(seconds * 1e9),
        _ => Time::ZERO,
    }
}

/// Adds the command that plays a technique of another world.
fn elsewhere(error: Error) -> StudyError {
    match &error {
        Error::OtherWorld { name, world, .. } => {
            StudyError::Usage(format!("{error}; {}", command_of(world, name)))
        }
        _ => error.into(),
    }
}
