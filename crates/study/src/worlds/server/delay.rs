//! The prototype's delay against load, for several thresholds (Niccolini 2012, Fig 3.3).

use halfwink_policy::steering::Side;
use halfwink_server::{Arrivals, Options};
use halfwink_techniques::Choice;

use super::{run_all, run_table, run_values, Cell, RunView, ServerInfo, SEED};
use crate::error::StudyError;
use crate::table::{integer, real, text, Table};

/// Loads, in per cent of what both machines carry.
const LOADS: [f64; 20] = [
    2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0, 75.0,
    80.0, 85.0, 90.0, 95.0,
];
/// Kinds of arrivals; which the thesis had is not said.
const KINDS: [&str; 2] = ["poisson", "constant"];
/// A load that nothing carries, to see what is carried of it.
const OVERLOAD: f64 = 1.5;

impl ServerInfo {
    /// Measures what is carried when half as much again comes as both machines can: the thesis
    /// raised the rate until it was not sustained.
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn peaks(&self) -> Result<Table, StudyError> {
        let study = self.study()?;
        let (mut keys, mut cells) = (Vec::new(), Vec::new());
        for workload in &study.workloads {
            for &threshold in &study.thresholds {
                let service = self.service(workload)?;
                let rate = OVERLOAD * service.whole_capacity();
                keys.push((workload, threshold, service.whole_capacity()));
                cells.push(Cell {
                    model: self.model.clone(),
                    service,
                    arrivals: Arrivals::Poisson { rate },
                    technique: prototype(threshold)?,
                    options: Options::requests(study.requests, SEED),
                });
            }
        }
        let runs = run_all(&cells)?;
        let most = runs.iter().map(|run| run.finished() as f64 / run.duration.as_s());
        let carried: Vec<f64> = most.collect();
        let mut table = Table::new(&[
            text("workload"),
            integer("threshold"),
            real("per_s"),
            real("share_pct"),
            real("of_best_pct"),
        ]);
        for ((workload, threshold, both), per_s) in keys.iter().zip(&carried) {
            let same = keys.iter().zip(&carried).filter(|(key, _)| key.0 == *workload);
            let best = same.map(|(_, per_s)| *per_s).fold(0.0, f64::max);
            table.push(vec![
                workload.as_str().into(),
                u64::from(*threshold).into(),
                (*per_s).into(),
                (100.0 * per_s / both).into(),
                (100.0 * per_s / best).into(),
            ]);
        }
        Ok(table)
    }

    /// Mean delay, 99th percentile and use of the big machine for each load.
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn delays(&self) -> Result<Table, StudyError> {
        let study = self.study()?;
        let (mut keys, mut cells) = (Vec::new(), Vec::new());
        for workload in &study.workloads {
            let service = self.service(workload)?;
            // One workload is enough to see what the arrivals change.
            let kinds = if workload == &study.workloads[0] { &KINDS[..] } else { &KINDS[..1] };
            for &kind in kinds {
                for &threshold in &study.thresholds {
                    for load in LOADS {
                        let rate = load / 100.0 * service.whole_capacity();
                        keys.push((workload, kind, threshold, load));
                        cells.push(Cell {
                            model: self.model.clone(),
                            service: service.clone(),
                            arrivals: match kind {
                                "poisson" => Arrivals::Poisson { rate },
                                _ => Arrivals::Constant { rate },
                            },
                            technique: prototype(threshold)?,
                            options: Options::requests(study.requests, SEED),
                        });
                    }
                }
            }
        }
        let runs = run_all(&cells)?;
        let before = [
            text("workload"),
            text("arrivals"),
            integer("threshold"),
            real("load_pct"),
            real("small_wait_s"),
            real("delay_units"),
        ];
        let mut table = run_table(&before);
        for (((workload, kind, threshold, load), run), cell) in keys.iter().zip(&runs).zip(&cells) {
            // Delay in units of a mean service on the full big machine.
            let unit_s = cell.service.mean_s(Side::Big, u32::MAX);
            let units = run.tally.latency.mean().map(|t| t.as_s() / unit_s);
            let mut row = vec![
                workload.as_str().into(),
                (*kind).into(),
                u64::from(*threshold).into(),
                (*load).into(),
                run.tally.longest_wait[0].as_s().into(),
                units.into(),
            ];
            row.extend(run_values(&RunView::of(run, self.model.set())));
            table.push(row);
        }
        Ok(table)
    }
}

/// The prototype: neither CPU sleeps.
fn prototype(threshold: u32) -> Result<Choice, StudyError> {
    Ok(Choice::parse("server", &format!("always-on:threshold={threshold}"))?)
}
