//! Counts on a fleet, from runs at steady loads: a year in seconds.

use halfwink_arrivals::Arrivals;
use halfwink_engine::RunControl;
use halfwink_server::year::{rates, steady, Effort, Grid, Steady, Walk, Year};
use halfwink_server::{Dispatch, Goal};
use halfwink_techniques::server::{Model, Service};
use halfwink_techniques::{Choice, Values};
use halfwink_units::Time;

use super::failed;
use crate::error::StudyError;
use crate::logs::Logs;
use crate::table::{Kind, Value};

/// The highest load that is simulated, over what both machines carry: closer to it, queues carry
/// over from step to step.
const HIGHEST: f64 = 0.95;
/// Requests of each steady load at most, if no number is given.
const MOST: u64 = 4_000_000;

/// Counts, and the steady loads that they are walked through on.
pub(super) struct Walked {
    /// Requests of the fleet in each step.
    counts: Vec<f64>,
    step: Time,
    /// Length in seconds: counts are repeated or cut off.
    duration_s: f64,
    fleet: (u32, Dispatch),
    /// The number of steady loads that are simulated.
    loads: usize,
    effort: Effort,
}

/// The results of a walk, and the load that it asks for.
pub(super) struct Found {
    pub(super) year: Year,
    /// Per cent of what both machines of all servers carry: in the fullest step, and the highest
    /// load that one server keeps up with.
    pub(super) peak_pct: f64,
    pub(super) highest_pct: f64,
    /// Requests that were simulated.
    pub(super) simulated: u64,
}

impl Walked {
    /// Reads the options of a walk; none if every request is to be played.
    ///
    /// # Errors
    /// If arrivals are no counts, servers depend on each other, or an option is of the other way.
    pub(super) fn read(
        options: &Values,
        arrivals: &Arrivals,
        fleet: Option<(u32, Dispatch)>,
    ) -> Result<Option<Walked>, StudyError> {
        let wrong = |message: &str| Err(StudyError::Usage(message.to_owned()));
        let days = options.given("days");
        let Some(loads) = options.given("steady_loads") else {
            return match days {
                None => Ok(None),
                Some(_) => {
                    wrong("days: expected steady_loads with it; other runs end as `requests` say")
                }
            };
        };
        let Arrivals::Rates { step, per_s } = arrivals else {
            return wrong(
                "steady_loads: expected a load of counts, as counts:FILE or counts:FILE@4",
            );
        };
        if options.given("slot_s").is_some() {
            return wrong("slot_s: expected no steady_loads with it, which has no spans of time");
        }
        let fleet = fleet.unwrap_or((1, Dispatch::Random));
        // Only these give each server a stream that does not depend on the others, which one
        // simulated server stands for.
        if !matches!(fleet.1, Dispatch::Random | Dispatch::RoundRobin) {
            return wrong(
                "dispatch: expected random or round-robin with steady_loads; servers whose \
                 requests depend on each other are played without it",
            );
        }
        let recorded_s = per_s.len() as f64 * step.as_s();
        let goal = options.given("accuracy").map(|relative| Goal { relative, confidence: 0.95 });
        let requests = options.given("requests").map_or(MOST, |n| n as u64);
        Ok(Some(Walked {
            counts: per_s.iter().map(|rate| rate * step.as_s()).collect(),
            step: *step,
            duration_s: days.map_or(recorded_s, |days| 86_400.0 * days),
            fleet,
            loads: loads as usize,
            effort: Effort { seed: options.number("seed") as u64, requests, goal },
        }))
    }

    /// Simulates one server at each steady load, and walks through the counts.
    ///
    /// Quasi-stationary: see [`halfwink_server::year`], also for when it does not hold. Steps above
    /// the highest load that the technique keeps up with are served at that load, and what is more
    /// is counted as not finished.
    ///
    /// # Errors
    /// If the technique keeps up with none of the loads, or a run's books do not balance.
    pub(super) fn run(
        &self,
        (model, service): (&Model, &Service),
        choice: &Choice,
        control: &RunControl,
        logs: &Logs,
    ) -> Result<Found, StudyError> {
        let servers = self.servers();
        let full = service.whole_capacity() * servers;
        let peak = self.counts.iter().copied().fold(0.0, f64::max) / self.step.as_s();
        let top = peak.min(HIGHEST * full) / servers;
        let rates = if top > 0.0 { rates(top, self.loads) } else { vec![0.0] };
        let points = rates.iter().enumerate().map(|(n, &rate)| -> Result<Steady, StudyError> {
            let made = logs.steering(n, choice.steering(model, service)?);
            steady(model, service, made, rate, self.fleet, self.effort, control)
                .map_err(|error| failed(&error, self.effort.seed))
        });
        let grid = Grid::new(points.collect::<Result<_, _>>()?).ok_or_else(|| {
            StudyError::Usage(format!("{choice} keeps up with none of the steady loads"))
        })?;
        let year = grid.walk(&Walk {
            counts: &self.counts,
            step_s: self.step.as_s(),
            scale: 1.0,
            servers,
            duration_s: self.duration_s,
        });
        Ok(Found {
            year,
            peak_pct: 100.0 * peak / full,
            highest_pct: 100.0 * grid.highest() * servers / full,
            simulated: grid.requests(),
        })
    }

    /// The number of servers.
    pub(super) fn servers(&self) -> f64 {
        f64::from(self.fleet.0)
    }

    /// Requests that are simulated at most; 0 if only playing them tells.
    pub(super) fn most(&self) -> u64 {
        match self.effort.goal {
            Some(_) => 0,
            None => self.effort.requests.saturating_mul(self.loads as u64),
        }
    }
}

/// Cells of the columns that only a walk has: `peak_pct`, `highest_pct`, `above_minutes`,
/// `simulated`.
pub(super) fn cells(found: Option<&Found>) -> [Value; 4] {
    let Some(found) = found else {
        let real = || Value::Missing(Kind::Real);
        return [real(), real(), real(), Value::Missing(Kind::Integer)];
    };
    [
        found.peak_pct.into(),
        found.highest_pct.into(),
        (found.year.above_s / 60.0).into(),
        found.simulated.into(),
    ]
}
