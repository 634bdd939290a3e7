//! Stacks against rate, and applications over a load profile (Niccolini 2012, Fig 4.4, 4.16, 4.17,
//! 4.19).

use halfwink_router::{Flows, Options, Run, Traffic};
use halfwink_techniques::router::{App, Model, Point};
use halfwink_units::Time;

use super::profile::RouterProfile;
use super::{run_all, run_table, run_values, Cell, RouterInfo, SEED, STACKS, THESIS};
use crate::error::StudyError;
use crate::table::{integer, real, text, Table, Value};

/// Rates of Fig 4.19, in million packets per second (assumption); the last is more than one core
/// can do.
const RATES: [f64; 15] =
    [0.01, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.2];
/// Shares of the peak rate of all cores.
const SHARES: [f64; 8] = [0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 0.95, 1.2];

/// Options of a run over a load profile.
pub(super) fn evaluation_options(model: &Model, seed: u64, overall_order: bool) -> Options {
    Options { batching: true, overall_order, ..Options::all_cores(model, seed) }
}

impl RouterInfo {
    /// Returns the traffic of an application over a load profile.
    pub(super) fn traffic(&self, app: &App, profile: &RouterProfile, seed: u64) -> Traffic {
        let full_pps = 1e6 * self.model.rate_mpps(app, self.model.fastest());
        let e = &self.model.spec().evaluation;
        Traffic {
            train: e.train,
            flows: Flows::Train,
            ..Traffic::random(&self.model, app, profile.build(e, full_pps, seed))
        }
    }

    /// All applications under the thesis' policies over the evaluation's profile; and the seconds
    /// of each.
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn evaluation(&self) -> Result<(Table, Table), StudyError> {
        let mut keys = Vec::new();
        let mut cells = Vec::new();
        for (name, app) in &self.model.spec().apps {
            for technique in THESIS {
                keys.push((name.as_str(), technique));
                cells.push(Cell {
                    app,
                    traffic: self.traffic(app, &RouterProfile::Evaluation, SEED),
                    policy: self.policy(technique)?,
                    options: evaluation_options(&self.model, SEED, true),
                });
            }
        }
        let runs = run_all(&self.model, cells)?;
        Ok(two_tables(&keys, &runs))
    }

    /// Draws the packets of an application and does nothing with them: how many there are.
    ///
    /// # Errors
    /// If there is no such application.
    pub fn draw(&self, app: &str, profile: &RouterProfile, seed: u64) -> Result<u64, StudyError> {
        Ok(self.traffic(self.app(app)?, profile, seed).count(seed))
    }

    /// Returns an application by name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub(super) fn app(&self, name: &str) -> Result<&App, StudyError> {
        let known = self.model.spec().apps.keys().map(String::as_str);
        self.model.app(name).ok_or_else(|| StudyError::unknown("application", name, known))
    }

    /// Stacks against rate: one core and all, 64 and 1024 bytes.
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn rates(&self) -> Result<Table, StudyError> {
        let small = self.small();
        let large = App { bytes: 1024, ..small.clone() };
        let all = self.model.fastest();
        let one = Point { cores: 1, ..all };
        let mut keys = Vec::new();
        let mut cells = Vec::new();
        for (start, app) in [(one, &small), (all, &small), (all, &large)] {
            let peak = self.model.rate_mpps(app, all);
            let rates: Vec<f64> = if start.cores == 1 {
                RATES.to_vec()
            } else {
                SHARES
                    .iter()
                    // Of long frames the wire carries no more than its rate, so that there is
                    // nothing beyond 1 to ask for.
                    .map(|share| share.min(if app.bytes > 64 { 1.0 } else { 2.0 }) * peak)
                    .collect()
            };
            for mpps in rates {
                for technique in &STACKS[..2] {
                    keys.push((*technique, start.cores, app.bytes, mpps));
                    // A rate of 0 has no gap to draw; at this one a packet comes in a thousand
                    // seconds, and the run has 40 ms.
                    let traffic = self.small_traffic(mpps.max(1e-9), 40);
                    let spacing = Time::from_ns(self.model.wire_ns(app.bytes));
                    cells.push(Cell {
                        app,
                        traffic: Traffic { bytes: app.bytes, spacing, ..traffic },
                        policy: self.policy(technique)?,
                        options: Options { start, ..Options::all_cores(&self.model, SEED) },
                    });
                }
            }
        }
        let runs = run_all(&self.model, cells)?;
        let mut table =
            run_table(&[text("policy"), integer("cores"), integer("bytes"), real("offered_mpps")]);
        for ((policy, cores, bytes, mpps), run) in keys.into_iter().zip(&runs) {
            let cores = u64::from(cores).into();
            let mut row = vec![policy.into(), cores, u64::from(bytes).into(), mpps.into()];
            row.extend(run_values(run));
            table.push(row);
        }
        Ok(table)
    }
}

fn two_tables(keys: &[(&str, &str)], runs: &[Run]) -> (Table, Table) {
    let mut table = Table::new(
        &[
            &[text("app"), text("policy"), integer("offered")][..],
            &super::RUN_COLUMNS,
            &[integer("reordered_overall"), real("cores")],
        ]
        .concat(),
    );
    let mut slots = super::slot_table(&[text("app"), text("policy")]);
    for ((app, policy), run) in keys.iter().zip(runs) {
        let mut row: Vec<Value> = vec![(*app).into(), (*policy).into(), run.received.into()];
        row.extend(super::run_values(run));
        let cores = run.slots.iter().map(|slot| slot.cores).sum::<f64>() / run.slots.len() as f64;
        row.extend([run.reordered_overall.into(), cores.into()]);
        table.push(row);
        for (n, slot) in run.slots.iter().enumerate() {
            let mut row: Vec<Value> = vec![(*app).into(), (*policy).into()];
            row.extend(super::slot_values(n, slot));
            slots.push(row);
        }
    }
    (table, slots)
}
