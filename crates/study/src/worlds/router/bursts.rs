//! Bursts: silence, then packets back to back, at one mean rate (Niccolini 2012, Sec 4.6.3).

use halfwink_router::{Flows, Gap, Options, Profile, Traffic};
use halfwink_units::Time;

use super::{run_all, run_table, run_values, Cell, RouterInfo, SEED, STACKS};
use crate::error::StudyError;
use crate::table::{integer, text, Table};

/// Simulated milliseconds of each.
const MS: u64 = 100;

impl RouterInfo {
    /// Applications x stacks x burst lengths, in packets: powers of two up to the longest.
    ///
    /// An application that cannot carry the published rate gets what it can carry at 90 % of its
    /// peak (assumption).
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn bursts(&self) -> Result<Table, StudyError> {
        let spec = self.model.spec();
        let mut keys = Vec::new();
        let mut cells = Vec::new();
        let lengths = || (0..).map(|n| 1_u32 << n).take_while(|&b| b <= spec.burst.longest);
        for (name, app) in &spec.apps {
            let asked = f64::from(spec.nic.ports) * spec.burst.port_gbps * 1e9
                / (8.0 * f64::from(app.bytes));
            let full_pps = asked.min(0.9e6 * self.model.rate_mpps(app, self.model.fastest()));
            for burst in lengths() {
                for technique in STACKS {
                    keys.push((name.as_str(), technique, burst));
                    let profile = Profile::constant(1.0, 1, Time::ns(1_000_000 * MS));
                    cells.push(Cell {
                        app,
                        traffic: Traffic {
                            full_pps,
                            train: burst,
                            gap: Gap::Even,
                            flows: Flows::Mixed,
                            ..Traffic::random(&self.model, app, profile)
                        },
                        policy: self.policy(technique)?,
                        options: Options::all_cores(&self.model, SEED),
                    });
                }
            }
        }
        let runs = run_all(&self.model, cells)?;
        let mut table = run_table(&[text("app"), text("policy"), integer("burst")]);
        for ((app, policy, burst), run) in keys.into_iter().zip(&runs) {
            let mut row = vec![app.into(), policy.into(), u64::from(burst).into()];
            row.extend(run_values(run));
            table.push(row);
        }
        Ok(table)
    }
}
