//! What one asks of the command line: policies against loads.

use halfwink_server::{simulate_fleet, Dispatch, FleetRun, Goal, Options, Precision, Run};
use halfwink_techniques::choices;
use halfwink_units::Time;

use super::{failed, read_load, run_all, run_table, run_values, Cell, ServerInfo, ServerLoad};
use super::{RunView, SEED};
use crate::error::StudyError;
use crate::library::Library;
use crate::table::{integer, real, text, Head, Kind, Table, Value};
use crate::worlds::load::Read;

/// An evaluation that is asked for on the command line.
#[derive(Clone, Debug)]
pub struct ServerQuestion {
    /// Workloads; all if none.
    pub workloads: Vec<String>,
    /// Techniques, with parameters if there are any; all if none.
    pub policies: Vec<String>,
    /// Loads, each of which every technique is asked about.
    pub loads: Vec<ServerLoad>,
    /// Requests of each run at most: as many as a load has that ends, else [`REQUESTS`], or
    /// [`MOST`] with a goal, if not said. But for loads that end, the first tenth is left out.
    pub requests: Option<u64>,
    /// The precision at which a run ends, if it is to end so; not of fleets.
    pub goal: Option<Goal>,
    /// The number of servers, and how requests are spread over them.
    pub fleet: Option<(u32, Dispatch)>,
    /// Shows what happened in each span of so many seconds.
    pub slot_s: Option<f64>,
    /// The seed of all random streams.
    pub seed: u64,
}

impl Default for ServerQuestion {
    fn default() -> ServerQuestion {
        ServerQuestion {
            workloads: Vec::new(),
            policies: Vec::new(),
            loads: Vec::new(),
            requests: None,
            goal: None,
            fleet: None,
            slot_s: None,
            seed: SEED,
        }
    }
}

/// Requests of a run, if not said.
pub(super) const REQUESTS: u64 = 200_000;
/// Requests of a run that may end earlier, if not said.
const MOST: u64 = 20_000_000;
/// Length of a run without requests.
const SILENCE: Time = Time::ns(100_000_000_000);

/// Reads how requests are spread over a fleet: `random`, `round-robin`, `least` or `least:2`
/// (the emptiest of so many), `pack:6` (the first one with fewer unfinished requests).
///
/// # Errors
/// If it is none of these.
pub fn dispatch(text: &str) -> Result<Dispatch, StudyError> {
    let (name, number) = text.split_once(':').map_or((text, None), |(n, m)| (n, Some(m)));
    let number = number.map(|n| n.parse().ok().filter(|n: &u32| *n > 0));
    match (name, number) {
        ("random", None) => Ok(Dispatch::Random),
        ("round-robin", None) => Ok(Dispatch::RoundRobin),
        ("least", None) => Ok(Dispatch::Least { of: 2 }),
        ("least", Some(Some(of))) => Ok(Dispatch::Least { of }),
        ("pack", Some(Some(below))) => Ok(Dispatch::Pack { below }),
        _ => {
            let expected =
                "expected random, round-robin, least:2 (the emptiest of so many), pack:6";
            Err(StudyError::Usage(format!("unknown dispatch `{text}`; {expected}")))
        }
    }
}

/// A line of the answer, before it is run.
struct Key {
    workload: String,
    policy: String,
    load: String,
    percent: f64,
    bad_lines: u64,
    bad_line: String,
    read_as: String,
}

impl ServerInfo {
    /// Policies against loads: the runs, and their parts if those were asked for.
    ///
    /// # Errors
    /// If there is no such workload, policy or file, or a run fails.
    pub fn query(
        &self,
        library: &Library,
        question: &ServerQuestion,
    ) -> Result<(Table, Table), StudyError> {
        let (keys, cells) = self.cells(library, question)?;
        let mut table = run_table(&[
            text("workload"),
            text("policy"),
            text("load"),
            real("load_pct"),
            integer("bad_lines"),
            text("bad_line"),
            text("read_as"),
            real("mean_half_pct"),
            real("p99_half_pct"),
            real("power_half_pct"),
            integer("known"),
        ]);
        let mut slots = Table::new(&SLOT_COLUMNS);
        let mut push = |key: &Key, precision: Option<Precision>, view: &RunView| {
            let mut row = vec![
                key.workload.as_str().into(),
                key.policy.as_str().into(),
                key.load.as_str().into(),
                key.percent.into(),
                key.bad_lines.into(),
                key.bad_line.as_str().into(),
                key.read_as.as_str().into(),
            ];
            row.extend(halves(precision));
            row.extend(run_values(view));
            table.push(row);
            for (n, slot) in view.slots.iter().enumerate() {
                slots.push(slot_values(key, n, slot));
            }
        };
        if let Some(fleet) = question.fleet {
            for (key, cell) in keys.iter().zip(&cells) {
                // Whether there is such a policy was found out when the cell was made.
                let make = |_| cell.policy().expect("its technique is of servers");
                let (m, s, a) = (&cell.model, &cell.service, &cell.arrivals);
                let run: FleetRun = simulate_fleet(m, s, a, &make, fleet, cell.options)
                    .map_err(|error| failed(&error, cell.options.seed))?;
                push(key, None, &RunView::of_fleet(&run, fleet.0));
            }
        } else {
            let runs: Vec<Run> = run_all(&cells)?;
            for (key, run) in keys.iter().zip(&runs) {
                push(key, run.precision, &RunView::of(run));
            }
        }
        Ok((table, slots))
    }

    fn cells(
        &self,
        library: &Library,
        question: &ServerQuestion,
    ) -> Result<(Vec<Key>, Vec<Cell>), StudyError> {
        let all = || self.model.spec().workloads.keys().cloned().collect();
        let workloads: Vec<String> =
            if question.workloads.is_empty() { all() } else { question.workloads.clone() };
        let techniques = choices("server", &question.policies)?;
        let (mut keys, mut cells) = (Vec::new(), Vec::new());
        for workload in &workloads {
            let service = self.service(workload)?;
            let servers = question.fleet.map_or(1.0, |(n, _)| f64::from(n));
            for load in &question.loads {
                let (read, service) = read_load(load, library, &service, servers)?;
                let Read { arrivals, full, read_as, bad_lines, bad_line, .. } = read;
                for technique in &techniques {
                    keys.push(Key {
                        workload: workload.clone(),
                        policy: technique.to_string(),
                        load: load.to_string(),
                        percent: 100.0 * arrivals.rate() / full,
                        bad_lines,
                        bad_line: bad_line.clone(),
                        read_as: read_as.clone(),
                    });
                    cells.push(Cell {
                        model: self.model.clone(),
                        arrivals: arrivals.clone(),
                        service: service.clone(),
                        technique: technique.clone(),
                        options: question.options(load, arrivals.rate()),
                    });
                }
            }
        }
        Ok((keys, cells))
    }
}

impl ServerQuestion {
    pub(super) fn options(&self, load: &ServerLoad, per_s: f64) -> Options {
        let slot = self.slot_s.map(|s| Time::from_ns(s * 1e9));
        let goal = self.goal.filter(|_| self.fleet.is_none());
        let options = if per_s == 0.0 {
            Options { until: SILENCE, ..Options::all(self.seed) }
        } else if load.ends() {
            Options { requests: self.requests.unwrap_or(u64::MAX), ..Options::all(self.seed) }
        } else {
            let requests = self.requests.unwrap_or(if goal.is_some() { MOST } else { REQUESTS });
            Options { goal, ..Options::requests(requests, self.seed) }
        };
        Options { slot, ..options }
    }
}

/// Half widths of confidence intervals in per cent; whether results are known as well as was
/// wanted.
fn halves(precision: Option<Precision>) -> [Value; 4] {
    let Some(p) = precision else {
        let none = || Value::Missing(Kind::Real);
        return [none(), none(), none(), Value::Missing(Kind::Integer)];
    };
    let half = |e: halfwink_server::confidence::Estimate| Value::from(100.0 * e.relative());
    [half(p.mean_s), half(p.p99_s), half(p.power_w), u64::from(p.reached).into()]
}

const SLOT_COLUMNS: [Head; 11] = [
    text("workload"),
    text("policy"),
    text("load"),
    integer("slot"),
    real("start_s"),
    real("per_s"),
    real("power_w"),
    real("mean_ms"),
    real("p99_ms"),
    real("big_share"),
    real("big_asleep_pct"),
];

fn slot_values(key: &Key, number: usize, slot: &halfwink_server::Slot) -> Vec<Value> {
    let seconds = slot.span.as_s();
    let [small, big] = &slot.machines;
    let ms = |t: Option<Time>| t.map(|t| t.as_ns() * 1e-6);
    let latency = &slot.tally.latency;
    vec![
        key.workload.as_str().into(),
        key.policy.as_str().into(),
        key.load.as_str().into(),
        number.into(),
        slot.start.as_s().into(),
        (slot.tally.arrived as f64 / seconds).into(),
        ((small.energy_j + big.energy_j) / seconds).into(),
        ms(latency.mean()).into(),
        ms(latency.quantile(0.99)).into(),
        (slot.tally.sent[1] as f64 / slot.tally.arrived.max(1) as f64).into(),
        (100.0 * big.state_s[2] / big.state_s.iter().sum::<f64>()).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_spread_are_read() {
        assert_eq!(dispatch("least:3").unwrap(), Dispatch::Least { of: 3 });
        assert_eq!(dispatch("pack:6").unwrap(), Dispatch::Pack { below: 6 });
        for text in ["pack", "pack:0", "least:x", "randm", "random:2"] {
            assert!(dispatch(text).unwrap_err().to_string().contains("unknown dispatch"), "{text}");
        }
    }
}
