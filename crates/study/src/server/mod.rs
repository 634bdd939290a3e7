//! Hybrid servers by name, and answers about them as tables.

mod ask;
mod delay;
mod design;
mod facts;
mod load;
mod policies;

pub use ask::ServerQuestion;
pub use load::{Rate, ServerLoad};
pub(crate) use policies::server_policy;
pub use policies::{ServerPolicy, SERVER_POLICIES};

use halfwink_policy::steering::{Side, SteeringPolicy};
use halfwink_server::{
    simulate, Arrivals, Model, ModelError, Options, Run, RunError, Service, Spec,
};

use crate::error::StudyError;
use crate::library::{described, Library};
use crate::parallel::parallel;
use crate::table::{Table, Value};

/// Where the library keeps hybrid servers.
const FOLDER: &str = "machines/server";
/// The seed of every run.
const SEED: u64 = 1;
/// A machine keeps up if it finishes this share of what comes.
const KEEPS_UP: f64 = 0.99;

/// A hybrid server, read.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The model.
    pub model: Model,
    /// Its description, with the values that were set.
    pub text: String,
}

impl Library {
    /// Reads a hybrid server: `niccolini`, or a file ending in `.toml`; then sets `values` (path,
    /// value).
    ///
    /// # Errors
    /// If there is none of that name, or it is impossible.
    pub fn server(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<ServerInfo, StudyError> {
        let path = self.find_named(FOLDER, "hybrid server", name)?;
        let input = described(&path, values.iter().map(|(path, value)| (path.as_str(), value)))?;
        let at = |e: ModelError| input.error_at_key(&e.element, &e.message);
        let model = Model::new(input.parse()?).map_err(at)?;
        Ok(ServerInfo { name: name.to_owned(), model, text: input.text })
    }

    /// Names of the hybrid servers.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        self.names(FOLDER, "toml")
    }
}

/// A run to be done.
#[derive(Clone, Debug)]
struct Cell {
    model: Model,
    service: Service,
    arrivals: Arrivals,
    policy: fn(&Model, &Service) -> SteeringPolicy,
    options: Options,
}

impl Cell {
    fn run(&self) -> Result<Run, StudyError> {
        let policy = (self.policy)(&self.model, &self.service);
        simulate(&self.model, &self.service, &self.arrivals, policy, self.options)
            .map_err(|error| failed(&error))
    }
}

/// Runs all cells on all host cores; results in their order.
fn run_all(cells: &[Cell]) -> Result<Vec<Run>, StudyError> {
    parallel(cells, Cell::run).into_iter().collect()
}

fn failed(error: &RunError) -> StudyError {
    StudyError::Usage(error.to_string())
}

/// What both machines carry together, in requests per second.
fn capacity(service: &Service) -> f64 {
    service.capacity(Side::Small) + service.capacity(Side::Big)
}

impl ServerInfo {
    /// A workload by name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn service(&self, name: &str) -> Result<Service, StudyError> {
        let known = self.model.spec().workloads.keys().map(String::as_str);
        self.model.service(name).ok_or_else(|| StudyError::unknown("workload", name, known))
    }

    /// A policy by name, for this server and one of its workloads.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn policy(&self, name: &str, workload: &str) -> Result<SteeringPolicy, StudyError> {
        let policy = server_policy(name)?;
        Ok((policy.make)(&self.model, &self.service(workload)?))
    }

    /// The same server with other values.
    fn with(&self, change: impl FnOnce(&mut Spec)) -> Result<Model, StudyError> {
        let mut spec = self.model.spec().clone();
        change(&mut spec);
        Model::new(spec).map_err(|error| StudyError::Usage(format!("{}: {error}", self.name)))
    }

    /// Everything that the targets ask, as tables by name.
    ///
    /// | table | a row for |
    /// |---|---|
    /// | `facts` | a value (`small.workers`), from the description or by arithmetic |
    /// | `peaks` | a workload x threshold: what it carries when more than that comes |
    /// | `delays` | a workload x kind of arrivals x threshold x load (Fig 3.3) |
    /// | `power` | a workload x wake-up time x sleep power x load (Fig 3.5) |
    /// | `ratios` | a speed of the big machine x small over big workers (Fig 3.6) |
    /// | `speeds` | the same x speed of the small machine (Fig 3.7) |
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn tables(&self) -> Result<Vec<(&'static str, Table)>, StudyError> {
        Ok(vec![
            ("facts", self.facts()),
            ("peaks", self.peaks()?),
            ("delays", self.delays()?),
            ("power", self.power()?),
            ("ratios", self.ratios()?),
            ("speeds", self.speeds()?),
        ])
    }
}

/// What every table says of a run.
const RUN_COLUMNS: [&str; 15] = [
    "per_s",
    "power_w",
    "j_per_request",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "waited_ms",
    "big_share",
    "big_asleep_pct",
    "wakes_per_s",
    "finished_pct",
    "keeps_up",
    "requests",
];

fn run_values(run: &Run) -> Vec<Value> {
    let (tally, seconds) = (&run.tally, run.duration.as_s());
    let ms = |time: Option<halfwink_units::Time>| time.map(|t| t.as_ns() * 1e-6);
    let at = |quantile: f64| ms(tally.sojourn.quantile(quantile)).into();
    let finished = run.finished() as f64 / tally.arrived.max(1) as f64;
    let waited_ps: u128 = tally.waited_ps.iter().sum();
    let [_, big] = &run.machines;
    vec![
        (run.finished() as f64 / seconds).into(),
        run.power_w().into(),
        run.energy_per_request_j().into(),
        ms(tally.sojourn.mean()).into(),
        at(0.5),
        at(0.99),
        at(0.999),
        ms(tally.sojourn.max()).into(),
        (waited_ps as f64 * 1e-9 / tally.arrived.max(1) as f64).into(),
        run.big_share().into(),
        (100.0 * big.state_s[2] / seconds).into(),
        (big.wakes as f64 / seconds).into(),
        (100.0 * finished).into(),
        u64::from(finished >= KEEPS_UP).into(),
        tally.arrived.into(),
    ]
}

/// A table with these columns, then those of a run.
fn run_table(before: &[&'static str]) -> Table {
    Table::new(&[before, &RUN_COLUMNS].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Library {
        Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let complaint = |name: &str, path: &str, value: &str| {
            let values = [(path.to_owned(), value.to_owned())];
            library().server(name, &values).unwrap_err().to_string()
        };
        assert!(complaint("nicolini", "schema", "1").contains("did you mean `niccolini`"));
        let workers = complaint("niccolini", "small.workers", "0");
        assert!(
            workers.contains("niccolini.toml") && workers.contains("expected 1 to"),
            "{workers}"
        );
        let shape = complaint("niccolini", "workloads.count.size.shape", "-1");
        assert!(shape.contains("workloads.count.size"), "{shape}");
    }

    #[test]
    fn every_policy_serves_every_request_of_every_workload() {
        let info = library().server("niccolini", &[]).unwrap();
        for policy in SERVER_POLICIES {
            for workload in info.model.spec().workloads.keys() {
                let service = info.service(workload).unwrap();
                let rate = 0.15 * capacity(&service);
                let cell = Cell {
                    arrivals: Arrivals::Poisson { rate },
                    policy: policy.make,
                    options: Options { drain: true, ..Options::requests(4000, 1) },
                    model: info.model.clone(),
                    service,
                };
                let run = cell.run().unwrap();
                assert_eq!(run.tally.arrived, 3600, "{}, {workload}", policy.name);
                assert!(run.finished() >= 3600, "{}, {workload}", policy.name);
            }
        }
    }
}
