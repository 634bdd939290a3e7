//! Hybrid servers by name, and answers about them as tables.

mod delay;
mod design;
mod facts;
mod job;
mod steady;

pub use crate::worlds::load::{Kind, Rate, ServerLoad};
pub use job::Server;

use std::sync::Arc;

use halfwink_policy::steering::SteeringPolicy;
use halfwink_server::proportionality::Curve;
use halfwink_server::{
    draw, simulate, Arrivals, FleetRun, MachineUse, Options, Run, RunError, Slot, Tally,
};
use halfwink_techniques::server::{
    distributions, parse, Model, Service, Set, Spec, Study, FOLDER, MOVED,
};

use halfwink_techniques::Choice;
use halfwink_units::Time;

use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::requests::Read;
use crate::table::{integer, real, Head, Table, Value};

/// The seed of every run.
const SEED: u64 = 1;
/// A machine keeps up if it finishes this share of what comes.
const KEEPS_UP: f64 = 0.99;

/// A hybrid server, read.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The server's model.
    pub model: Model,
    /// The description, with the values that were set.
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
    ) -> Result<Arc<ServerInfo>, StudyError> {
        let path = self.find_named(FOLDER, "hybrid server", name)?;
        self.kept_server((name, &path), values, || {
            let values = values.iter().map(|(path, value)| (path.as_str(), value));
            let input = self.described(&path, values, MOVED)?;
            let files = distributions(self.descriptions(), &input)?;
            let model = parse(self.descriptions(), &input)?;
            // Distributions are files of their own: a kept server is read again once one of them
            // changes.
            Ok((files, ServerInfo { name: name.to_owned(), model, text: input.text }))
        })
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
    technique: Choice,
    options: Options,
}

impl Cell {
    fn run(&self) -> Result<Run, StudyError> {
        let policy = self.technique.steering(&self.model, &self.service)?;
        simulate(&self.model, &self.service, &self.arrivals, policy, self.options)
            .map_err(|error| failed(&error, self.options.seed))
    }
}

/// Runs all cells on all host cores; results in their order.
fn run_all(cells: &[Cell]) -> Result<Vec<Run>, StudyError> {
    // Results have the order of the cells, so that tables do not depend on which thread was faster.
    parallel(cells, Cell::run).into_iter().collect()
}

fn failed(error: &RunError, seed: u64) -> StudyError {
    match error {
        RunError::Interrupted(_) => StudyError::Interrupted,
        RunError::Arrivals(_) => StudyError::Usage(error.to_string()),
        RunError::Misled(_) | RunError::Imbalance(_) => {
            // With the seed the run that failed can be played again.
            StudyError::Model(format!("{error} (seed {seed})"))
        }
    }
}

/// Reads a load for so many servers, and what serves it: the workload, or times of service that its
/// file has.
fn read_load(
    load: &ServerLoad,
    library: &Library,
    service: &Service,
    servers: f64,
) -> Result<(Read, Service), StudyError> {
    let served = |mean_s: Option<f64>| match mean_s {
        Some(mean_s) => service.measured(mean_s),
        None => service.clone(),
    };
    // The capacity is asked for once the file has said how long services take: 30 % is of that.
    let read = load.read(library, |mean_s| servers * served(mean_s).whole_capacity())?;
    let service = served(read.served_s);
    Ok((read, service))
}

impl ServerInfo {
    /// A workload by name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn service(&self, name: &str) -> Result<Service, StudyError> {
        Ok(self.model.named_service(name)?)
    }

    /// The policy of a technique, with its parameters if there are any, for this server and one of
    /// its workloads.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn policy(&self, name: &str, workload: &str) -> Result<SteeringPolicy, StudyError> {
        let choice = Choice::parse("server", name)?;
        Ok(choice.steering(&self.model, &self.service(workload)?)?)
    }

    /// Draws so many arrivals and sizes of a workload at a load and does nothing with them: how
    /// many requests there are.
    ///
    /// # Errors
    /// If there is no such workload or file.
    pub fn draw(
        &self,
        library: &Library,
        workload: &str,
        load: &ServerLoad,
        requests: u64,
        seed: u64,
    ) -> Result<u64, StudyError> {
        let (read, service) = read_load(load, library, &self.service(workload)?, 1.0)?;
        draw(&service, &read.arrivals, requests, seed).map_err(|error| failed(&error, seed))
    }

    /// Returns the model of the same server with other values.
    fn with(&self, change: impl FnOnce(&mut Spec)) -> Result<Model, StudyError> {
        let mut spec = self.model.spec().clone();
        change(&mut spec);
        // The values are checked anew, since a study may combine ones that exclude each other.
        Model::new(spec).map_err(|error| StudyError::Usage(format!("{}: {error}", self.name)))
    }

    /// Returns the parameters of the design study.
    ///
    /// # Errors
    /// The description has none, or is no pair: the study compares a small machine with a big one.
    fn study(&self) -> Result<&Study, StudyError> {
        let of_pair = self.model.spec().study.as_ref().filter(|_| self.model.set().is_pair());
        of_pair.ok_or_else(|| {
            let message = "no design study, which takes a pair and a section [study]";
            StudyError::Usage(format!("{}: {message}", self.name))
        })
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
    /// If a run's books do not balance, or the description is of no pair.
    pub fn tables(&self) -> Result<Vec<(&'static str, Table)>, StudyError> {
        Ok(vec![
            ("facts", self.facts()?),
            ("peaks", self.peaks()?),
            ("delays", self.delays()?),
            ("power", self.power()?),
            ("ratios", self.ratios()?),
            ("speeds", self.speeds()?),
        ])
    }
}

/// Columns of a run that every table has.
const RUN_COLUMNS: [Head; 17] = [
    real("per_s"),
    real("power_w"),
    real("j_per_request"),
    real("mean_ms"),
    real("p50_ms"),
    real("p99_ms"),
    real("p999_ms"),
    real("max_ms"),
    real("waited_ms"),
    real("big_share"),
    real("big_asleep_pct"),
    real("wakes_per_s"),
    real("finished_pct"),
    real("refused_pct"),
    real("lost_pct"),
    integer("keeps_up"),
    integer("requests"),
];

/// A run of one server or of many, to be shown.
struct RunView<'a> {
    duration_s: f64,
    /// Number of servers.
    servers: f64,
    set: &'a Set,
    tally: &'a Tally,
    machines: &'a [MachineUse],
    slots: &'a [Slot],
}

impl<'a> RunView<'a> {
    fn of(run: &'a Run, set: &'a Set) -> RunView<'a> {
        RunView {
            set,
            duration_s: run.duration.as_s(),
            servers: 1.0,
            tally: &run.tally,
            machines: &run.machines,
            slots: &run.slots,
        }
    }

    fn of_fleet(run: &'a FleetRun, set: &'a Set, servers: u32) -> RunView<'a> {
        RunView {
            set,
            duration_s: run.duration.as_s(),
            servers: f64::from(servers),
            tally: &run.tally,
            machines: &run.machines,
            slots: &run.slots,
        }
    }
}

impl RunView<'_> {
    /// Returns whether all that comes is answered, if only by refusing it.
    fn keeps_up(&self) -> bool {
        let answered = self.tally.finished.iter().sum::<u64>() + self.tally.refused;
        answered as f64 >= KEEPS_UP * self.tally.arrived as f64
    }

    /// Returns the share of requests that found all machines lost.
    fn refused_pct(&self) -> f64 {
        100.0 * self.tally.refused as f64 / self.tally.arrived.max(1) as f64
    }

    /// Returns the share of the time of all machines in which they were lost.
    fn lost_pct(&self) -> f64 {
        // States are on, going down, asleep, waking, lost (`MachineUse::state_s`).
        let lost_s: f64 = self.machines.iter().map(|machine| machine.state_s[4]).sum();
        100.0 * lost_s / self.duration_s / self.servers / self.machines.len() as f64
    }

    /// Returns the share of time that machines of the last kind are asleep.
    fn big_asleep_pct(&self) -> f64 {
        let (asleep_s, _, count) = last_kind_s(self.machines, self.set);
        100.0 * asleep_s / self.duration_s / self.servers / count
    }

    /// Returns the wake-ups of the machines behind the first one, each second.
    fn wakes_per_s(&self) -> f64 {
        let wakes: u64 = self.machines[1..].iter().map(|machine| machine.wakes).sum();
        wakes as f64 / self.duration_s / self.servers
    }
}

/// Returns the share of requests that were sent to machines of the last kind: to the big one of a
/// pair.
fn big_share(tally: &Tally, set: &Set) -> f64 {
    let sent = tally.sent.iter().enumerate().filter(|(place, _)| set.is_of_last_kind(*place));
    sent.map(|(_, sent)| sent).sum::<u64>() as f64 / tally.arrived.max(1) as f64
}

/// Returns the time that machines of the last kind are asleep, their time in any state, and their
/// number.
fn last_kind_s(machines: &[MachineUse], set: &Set) -> (f64, f64, f64) {
    let last = machines.iter().enumerate().filter(|(place, _)| set.is_of_last_kind(*place));
    last.fold((0.0, 0.0, 0.0), |(asleep_s, all_s, count), (_, machine)| {
        (asleep_s + machine.state_s[2], all_s + machine.state_s.iter().sum::<f64>(), count + 1.0)
    })
}

/// Power is that of all servers, use of the big machine and wake-ups that of one in the mean.
fn run_values(run: &RunView) -> Vec<Value> {
    let (tally, seconds) = (run.tally, run.duration_s);
    let ms = |time: Option<Time>| time.map(|t| t.as_ns() * 1e-6);
    let at = |quantile: f64| ms(tally.latency.quantile(quantile)).into();
    let done: u64 = tally.finished.iter().sum();
    let finished = if tally.arrived == 0 { 1.0 } else { done as f64 / tally.arrived as f64 };
    let waited_ps: u128 = tally.waited_ps.iter().sum();
    let energy_j: f64 = run.machines.iter().map(|machine| machine.energy_j).sum();
    vec![
        (done as f64 / seconds).into(),
        (energy_j / seconds).into(),
        (energy_j / done.max(1) as f64).into(),
        ms(tally.latency.mean()).into(),
        at(0.5),
        at(0.99),
        at(0.999),
        ms(tally.latency.max()).into(),
        (waited_ps as f64 * 1e-9 / tally.arrived.max(1) as f64).into(),
        big_share(tally, run.set).into(),
        run.big_asleep_pct().into(),
        run.wakes_per_s().into(),
        (100.0 * finished).into(),
        run.refused_pct().into(),
        run.lost_pct().into(),
        u64::from(run.keeps_up()).into(),
        tally.arrived.into(),
    ]
}

/// A table with these columns, then those of a run.
fn run_table(before: &[Head]) -> Table {
    Table::new(&[before, &RUN_COLUMNS].concat())
}

/// Measures of how power follows load, from pairs (load, watts): none without an idle point and
/// two others.
#[must_use]
pub fn proportionality(points: &[(f64, f64)]) -> Option<[(&'static str, f64); 5]> {
    let curve = Curve::new(points).ok().filter(|_| points.len() > 2)?;
    Some([
        ("idle_to_peak_pct", 100.0 * curve.idle_to_peak()),
        ("dynamic_range_pct", 100.0 * curve.dynamic_range()),
        ("linear_deviation", curve.linear_deviation()),
        ("proportionality_gap", curve.mean_gap()),
        ("energy_proportionality", curve.energy_proportionality()),
    ])
}

#[cfg(test)]
mod fault_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped::library;
    use halfwink_techniques::choices;

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
        let late = complaint("niccolini", "faults.wake_late", "2");
        assert!(late.contains("faults.wake_late: 2, expected 0 to 1"), "{late}");
        let shape = complaint("niccolini", "workloads.count.size.shape", "-1");
        assert!(shape.contains("workloads.count.size"), "{shape}");
    }

    #[test]
    fn every_policy_serves_every_request_of_every_workload() {
        let info = library().server("niccolini", &[]).unwrap();
        for choice in choices("server", &[]).unwrap() {
            for workload in info.model.spec().workloads.keys() {
                let service = info.service(workload).unwrap();
                let rate = 0.15 * service.whole_capacity();
                let cell = Cell {
                    arrivals: Arrivals::Poisson { rate },
                    technique: choice.clone(),
                    options: Options { drain: true, ..Options::requests(4000, 1) },
                    model: info.model.clone(),
                    service,
                };
                let run = cell.run().unwrap();
                assert_eq!(run.tally.arrived, 3600, "{choice}, {workload}");
                assert!(run.finished() >= 3600, "{choice}, {workload}");
            }
        }
    }
}
