//! Policies by the number of CPUs that issue.

use halfwink_engine::RunControl;
use halfwink_techniques::Choice;

use super::job::{own, path, Load, OWN};
use super::StorageInfo;
use crate::error::StudyError;
use crate::logs::Logs;
use crate::parallel::parallel;
use crate::table::{real, text, Head, Table, Value};

/// The runs to play: a row for each policy and number of issuing CPUs.
#[derive(Clone, Debug)]
pub struct StorageAsked {
    /// Techniques, with their parameters.
    pub policies: Vec<String>,
    /// Numbers of issuing CPUs.
    pub issuers: Vec<u16>,
    /// `driver`, `queue-and-driver` or `queue`: what lies between issuers and device.
    pub through: String,
    /// I/Os that each issuing CPU has in flight.
    pub depth: u32,
    /// I/Os a second of all together, at most.
    pub rate: Option<f64>,
    /// I/Os that are counted; as many go before.
    pub ios: u64,
    /// The seed of all random streams.
    pub seed: u64,
}

/// Returns the columns of a row.
fn heads() -> Vec<Head> {
    let ends = [real("latency_mean_us"), real("latency_p99_us"), real("energy_uj_per_io")];
    [&[text("policy")], &OWN[1..], &ends].concat()
}

impl StorageInfo {
    /// Plays policies by the number of CPUs that issue; on all host cores.
    ///
    /// # Errors
    /// If there is no such policy or path, or a number cannot be.
    pub fn runs(&self, asked: &StorageAsked, control: &RunControl) -> Result<Table, StudyError> {
        const PATHS: [&str; 3] = ["driver", "queue-and-driver", "queue"];
        if !PATHS.contains(&asked.through.as_str()) {
            return Err(StudyError::unknown("path", &asked.through, PATHS));
        }
        let load = Load {
            path: path(&asked.through),
            depth: asked.depth,
            rate: asked.rate,
            warm_up: asked.ios,
            ios: asked.ios,
            seed: asked.seed,
            ..Load::default()
        };
        let mut points = Vec::new();
        for policy in &asked.policies {
            let choice = Choice::parse("storage", policy)?;
            points.extend(asked.issuers.iter().map(|&n| (choice.clone(), n)));
        }
        self.rows(&points, &load, control)
    }

    /// A row for each point.
    pub(super) fn rows(
        &self,
        points: &[(Choice, u16)],
        load: &Load,
        control: &RunControl,
    ) -> Result<Table, StudyError> {
        let found = parallel(points, |(choice, issuers)| -> Result<Vec<Value>, StudyError> {
            let load = Load { issuers: *issuers, ..*load };
            let run = self.play(choice, &load, control, &Logs::default())?;
            let us = |time: Option<halfwink_units::Time>| time.map(|t| t.as_ns() * 1e-3);
            let joules = run.books.energy_where(|_| true).as_j();
            let mut row: Vec<Value> = vec![choice.to_string().into()];
            row.extend(own(&run, &load).into_iter().skip(1));
            row.push(us(run.latency.mean()).into());
            row.push(us(run.latency.quantile(0.99)).into());
            row.push((1e6 * joules / run.completed as f64).into());
            Ok(row)
        });
        let mut table = Table::new(&heads());
        for row in found {
            table.push(row?);
        }
        Ok(table)
    }
}
