//! A year of counts on a fleet, from runs at steady loads.

use std::path::PathBuf;

use halfwink_arrivals::counts::Counts;
use halfwink_inputs::Share;
use halfwink_server::year::{rates, steady, Effort, Grid, Steady, Walk, Year};
use halfwink_server::{Dispatch, Goal};
use halfwink_techniques::{choices, Choice};

use super::{capacity, failed, ServerInfo, SEED};
use crate::error::StudyError;
use crate::library::Library;
use crate::parallel::parallel;
use crate::table::{integer, real, text, Head, Table, Value};
use crate::worlds::load::open;

/// A year of counts on a fleet.
#[derive(Clone, Debug)]
pub struct YearQuestion {
    /// Workloads; all if none.
    pub workloads: Vec<String>,
    /// Techniques, with parameters if there are any; all if none.
    pub policies: Vec<String>,
    /// A file of counts.
    pub counts: PathBuf,
    /// The number of servers, and how requests are spread: at random or in turn.
    pub fleet: (u32, Dispatch),
    /// Mean load, in per cent of what both machines of all servers carry; as counted if none.
    pub load_pct: Option<f64>,
    /// Length in days: counts are repeated or cut off; once through them if none.
    pub days: Option<f64>,
    /// Steady loads that are simulated, 2 at least.
    pub points: usize,
    /// Requests at each of them, at most.
    pub requests: u64,
    /// The precision that each result is to have.
    pub goal: Option<Goal>,
    /// The seed of all random streams.
    pub seed: u64,
}

impl Default for YearQuestion {
    fn default() -> YearQuestion {
        YearQuestion {
            workloads: Vec::new(),
            policies: Vec::new(),
            counts: PathBuf::from("workloads/server/worldcup98-requests-per-minute.csv.xz"),
            fleet: (1000, Dispatch::Random),
            load_pct: None,
            days: None,
            points: 33,
            requests: 4_000_000,
            goal: Some(Goal { relative: 0.02, confidence: 0.95 }),
            seed: SEED,
        }
    }
}

/// The highest load that is simulated, over what both machines carry: closer to it, queues carry
/// over from minute to minute.
const HIGHEST: f64 = 0.95;
/// The policy that savings are measured against.
const BASELINE: &str = "always-on";
const COLUMNS: [Head; 23] = [
    text("workload"),
    text("policy"),
    integer("servers"),
    real("days"),
    integer("steps"),
    real("load_pct"),
    real("peak_pct"),
    real("highest_pct"),
    real("requests"),
    real("energy_j"),
    real("power_w"),
    real("j_per_request"),
    real("always_on_j"),
    real("saved_pct"),
    real("mean_ms"),
    real("p50_ms"),
    real("p99_ms"),
    real("p999_ms"),
    real("above_minutes"),
    real("above_requests"),
    integer("bad_lines"),
    text("bad_line"),
    integer("simulated"),
];

/// Counts, and how they are played.
struct Plan {
    counts: Counts,
    scale: f64,
    duration_s: f64,
}

impl Plan {
    fn new(question: &YearQuestion, counts: &Counts, full: f64) -> Result<Plan, StudyError> {
        let recorded_s = counts.requests.len() as f64 * counts.step.as_s();
        let mean = counts.total() / recorded_s;
        let scale = match question.load_pct {
            Some(_) if mean == 0.0 => {
                let name = question.counts.display();
                return Err(StudyError::Usage(format!("{name}: no requests to scale to a load")));
            }
            Some(percent) => percent / 100.0 * full / mean,
            None => 1.0,
        };
        let duration_s = question.days.map_or(recorded_s, |days| 86_400.0 * days);
        Ok(Plan { counts: counts.clone(), scale, duration_s })
    }

    /// The fullest step, in requests per second of all servers.
    fn peak(&self) -> f64 {
        self.scale * self.counts.peak() / self.counts.step.as_s()
    }

    fn walk(&self, grid: &Grid, servers: u32) -> Year {
        grid.walk(&Walk {
            counts: &self.counts.requests,
            step_s: self.counts.step.as_s(),
            scale: self.scale,
            servers: f64::from(servers),
            duration_s: self.duration_s,
        })
    }
}

impl ServerInfo {
    /// Tabulates what a fleet draws and delays over a year of counts: a row for each workload and
    /// policy.
    ///
    /// Quasi-stationary: see [`halfwink_server::year`], also for when it does not hold. Savings are
    /// against `always-on`, which is played too. `load_pct`: the mean load that was asked for,
    /// `highest_pct`: above it, steps are clamped and counted (`above_minutes`), all in per cent of
    /// what both machines carry.
    ///
    /// # Errors
    /// If there is no such workload, policy or file, counts are silent and shall be scaled, or
    /// servers depend on each other.
    pub fn year(&self, library: &Library, question: &YearQuestion) -> Result<Table, StudyError> {
        let file = open(library, &question.counts)?;
        let path = file.path().to_owned();
        let counts = Counts::read(file, Share::default())
            .map_err(|e| StudyError::Usage(format!("{}: {e}", path.display())))?;
        let all = || self.model.spec().workloads.keys().cloned().collect();
        let workloads: Vec<String> =
            if question.workloads.is_empty() { all() } else { question.workloads.clone() };
        let techniques = choices("server", &question.policies)?;
        let baseline = Choice::parse("server", BASELINE)?;
        let mut table = Table::new(&COLUMNS);
        for workload in &workloads {
            let servers = question.fleet.0;
            let full = capacity(&self.service(workload)?) * f64::from(servers);
            let plan = Plan::new(question, &counts, full)?;
            let top = plan.peak().min(HIGHEST * full) / f64::from(servers);
            let mut played = techniques.clone();
            if !played.iter().any(is_baseline) {
                played.push(baseline.clone());
            }
            let grids = self.grids(workload, &played, top, question)?;
            let years: Vec<Year> = grids.iter().map(|grid| plan.walk(grid, servers)).collect();
            let base = played.iter().position(is_baseline).unwrap_or(0);
            let always_on_j = years[base].energy_j;
            for ((technique, grid), year) in techniques.iter().zip(&grids).zip(&years) {
                let mut row = vec![workload.as_str().into(), technique.to_string().into()];
                let highest = grid.highest() * f64::from(servers);
                row.extend(load_values(&plan, servers, full, highest));
                row.extend(year_values(year, always_on_j));
                row.extend([
                    counts.skipped.count.into(),
                    first_bad(&counts).into(),
                    grid.requests().into(),
                ]);
                table.push(row);
            }
        }
        Ok(table)
    }

    /// One server at steady loads up to the highest, under each policy.
    fn grids(
        &self,
        workload: &str,
        techniques: &[Choice],
        top: f64,
        question: &YearQuestion,
    ) -> Result<Vec<Grid>, StudyError> {
        let service = self.service(workload)?;
        let effort =
            Effort { seed: question.seed, requests: question.requests, goal: question.goal };
        let rates = if top > 0.0 { rates(top, question.points) } else { vec![0.0] };
        // The longest runs first, so that no host core is left with them.
        let mut cells: Vec<(f64, &Choice)> =
            rates.iter().flat_map(|&rate| techniques.iter().map(move |t| (rate, t))).collect();
        cells.reverse();
        let run = |(rate, technique): &(f64, &Choice)| -> Result<Steady, StudyError> {
            let made = technique.steering(&self.model, &service)?;
            steady(&self.model, &service, made, *rate, question.fleet, effort)
                .map_err(|error| failed(&error, effort.seed))
        };
        let runs = parallel(&cells, run).into_iter().collect::<Result<Vec<Steady>, _>>()?;
        let of = |technique: &Choice| {
            let name = technique.to_string();
            let mine = cells.iter().zip(&runs).filter(|((_, t), _)| t.to_string() == name);
            Grid::new(mine.map(|(_, run)| run.clone()).collect()).ok_or_else(|| {
                StudyError::Usage(format!("{name} keeps up with none of the loads of `{workload}`"))
            })
        };
        techniques.iter().map(of).collect()
    }
}

fn is_baseline(choice: &Choice) -> bool {
    choice.to_string() == BASELINE
}

fn first_bad(counts: &Counts) -> String {
    counts.skipped.examples.first().map(ToString::to_string).unwrap_or_default()
}

/// Returns the cells from `servers` to `highest_pct`.
fn load_values(plan: &Plan, servers: u32, full: f64, highest: f64) -> [Value; 6] {
    let step_s = plan.counts.step.as_s();
    let steps = plan.duration_s / step_s;
    let mean = plan.scale * plan.counts.total() / (plan.counts.requests.len() as f64 * step_s);
    [
        u64::from(servers).into(),
        (plan.duration_s / 86_400.0).into(),
        (steps.ceil() as u64).into(),
        (100.0 * mean / full).into(),
        (100.0 * plan.peak() / full).into(),
        (100.0 * highest / full).into(),
    ]
}

/// Returns the cells from `requests` to `above_requests`.
fn year_values(year: &Year, always_on_j: f64) -> [Value; 12] {
    let ms = |s: Option<f64>| Value::from(s.map(|s| 1e3 * s));
    let each = (year.requests > 0.0).then(|| year.energy_j / year.requests);
    [
        year.requests.into(),
        year.energy_j.into(),
        year.power_w().into(),
        each.into(),
        always_on_j.into(),
        (100.0 * (1.0 - year.energy_j / always_on_j)).into(),
        ms(year.mean_s),
        ms(year.quantile_s(0.5)),
        ms(year.quantile_s(0.99)),
        ms(year.quantile_s(0.999)),
        (year.above_s / 60.0).into(),
        year.above_requests.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: impl FnOnce(&mut YearQuestion)) -> Result<Table, StudyError> {
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut question = YearQuestion {
            workloads: vec!["count".to_owned()],
            policies: vec!["hybrid".to_owned(), "always-small".to_owned()],
            load_pct: Some(4.0),
            days: Some(365.0),
            points: 9,
            requests: 20_000,
            goal: None,
            ..YearQuestion::default()
        };
        change(&mut question);
        library.server("niccolini", &[])?.year(&library, &question)
    }

    fn number(table: &Table, row: usize, column: &str) -> f64 {
        match table.get(row, column) {
            Some(Value::Real(value)) => *value,
            Some(Value::Integer(value)) => *value as f64,
            other => panic!("{column}: {other:?}"),
        }
    }

    #[test]
    fn a_year_of_the_world_cup_on_a_thousand_servers() {
        let table = asked(|_| {}).unwrap();
        assert_eq!(table.len(), 2);
        assert!((number(&table, 0, "steps") - 525_600.0).abs() < 0.5);
        assert!((number(&table, 0, "load_pct") - 4.0).abs() < 1e-9);
        // 229,426 in its fullest minute, 10,796 in the mean.
        assert!((number(&table, 0, "peak_pct") / 85.0 - 1.0).abs() < 0.001);
        let saved = number(&table, 0, "saved_pct");
        assert!((20.0..90.0).contains(&saved), "{saved}");
        assert!(number(&table, 0, "above_minutes") < 0.5);
        // The small machine alone carries a quarter of it.
        assert!(number(&table, 1, "highest_pct") < 25.0);
        assert!(number(&table, 1, "above_minutes") > 1000.0);
        let lost = number(&table, 0, "requests") - number(&table, 1, "requests");
        assert!((number(&table, 1, "above_requests") / lost - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_cannot_be_asked_is_said() {
        let said = |change: fn(&mut YearQuestion)| asked(change).unwrap_err().to_string();
        assert!(said(|q| q.counts = "none.csv".into()).contains("none.csv"));
        assert!(said(|q| q.policies = vec!["hybird".to_owned()]).contains("hybrid"));
        assert!(said(|q| q.workloads = vec!["cuont".to_owned()]).contains("count"));
        let least = said(|q| q.fleet.1 = Dispatch::Least { of: 2 });
        assert!(least.contains("depend on each other"), "{least}");
    }
}
