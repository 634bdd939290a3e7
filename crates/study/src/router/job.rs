//! One policy on one application under one load profile: what studies sweep.

use halfwink_router::{App, Options};
use xxhash_rust::xxh3::xxh3_64;

use super::policies::{policy, RouterPolicy};
use super::{ledger, run_table, run_values, slot_table, slot_values, RouterInfo, RouterProfile};
use super::{RouterQuestion, SEED};
use crate::error::StudyError;
use crate::library::Library;
use crate::table::Table;

/// What to run, by names.
#[derive(Clone, Debug, Default)]
pub struct RouterJob {
    /// An application, or `APPLICATION@PROFILE`; the profile as on the command line.
    pub workload: String,
    /// A router.
    pub machine: String,
    /// A policy.
    pub technique: String,
    /// Values of the router to set; `seed` is that of all random streams.
    pub set: Vec<(String, String)>,
}

/// A job whose names were found.
pub struct PreparedRouter {
    job: RouterJob,
    router: RouterInfo,
    policy: &'static RouterPolicy,
    app: String,
    question: RouterQuestion,
}

/// What a job found out.
pub struct RouterOutput {
    /// One row: what was run, and its sums.
    pub run: Table,
    /// Points of the profile.
    pub slots: Table,
    /// Time and energy by component, state and cause.
    pub ledger: Table,
}

impl RouterJob {
    /// Finds everything that the job names.
    ///
    /// # Errors
    /// The first name or value that does not exist or cannot be.
    pub fn prepare(self, library: &Library) -> Result<PreparedRouter, StudyError> {
        let policy = policy(&self.technique)?;
        let mut seed = SEED;
        let mut set = Vec::new();
        for (path, value) in &self.set {
            if path == "seed" {
                let wrong = || format!("seed: `{value}`, expected a whole number");
                seed = value.parse().map_err(|_| StudyError::Usage(wrong()))?;
            } else {
                set.push((path.clone(), value.clone()));
            }
        }
        let router = library.router(&self.machine, &set)?;
        let (app, profile) =
            self.workload.split_once('@').unwrap_or((&self.workload, "evaluation"));
        let known = router.model.spec().apps.keys().map(String::as_str);
        if router.model.app(app).is_none() {
            return Err(StudyError::unknown("application", app, known));
        }
        let profile = RouterProfile::parse(profile)?;
        let question = RouterQuestion { profile, seed, ..RouterQuestion::default() };
        Ok(PreparedRouter { app: app.to_owned(), router, policy, question, job: self })
    }
}

impl PreparedRouter {
    /// Identifies the result: equal for jobs that must give the same.
    #[must_use]
    pub fn key(&self) -> String {
        let seed = self.question.seed;
        let (workload, policy) = (&self.job.workload, self.policy.name);
        let text = format!("router\n{workload}\n{}\n{policy}\n{seed}", self.router.text);
        format!("{:016x}", xxh3_64(text.as_bytes()))
    }

    fn app(&self) -> &App {
        &self.router.model.spec().apps[&self.app]
    }

    /// Runs it.
    ///
    /// # Errors
    /// If its books do not balance.
    pub fn run(&self) -> Result<RouterOutput, StudyError> {
        let model = &self.router.model;
        let traffic = self.router.question_traffic(self.app(), &self.question);
        let options = Options::all_cores(model, self.question.seed);
        let options = Options { batching: true, ..options };
        let policy = (self.policy.make)(model);
        let run = halfwink_router::simulate(model, self.app(), &traffic, policy, options)
            .map_err(|error| super::failed(&error))?;
        let set: Vec<String> = self.job.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let mut table = run_table(&[
            "workload",
            "machine",
            "technique",
            "set",
            "seed",
            "offered",
            "cores",
            "lost_pct",
            "uj_per_packet",
        ]);
        let cores = run.slots.iter().map(|slot| slot.cores).sum::<f64>() / run.slots.len() as f64;
        let mut row = vec![
            self.job.workload.as_str().into(),
            self.router.name.as_str().into(),
            self.policy.name.into(),
            set.join(" ").into(),
            self.question.seed.into(),
            run.received.into(),
            cores.into(),
            (100.0 * run.lost as f64 / run.received.max(1) as f64).into(),
            (1e6 * run.energy_j() / run.forwarded.max(1) as f64).into(),
        ];
        row.extend(run_values(&run));
        table.push(row);
        let mut slots = slot_table(&[]);
        for (n, slot) in run.slots.iter().enumerate() {
            slots.push(slot_values(n, slot));
        }
        Ok(RouterOutput { run: table, slots, ledger: ledger(&run) })
    }
}
