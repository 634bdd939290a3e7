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

use halfwink_engine::RunControl;
use halfwink_eventlog::{Place, Replayer};
use halfwink_techniques::{Choice, Parameter, Values};
use serde::Serialize;

use crate::error::StudyError;
use crate::job::Job;
use crate::library::Library;
use crate::logs::Logs;
use crate::table::{Head, Short, Table};

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
    /// Loads that workloads are played at, as `30%` of `nginx@30`; if none, workloads have no load.
    pub loads: Option<&'static [&'static str]>,
}

/// Loads of services, as shares of what a server carries.
pub(crate) const USUAL_LOADS: &[&str] = &["10%", "30%", "50%", "70%"];

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
        // By default none of the others follow: a world that knows nothing of paces stays right,
        // only slower.
        let tables = self.run(control, &Logs::default())?;
        Ok((tables, others.iter().map(|_| None).collect()))
    }
}
