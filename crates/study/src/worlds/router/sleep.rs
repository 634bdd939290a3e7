//! Which sleep state: power, delay, and whether it matters (Niccolini 2012, Table 4.1, Fig 4.11,
//! 4.20, 4.21).

use halfwink_policy::scaling::{Depth, Napi, Polling, ScalingPolicy};
use halfwink_router::{Flows, Gap, Options, Profile, Traffic};
use halfwink_techniques::router::Point;
use halfwink_units::Time;

use super::{run_all, run_table, run_values, Cell, RouterInfo, SEED};
use crate::error::StudyError;
use crate::table::{integer, real, text, Table};

const DEPTHS: [(&str, Depth); 3] = [("c1", Depth::C1), ("c3", Depth::C3), ("c6", Depth::C6)];
/// Rates of Fig 4.11, in million packets per second (assumption).
const RATES: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 5.0];

impl RouterInfo {
    /// 64-byte packets at random for so many milliseconds.
    pub(super) fn small_traffic(&self, mpps: f64, ms: u64) -> Traffic {
        let app = self.small();
        let profile = Profile::constant(1.0, 1, Time::ns(1_000_000 * ms));
        Traffic {
            full_pps: mpps * 1e6,
            gap: Gap::Exponential,
            flows: Flows::Mixed,
            ..Traffic::random(&self.model, &app, profile)
        }
    }

    /// 2, 4, 12 cores at the slowest P-state whose naps go on in C1, C3 or C6.
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn naps(&self) -> Result<Table, StudyError> {
        let small = self.small();
        let count = self.model.spec().cores.count;
        let mut keys = Vec::new();
        let mut cells = Vec::new();
        for cores in [2, 4, 12].into_iter().filter(|&c| c <= count) {
            let start = Point { cores, step: 0 };
            for mpps in RATES.into_iter().filter(|&r| r <= self.model.rate_mpps(&small, start)) {
                for (name, depth) in DEPTHS {
                    keys.push((cores, name, mpps));
                    cells.push(Cell {
                        app: &small,
                        traffic: self.small_traffic(mpps, 40),
                        policy: Box::new(Napi::new(depth)),
                        options: Options { start, ..Options::all_cores(&self.model, SEED) },
                    });
                }
            }
        }
        let runs = run_all(&self.model, cells)?;
        let mut table = run_table(&[integer("cores"), text("state"), real("offered_mpps")]);
        for ((cores, state, mpps), run) in keys.into_iter().zip(&runs) {
            let mut row = vec![u64::from(cores).into(), state.into(), mpps.into()];
            row.extend(run_values(run));
            table.push(row);
        }
        Ok(table)
    }

    /// All cores held in a state: power without load, delay of a packet each second. Timers and
    /// devices wake cores, too.
    ///
    /// # Errors
    /// If a run's books do not balance.
    pub fn held(&self) -> Result<Table, StudyError> {
        let small = self.small();
        let states: [&str; 4] = ["c0", "c1", "c3", "c6"];
        let start = Point { cores: self.model.spec().cores.count, step: 0 };
        let mut cells = Vec::new();
        for state in states {
            // One packet a second needs a thousand seconds for its 99th percentile; power without
            // load is exact after one.
            for (mpps, seconds, background) in [(1e-12, 1, false), (1e-6, 1_000, true)] {
                cells.push(Cell {
                    app: &small,
                    traffic: self.small_traffic(mpps, 1_000 * seconds),
                    policy: in_state(state),
                    options: Options { start, background, ..Options::all_cores(&self.model, SEED) },
                });
            }
        }
        let runs = run_all(&self.model, cells)?;
        let mut table = Table::new(&[
            text("state"),
            real("power_w"),
            integer("packets"),
            real("min_us"),
            real("mean_us"),
            real("p99_us"),
            real("max_us"),
        ]);
        for (name, pair) in states.into_iter().zip(runs.chunks(2)) {
            let delay = &pair[1].latency;
            table.push(vec![
                name.into(),
                pair[0].power_w().into(),
                delay.count().into(),
                delay.quantile_us(0.0).into(),
                delay.mean_us().into(),
                delay.quantile_us(0.99).into(),
                delay.max_us().into(),
            ]);
        }
        Ok(table)
    }
}

/// Cores that wait in this state.
fn in_state(name: &str) -> ScalingPolicy {
    match DEPTHS.iter().find(|(known, _)| *known == name) {
        Some(&(_, depth)) => Box::new(Napi::new(depth)),
        None => Box::new(Polling::new()),
    }
}
