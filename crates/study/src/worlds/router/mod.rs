//! Routers by name, and answers about them as tables.

mod bursts;
mod evaluation;
mod facts;
mod job;
mod points;
mod profile;
mod sleep;

pub use job::Router;
pub use profile::{Load, RouterProfile};

use std::thread;

use halfwink_policy::scaling::ScalingPolicy;
use halfwink_router::{simulate, Options, Run, RunError, Slot, Traffic};
use halfwink_techniques::router::{parse, App, Model, FOLDER, MOVED};

use crate::error::StudyError;
use crate::library::Library;
use crate::mutant::Replaced;
use crate::table::{integer, real, Head, Table, Value};

/// The three stacks of the thesis ...
const STACKS: [&str; 3] = ["polling", "napi", "power-save"];
/// ... and what its experiments are run with beside.
const THESIS: [&str; 5] = ["polling", "napi", "power-save", "power-save-in-order", "napi-c6"];
/// The seed of every run.
const SEED: u64 = 1;

/// A router, read from the library.
#[derive(Clone, Debug)]
pub struct RouterInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The router's model.
    pub model: Model,
    /// The description, with the values that were set.
    pub text: String,
    /// Techniques that others take the place of in experiments.
    replaced: Replaced,
}

impl Library {
    /// Reads a router: `westmere`, or a file ending in `.toml`; then sets `values` (path, value).
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn router(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<RouterInfo, StudyError> {
        let path = self.find_named(FOLDER, "router", name)?;
        let values = values.iter().map(|(path, value)| (path.as_str(), value));
        let input = self.described(&path, values, MOVED)?;
        let model = parse(&input)?;
        let (name, replaced) = (name.to_owned(), self.replaced());
        Ok(RouterInfo { name, model, text: input.text, replaced })
    }

    /// Names of the routers.
    #[must_use]
    pub fn routers(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }
}

/// A run to be done: traffic of an application against a policy.
struct Cell<'a> {
    app: &'a App,
    traffic: Traffic,
    policy: ScalingPolicy,
    options: Options,
}

/// Runs all cells on all host cores; results in their order.
fn run_all(model: &Model, cells: Vec<Cell>) -> Result<Vec<Run>, StudyError> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(cells.len().max(1));
    let total = cells.len();
    let mut shares: Vec<Vec<Cell>> = (0..workers).map(|_| Vec::new()).collect();
    for (n, cell) in cells.into_iter().enumerate() {
        // Not `parallel`, which lends its items: a policy is consumed by its run.
        shares[n % workers].push(cell);
    }
    let one = |c: Cell| simulate(model, c.app, &c.traffic, c.policy, c.options);
    let work = |share: Vec<Cell>| share.into_iter().map(one).collect::<Vec<_>>();
    let mut parts: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> =
            shares.into_iter().map(|share| scope.spawn(move || work(share))).collect();
        handles.into_iter().map(|h| h.join().unwrap_or_default().into_iter()).collect()
    });
    (0..total)
        .map(|n| match parts[n % workers].next() {
            Some(Ok(run)) => Ok(run),
            Some(Err(error)) => Err(failed(&error)),
            None => Err(StudyError::Usage("a simulation died".to_owned())),
        })
        .collect()
}

fn failed(error: &RunError) -> StudyError {
    match error {
        RunError::Interrupted(_) => StudyError::Interrupted,
        RunError::Imbalance(_) | RunError::StuckTimer(_) | RunError::Broken { .. } => {
            StudyError::Model(error.to_string())
        }
    }
}

/// Columns of a run that every table has.
const RUN_COLUMNS: [Head; 12] = [
    real("mpps"),
    real("power_w"),
    real("energy_j"),
    real("mean_us"),
    real("p50_us"),
    real("p99_us"),
    real("max_us"),
    integer("lost"),
    integer("reordered"),
    real("interrupts_per_s"),
    integer("changes"),
    real("c0_pct"),
];

fn run_values(run: &Run) -> Vec<Value> {
    let latency = &run.latency;
    vec![
        run.forwarded_mpps().into(),
        run.power_w().into(),
        run.energy_j().into(),
        latency.mean_us().into(),
        latency.quantile_us(0.5).into(),
        latency.quantile_us(0.99).into(),
        latency.max_us().into(),
        run.lost.into(),
        run.reordered.into(),
        (run.interrupts as f64 / run.duration.as_s()).into(),
        run.changes.into(),
        (100.0 * run.residency("c0")).into(),
    ]
}

/// Columns of a point of a profile that every table has.
const SLOT_COLUMNS: [Head; 8] = [
    integer("second"),
    real("load"),
    real("power_w"),
    real("mean_us"),
    real("p99_us"),
    real("cores"),
    real("ghz"),
    integer("lost"),
];

/// A table with these columns, then those of a run.
fn run_table(before: &[Head]) -> Table {
    Table::new(&[before, &RUN_COLUMNS].concat())
}

/// A table of points of a profile, with these columns before.
fn slot_table(before: &[Head]) -> Table {
    Table::new(&[before, &SLOT_COLUMNS].concat())
}

fn slot_values(number: usize, slot: &Slot) -> Vec<Value> {
    vec![
        number.into(),
        slot.load.into(),
        slot.power_w.into(),
        slot.mean_us.into(),
        slot.p99_us.into(),
        slot.cores.into(),
        slot.ghz.into(),
        slot.lost.into(),
    ]
}

impl RouterInfo {
    /// Makes the policy of a technique by name, with its parameters, or of what takes its place.
    ///
    /// # Errors
    /// There is no such technique of routers.
    fn policy(&self, technique: &str) -> Result<ScalingPolicy, StudyError> {
        Ok(self.replaced.choice("router", technique)?.scaling(&self.model)?)
    }

    /// Everything that the targets ask, as tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `facts` | a value (`cores.count`), from the description or by arithmetic |
    /// | `parts` | a part of the router in a scenario (Fig 4.2) |
    /// | `points` | cores x P-state: highest rate and its power (Fig 4.5 to 4.10) |
    /// | `partial` | the same at a lower rate, napping (Fig 4.8, 4.12) |
    /// | `ladder` | a rate: the best point, PowerSave's rung (Fig 4.13) |
    /// | `naps` | cores x sleep state x rate (Fig 4.11) |
    /// | `held` | a sleep state: power, delay of a packet each second (Table 4.1, Fig 4.20, 4.21) |
    /// | `rates` | a stack x rate (Fig 4.4, 4.19) |
    /// | `runs` | an application x policy over the load profile (Fig 4.16, 4.17) |
    /// | `slots` | a second of such a run |
    /// | `bursts` | an application x stack x burst length (Fig 4.18, 4.22, 4.23) |
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn tables(&self) -> Result<Vec<(&'static str, Table)>, StudyError> {
        let (runs, slots) = self.evaluation()?;
        Ok(vec![
            ("facts", self.facts()),
            ("parts", self.parts()),
            ("points", self.points()),
            ("partial", self.partial()),
            ("ladder", self.ladder()),
            ("naps", self.naps()?),
            ("held", self.held()?),
            ("rates", self.rates()?),
            ("runs", runs),
            ("slots", slots),
            ("bursts", self.bursts()?),
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::shipped::library;

    #[test]
    fn a_shipped_router_fills_its_closed_tables() {
        let info = library().router("westmere", &[]).unwrap();
        assert_eq!(info.points().len(), 12 * 14 * info.model.spec().apps.len());
        assert!(info.ladder().len() > 20);
        assert!(info.facts().len() > 30);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let complaint = |name: &str, path: &str, value: &str| {
            let values = [(path.to_owned(), value.to_owned())];
            library().router(name, &values).unwrap_err().to_string()
        };
        assert!(complaint("westmeer", "schema", "1").contains("did you mean `westmere`"));
        let ring = complaint("westmere", "nic.ring", "1000");
        assert!(ring.contains("westmere.toml") && ring.contains("expected a power of two"));
    }
}

#[cfg(test)]
mod fault_tests;
