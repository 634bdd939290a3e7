//! What one asks of the command line: policies against loads.

use halfwink_server::Options;

use super::policies::server_policy;
use super::{capacity, run_all, run_table, run_values, Cell, ServerInfo, ServerLoad};
use super::{SEED, SERVER_POLICIES};
use crate::error::StudyError;
use crate::table::Table;

/// What one asks of the command line.
#[derive(Clone, Debug)]
pub struct ServerQuestion {
    /// Workloads; all if none.
    pub workloads: Vec<String>,
    /// Policies; all if none.
    pub policies: Vec<String>,
    /// Loads.
    pub loads: Vec<ServerLoad>,
    /// Requests of each run, the first tenth of which are left out.
    pub requests: u64,
    /// Of all random streams.
    pub seed: u64,
}

impl Default for ServerQuestion {
    fn default() -> ServerQuestion {
        ServerQuestion {
            workloads: Vec::new(),
            policies: Vec::new(),
            loads: Vec::new(),
            requests: 200_000,
            seed: SEED,
        }
    }
}

impl ServerInfo {
    /// Policies against loads; what each saves of the power of the first one.
    ///
    /// # Errors
    /// If there is no such workload or policy, or a run fails.
    pub fn ask(&self, question: &ServerQuestion) -> Result<Table, StudyError> {
        let all = || self.model.spec().workloads.keys().cloned().collect();
        let workloads: Vec<String> =
            if question.workloads.is_empty() { all() } else { question.workloads.clone() };
        let policies: Vec<_> = if question.policies.is_empty() {
            SERVER_POLICIES.iter().collect()
        } else {
            question.policies.iter().map(|name| server_policy(name)).collect::<Result<_, _>>()?
        };
        let (mut keys, mut cells) = (Vec::new(), Vec::new());
        for workload in &workloads {
            let service = self.service(workload)?;
            for load in &question.loads {
                for policy in &policies {
                    keys.push((workload, policy.name, load));
                    cells.push(Cell {
                        model: self.model.clone(),
                        arrivals: load.arrivals(capacity(&service)),
                        service: service.clone(),
                        policy: policy.make,
                        options: Options::requests(question.requests, question.seed),
                    });
                }
            }
        }
        let runs = run_all(&cells)?;
        let mut table = run_table(&["workload", "policy", "load", "load_pct"]);
        for (((workload, policy, load), run), cell) in keys.iter().zip(&runs).zip(&cells) {
            let percent = 100.0 * cell.arrivals.rate() / capacity(&cell.service);
            let mut row = vec![
                workload.as_str().into(),
                (*policy).into(),
                load.to_string().into(),
                percent.into(),
            ];
            row.extend(run_values(run));
            table.push(row);
        }
        Ok(table)
    }
}
