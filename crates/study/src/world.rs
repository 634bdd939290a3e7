//! The seam of worlds: a job by names, prepared, run under a control, tables.
//!
//! ```text
//! study (TOML) ──expand──▶ jobs ──prepare──▶ prepared ──run──▶ tables ──▶ results, report, targets
//!                                   ▲ World               ▲ Control
//! ```
//!
//! A world says what may be named in it and plays one job. Everything else stands here or above and
//! knows no world: expansion of studies, keys, resuming, stopping, progress, targets, reports.

use std::any::Any;
use std::path::PathBuf;
use std::time::Instant;

use halfwink_engine::{nearest, RunControl};
use halfwink_eventlog::{Place, Replayer};
use halfwink_techniques::{Choice, Parameter, Values};
use halfwink_units::Time;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::StudyError;
use crate::library::Library;
use crate::logs::Logs;
use crate::table::{Head, Short, Table, Value};
use crate::worlds::{Chip, Fabric, Node, Preheat, Racks, Router, Server, Storage, Switching, Toy};

/// Every world. The only list of them.
pub const WORLDS: &[&dyn World] =
    &[&Chip, &Node, &Router, &Server, &Switching, &Preheat, &Fabric, &Racks, &Storage, &Toy];

/// Digest of the sources that results depend on, made when this crate is built: two builds of the
/// same models share their results.
const MODEL: &str = env!("HALFWINK_MODEL_DIGEST");

/// A run to play, given by names. It has the same form in every world, is small, and can be sent to
/// another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The name of a world in [`WORLDS`].
    pub world: String,
    /// `nginx`, `ipv4@evaluation`, `count@30`, `tcpmaerts@1g`.
    pub workload: String,
    /// `ev6-16`, `westmere`, `niccolini`, `alpha@sim-ce`.
    pub machine: String,
    /// The technique with its parameters (`tap:wake=last`); see [`Choice::parse`].
    pub technique: String,
    /// Values of the machine, options of the world (`seed`) or parameters of techniques
    /// (`power-save:c_up`, `technique.threshold`) to set. Results show them.
    pub set: Vec<(String, String)>,
    /// Options of the world that are the same for all of a study; results do not show them.
    pub options: Vec<(String, String)>,
}

/// A thing that can be named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Name by which commands and studies ask for it.
    pub name: String,
    /// A description in one line.
    pub title: String,
}

impl Named {
    /// Adds a description to each name. A name that is wrong gets an empty one; the error is
    /// reported where the name is used.
    pub(crate) fn described(
        names: Vec<String>,
        describe: impl Fn(&str) -> Result<String, StudyError>,
    ) -> Vec<Named> {
        let named = |name: String| Named { title: describe(&name).unwrap_or_default(), name };
        names.into_iter().map(named).collect()
    }
}

/// An amount of work, and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The amount; 0 if it is not known beforehand.
    pub amount: u64,
    /// The unit: `instructions`, `packets` or `requests`.
    pub unit: &'static str,
}

/// Tables by name. `run` has one row.
pub type Tables = Vec<(&'static str, Table)>;

/// Lets the outside watch, stop and record a run.
#[derive(Debug, Default)]
pub struct Control {
    /// Progress, and a request to stop.
    pub run: RunControl,
    /// The file to which every event and action of the run's policies is written, if any. The run
    /// itself is the same.
    pub log: Option<PathBuf>,
}

/// The settings of a job beside its names, sorted by what they belong to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The technique with its parameters.
    pub choice: Choice,
    /// Options of the world.
    pub options: Values,
    /// Values of the machine: path and value.
    pub machine: Vec<(String, String)>,
}

/// Names that a command takes where the user gives none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The machine; if none, the first that is listed.
    pub machine: Option<&'static str>,
    /// The workload; if none, the user has to name one.
    pub workload: Option<&'static str>,
}

/// Plays events and actions out: what the simulated worlds have in common.
pub trait World: Sync {
    /// Name, as studies have it.
    fn name(&self) -> &'static str;

    /// Returns a description in one line.
    fn title(&self) -> &'static str;

    /// The command that plays a technique here, for a reader who tried another.
    fn command(&self, technique: &str) -> String;

    /// Workloads that can be named.
    ///
    /// # Errors
    /// If the library is damaged.
    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError>;

    /// Machines that can be named.
    fn machines(&self, library: &Library) -> Vec<Named>;

    /// Returns the options of a job beside values of the machine and parameters of techniques.
    fn options(&self) -> &'static [Parameter];

    /// Paths of machines that are no more, and what to write now.
    fn moved(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Every table with its columns, but for `host`.
    fn schema(&self) -> Vec<(&'static str, Vec<Head>)>;

    /// Columns of `run` that the short table shows beside those of all worlds, the most important
    /// first: a narrow terminal drops the last ones first.
    fn short(&self) -> &'static [Short] {
        &[]
    }

    /// Returns the names that a command takes where the user gives none.
    fn defaults(&self) -> Defaults {
        Defaults::default()
    }

    /// Finds everything that a job names.
    ///
    /// # Errors
    /// The first name or value that does not exist or cannot be.
    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError>;

    /// Makes a fresh policy, as a run of the job has it at this place, to be told a log. The job's
    /// inputs need not be there, unless the policy depends on them.
    ///
    /// # Errors
    ///
    /// If it names what does not exist, there is no policy at that place, or the policy knows more
    /// than its job says.
    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError>;
}

/// A job whose names were found.
pub trait Prepared: Any + Send + Sync {
    /// Everything beside technique and options that its result depends on: what the workload is,
    /// and the machine as it will be used.
    fn identity(&self) -> String;

    /// Returns how much it will play.
    fn work(&self) -> Work;

    /// The machine description as it will be used.
    fn machine_text(&self) -> &str;

    /// Plays it, with its policies logged by `logs`. The table `run` has one row, without names and
    /// settings, which the caller puts before it.
    ///
    /// # Errors
    ///
    /// If the run is stopped, an input is damaged, or the model fails.
    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError>;

    /// Returns a text for what decides when something happens in it, if that may be the same under
    /// other techniques: jobs of one pace may be played in one run.
    fn pace(&self) -> Option<String> {
        None
    }

    /// Plays it, and gives others of its pace their tables too if this was what runs of their own
    /// would have been, to the bit.
    ///
    /// # Errors
    /// As [`Prepared::run`], of this job alone.
    fn run_together(
        &self,
        others: &[&dyn Prepared],
        control: &RunControl,
    ) -> Result<(Tables, Vec<Option<Tables>>), StudyError> {
        let tables = self.run(control, &Logs::default())?;
        Ok((tables, others.iter().map(|_| None).collect()))
    }
}

/// A job whose names were found, with what is the same in every world.
pub struct PreparedJob {
    job: Job,
    choice: Choice,
    technique: String,
    options: String,
    pub(crate) prepared: Box<dyn Prepared>,
}

/// A world by name.
///
/// # Errors
/// If this build has none of that name.
pub fn world(name: &str) -> Result<&'static dyn World, StudyError> {
    let found = WORLDS.iter().find(|world| world.name() == name);
    found.copied().ok_or_else(|| {
        let known = WORLDS.iter().map(|w| w.name());
        let Some(near) = nearest(name, known.clone()) else {
            let known = known.collect::<Vec<_>>().join(", ");
            let message = format!("unknown world `{name}`; this build has {known}");
            return StudyError::Usage(message);
        };
        StudyError::Usage(format!("unknown world `{name}`; did you mean `{near}`?"))
    })
}

/// Returns the command line that plays a technique of a world.
pub(crate) fn command_of(world_name: &str, technique: &str) -> String {
    world(world_name).map_or_else(|_| String::new(), |w| format!("try `{}`", w.command(technique)))
}

impl Job {
    /// Finds everything that the job names.
    ///
    /// # Errors
    /// The first name or setting that does not exist, or a workload that does not fit the machine.
    pub fn prepare(&self, library: &Library) -> Result<PreparedJob, StudyError> {
        let world = world(&self.world)?;
        let broken = library.mutant().map(|mutant| mutant.broken_job(self));
        let job = broken.as_ref().unwrap_or(self);
        let settings = job.settings(world)?;
        let (choice, options) = (settings.choice.clone(), settings.options.to_string());
        let prepared = world.prepare(library, job, settings)?;
        let technique = choice.to_string();
        Ok(PreparedJob { job: self.clone(), choice, technique, options, prepared })
    }

    pub(crate) fn settings(&self, world: &dyn World) -> Result<Settings, StudyError> {
        let mut choice = Choice::parse(world.name(), &self.technique)?;
        let mut options = Values::of(world.options());
        let mut machine = Vec::new();
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
        let (technique, options) = (&self.technique, &self.options);
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

    /// The machine description as it will be used.
    #[must_use]
    pub fn machine_text(&self) -> &str {
        self.prepared.machine_text()
    }

    /// Plays it: the world's tables, and `host` with what the host took, which no kept result
    /// holds. A log that was asked for ends with a footer if and only if the run was whole.
    ///
    /// # Errors
    /// If the run is stopped, an input is damaged, the model fails, or the log cannot be written.
    pub fn run(&self, control: &Control) -> Result<Tables, StudyError> {
        let begun = Instant::now();
        let logs = Logs::of(&self.job, &self.choice, control.log.as_deref())?;
        let tables = self.prepared.run(&control.run, &logs)?;
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
/// Of each job as [`PreparedJob::run`].
pub fn run_together(
    jobs: &[&PreparedJob],
    control: &RunControl,
) -> Vec<Result<Tables, StudyError>> {
    let mut found: Vec<Option<Result<Tables, StudyError>>> = jobs.iter().map(|_| None).collect();
    while let Some(first) = found.iter().position(Option::is_none) {
        let begun = Instant::now();
        let pace = jobs[first].pace();
        let is_with = |n: &usize| found[*n].is_none() && pace.is_some() && jobs[*n].pace() == pace;
        let with: Vec<usize> = (first + 1..jobs.len()).filter(is_with).collect();
        let others: Vec<&dyn Prepared> = with.iter().map(|&n| &*jobs[n].prepared).collect();
        let (tables, followed) = match jobs[first].prepared.run_together(&others, control) {
            Ok(run) => run,
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
        let share_s = begun.elapsed().as_secs_f64() / run.len() as f64;
        for (n, tables) in run {
            found[n] = Some(Ok(jobs[n].with_host(tables, share_s)));
        }
    }
    found.into_iter().flatten().collect()
}

/// Length of a run, as its tables say.
fn duration(tables: &Tables) -> Time {
    let run = tables.iter().find(|(name, _)| *name == "run");
    match run.and_then(|(_, table)| table.get(0, "duration_s")) {
        Some(Value::Real(seconds)) => Time::from_ns(seconds * 1e9),
        _ => Time::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwink_techniques::technique;

    fn library() -> Library {
        Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn a_world_that_is_not_there_is_one_line() {
        let error = world("submarine").err().unwrap().to_string();
        assert!(error.contains("this build has chip, node, router"), "{error}");
        assert!(world("rooter").err().unwrap().to_string().contains("did you mean `router`?"));
    }

    #[test]
    fn every_world_lists_what_can_be_named_and_no_option_hides_a_value_of_a_machine() {
        for world in WORLDS {
            assert!(!world.workloads(&library()).unwrap().is_empty(), "{}", world.name());
            assert!(!world.machines(&library()).is_empty(), "{}", world.name());
            let schema = world.schema();
            for short in world.short() {
                let of_run = schema[0].1.iter().any(|head| head.0 == short.column);
                assert!(of_run, "{}: `{}` is no column of a run", world.name(), short.column);
            }
            let Defaults { machine, workload } = world.defaults();
            let machines = world.machines(&library());
            // A chip's name may end in its number of cores.
            let is_listed = |name: &str| machines.iter().any(|named| name.starts_with(&named.name));
            assert!(machine.is_none_or(is_listed), "{}", world.name());
            let workloads = world.workloads(&library()).unwrap();
            assert!(workload.is_none_or(|name| workloads.iter().any(|named| named.name == name)));
            for option in world.options() {
                assert!(!option.name.contains(['.', ':']), "{}", option.name);
            }
            for (_, now) in world.moved() {
                if let Some((name, _)) = now.split_once(':') {
                    assert!(technique(world.name(), name).is_ok(), "{now}");
                }
            }
        }
    }
}
