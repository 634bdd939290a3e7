//! A year in seconds: load that changes over minutes, from runs at steady loads.
//!
//! A fleet whose requests are spread without a look at the servers is so many independent servers,
//! and a server forgets its past within milliseconds to seconds. Where load changes much more
//! slowly, it is at every moment as if that load had lasted for ever (*quasi-stationary*; the
//! pointwise stationary approximation of Green and Kolesar, Management Science 37(1), 1991). So one
//! server is simulated at a [`Grid`] of steady loads, and a year of counts is walked through: power
//! between two loads lies on the line between theirs, delays are those of both, mixed.
//!
//! This holds while a step is much longer than the server takes to settle: about
//! `s / (1 - load)^2` for requests of `s` seconds, the times in which machines change their state,
//! and several periods of policies that watch something. It does not hold close to saturation,
//! where queues carry over from step to step. Steps above the grid's highest load are served at
//! that load, and counted.
//!
//! Time is in seconds here: [`Time`](halfwink_units::Time) ends after 213 days.

use halfwink_engine::confidence::Goal;
use halfwink_engine::Histogram;
use halfwink_engine::Law;
use halfwink_engine::RunControl;
use halfwink_policy::steering::SteeringPolicy;
use halfwink_techniques::server::{Model, Service};
use halfwink_units::Time;

use crate::fleet::Dispatch;
use crate::run::{simulate_controlled, Options, RunError, Slot};
use halfwink_arrivals::Arrivals;

/// Effort of the simulation at each load.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Seed of all random streams.
    pub seed: u64,
    /// Requests at most, the first tenth to warm up.
    pub requests: u64,
    /// Ends a run when its results are known so well.
    pub goal: Option<Goal>,
}

/// One server at a steady load.
#[derive(Clone, Debug)]
pub struct Steady {
    /// Rate in requests per second.
    pub rate: f64,
    /// Mean power, in watts.
    pub power_w: f64,
    /// Time from arrival until done; empty without load.
    pub latency: Histogram,
    /// Whether it serves all arrivals, and is not close to saturation.
    pub keeps_up: bool,
    /// Requests that were simulated.
    pub requests: u64,
}

/// A run ends then at the latest: rare requests say little more.
const LONGEST: Time = Time::ns(1_000_000_000_000_000);
/// Without requests, a server has settled after the first half of this.
const SILENCE: Time = Time::ns(2_000_000_000_000);
/// A server keeps up if no more requests than this are left unfinished, or this share of all.
const UNFINISHED: (u64, f64) = (200, 1e-3);
/// Nor does it if its workers are busier than this, those of each machine that more than this share
/// of requests is sent to.
const BUSIEST: f64 = 0.95;
const USED: f64 = 0.01;

/// Simulates one server of a fleet at a steady load of so many requests per second for it.
///
/// Spread at random over servers, a Poisson process is one for each; in turn, each server's gaps
/// are sums of as many exponential ones.
///
/// # Errors
/// See [`RunError`]; dispatch that looks at what servers do.
pub fn steady(
    model: &Model,
    service: &Service,
    policy: SteeringPolicy,
    rate: f64,
    (servers, dispatch): (u32, Dispatch),
    effort: Effort,
    control: &RunControl,
) -> Result<Steady, RunError> {
    let arrivals = match dispatch {
        Dispatch::RoundRobin if rate > 0.0 => {
            let gaps = Law::Erlang { mean: 1.0, phases: servers };
            Arrivals::Renewal { gaps, unit_s: 1.0 / rate }
        }
        Dispatch::Random | Dispatch::RoundRobin => Arrivals::Poisson { rate },
        _ => return Err(RunError::Arrivals("servers that depend on each other".to_owned())),
    };
    if rate == 0.0 {
        // Two slots, of which the second counts: in the first one policies put their machines to
        // sleep.
        let slot = Some(Time(SILENCE.0 / 2));
        let options = Options { slot, until: SILENCE, ..Options::all(effort.seed) };
        let run = simulate_controlled(model, service, &arrivals, policy, options, control)?;
        let watts = |slot: &Slot| {
            slot.machines.iter().map(|machine| machine.energy_j / slot.span.as_s()).sum()
        };
        let (power_w, latency) = (run.slots.last().map_or(0.0, watts), Histogram::default());
        return Ok(Steady { rate, power_w, latency, keeps_up: true, requests: 0 });
    }
    // A hundred at least: at a rate of almost nothing the bound of time would leave none.
    let most = effort.requests.min((rate * LONGEST.as_s()) as u64).max(100);
    let options = Options { goal: effort.goal, ..Options::requests(most, effort.seed) };
    let run = simulate_controlled(model, service, &arrivals, policy, options, control)?;
    let machines = model.set().machines();
    let full = machines.iter().zip(&run.machines).zip(&run.tally.sent);
    let saturated = full
        .filter(|(_, sent)| **sent as f64 > USED * run.tally.arrived as f64)
        // All that are used: the small machine of a pair is full at most loads, and the big one
        // takes the rest.
        .all(|((m, used), _)| used.served_s > BUSIEST * f64::from(m.workers) * run.duration.as_s());
    let unfinished = run.tally.arrived.saturating_sub(run.finished());
    let fits = UNFINISHED.0.max((UNFINISHED.1 * run.tally.arrived as f64) as u64);
    Ok(Steady {
        rate,
        power_w: run.power_w(),
        keeps_up: unfinished <= fits && !saturated,
        requests: run.tally.arrived,
        latency: run.tally.latency,
    })
}

/// Rates from 0 to the highest, closer together where they are low: most of a year is there, and
/// what a server does changes fastest.
#[must_use]
pub fn rates(highest: f64, points: usize) -> Vec<f64> {
    let last = points.max(2) - 1;
    (0..=last).map(|n| highest * (n as f64 / last as f64).powi(2)).collect()
}

/// One server at steady loads, from the lowest to the highest that it keeps up with.
#[derive(Clone, Debug)]
pub struct Grid(Vec<Steady>);

/// Counts of a fleet's requests, step by step, and how long they are played.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// Requests in each step.
    pub counts: &'a [f64],
    /// Length of a step, in seconds.
    pub step_s: f64,
    /// Counts are multiplied by this.
    pub scale: f64,
    /// Servers that share them.
    pub servers: f64,
    /// Length of the walk, in seconds: counts are repeated or cut off.
    pub duration_s: f64,
}

/// Results of a fleet over a year, or another length.
#[derive(Clone, Debug, PartialEq)]
pub struct Year {
    /// Length in seconds.
    pub duration_s: f64,
    /// Requests that were served.
    pub requests: f64,
    /// Energy of all servers, in joules.
    pub energy_j: f64,
    /// Mean time from arrival until done, in seconds; none without requests.
    pub mean_s: Option<f64>,
    /// Delays, the shortest first: seconds, and the share of requests that take no longer.
    pub delays: Vec<(f64, f64)>,
    /// Seconds in steps above the highest load.
    pub above_s: f64,
    /// Requests in them that were more than the highest load, and are left out of all else.
    pub above_requests: f64,
}

impl Grid {
    /// Sorts loads and leaves out those from the first one on that is not kept up with. None
    /// without load 0, or if no load is kept up with.
    #[must_use]
    pub fn new(mut points: Vec<Steady>) -> Option<Grid> {
        points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        // Two of one rate would divide by zero between them.
        points.dedup_by(|a, b| a.rate <= b.rate);
        let alone = points.len() == 1;
        // From the first that is not kept up with: one beyond it that seems to be is chance, and
        // would stretch the grid over a gap.
        points.truncate(points.iter().position(|p| !p.keeps_up).unwrap_or(points.len()));
        let starts = points.first().is_some_and(|p| p.rate == 0.0);
        (starts && (alone || points.len() > 1)).then_some(Grid(points))
    }

    /// The highest load, in requests per second of one server.
    #[must_use]
    pub fn highest(&self) -> f64 {
        self.0.last().map_or(0.0, |p| p.rate)
    }

    /// Requests that were simulated for it.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.0.iter().map(|p| p.requests).sum()
    }

    /// The two loads beside a rate, and the share of the upper one; clamped to the highest.
    fn between(&self, rate: f64) -> (usize, f64) {
        let upper = self.0.partition_point(|p| p.rate <= rate).clamp(1, self.0.len().max(2) - 1);
        let (Some(low), Some(high)) = (self.0.get(upper - 1), self.0.get(upper)) else {
            return (0, 0.0);
        };
        (upper - 1, ((rate - low.rate) / (high.rate - low.rate)).clamp(0.0, 1.0))
    }

    /// Walks through all steps.
    #[must_use]
    pub fn walk(&self, walk: &Walk) -> Year {
        let steps = walk.duration_s / walk.step_s;
        let whole = (steps / walk.counts.len().max(1) as f64).floor();
        let rest = steps - whole * walk.counts.len() as f64;
        // Of each load of the grid: seconds at it, and requests served at it.
        let mut seconds = vec![0.0; self.0.len()];
        let mut requests = vec![0.0; self.0.len()];
        let (mut above_s, mut above_requests) = (0.0, 0.0);
        for (n, count) in walk.counts.iter().enumerate() {
            // The last round may end within a step, which then counts by its part.
            let times = whole + (rest - n as f64).clamp(0.0, 1.0);
            let span = times * walk.step_s;
            let asked = count * walk.scale / walk.servers / walk.step_s;
            let rate = asked.min(self.highest());
            if asked > rate {
                above_s += span;
                above_requests += (asked - rate) * span * walk.servers;
            }
            let (low, upper) = self.between(rate);
            let served = rate * span * walk.servers;
            seconds[low] += (1.0 - upper) * span;
            // Without load there are no delays: next to it they are those of the lowest load.
            let first = usize::from(low == 0 && self.0.len() > 1);
            requests[low + first] += (1.0 - upper) * served;
            if upper > 0.0 {
                seconds[low + 1] += upper * span;
                requests[low + 1] += upper * served;
            }
        }
        let power = self.0.iter().zip(&seconds).map(|(p, s)| p.power_w * s).sum::<f64>();
        let total: f64 = requests.iter().sum();
        let means = self.0.iter().zip(&requests);
        let sum: f64 = means.filter_map(|(p, n)| Some(n * p.latency.mean()?.as_s())).sum();
        Year {
            duration_s: seconds.iter().sum(),
            requests: total,
            energy_j: power * walk.servers,
            mean_s: (total > 0.0).then(|| sum / total),
            delays: self.delays(&requests),
            above_s,
            above_requests,
        }
    }

    /// The distribution of delays of so many requests at each load.
    fn delays(&self, requests: &[f64]) -> Vec<(f64, f64)> {
        let mut parts: Vec<(Time, f64)> = Vec::new();
        for (point, wanted) in self.0.iter().zip(requests) {
            // Weighted by the requests of the walk: a load with many simulated requests is not a
            // load of many.
            let each = wanted / point.latency.count().max(1) as f64;
            parts.extend(point.latency.counts().map(|(t, count)| (t, each * count as f64)));
        }
        parts.retain(|(_, weight)| *weight > 0.0);
        parts.sort_by_key(|(time, _)| *time);
        parts.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            kept.1 += if same { later.1 } else { 0.0 };
            same
        });
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum();
        let mut below = 0.0;
        let share = |(time, weight): (Time, f64)| {
            below += weight;
            (time.as_s(), below / total)
        };
        parts.into_iter().map(share).collect()
    }
}

impl Year {
    /// Mean power of all servers, in watts.
    #[must_use]
    pub fn power_w(&self) -> f64 {
        self.energy_j / self.duration_s
    }

    /// The delay that this share of requests does not exceed, in seconds; none without requests.
    #[must_use]
    pub fn quantile_s(&self, quantile: f64) -> Option<f64> {
        // Sums of shares may end just below 1.
        let at = self.delays.partition_point(|(_, share)| *share < quantile);
        self.delays.get(at).or(self.delays.last()).map(|(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays of `rate` milliseconds, `10 + rate` watts.
    fn grid(rates: &[f64]) -> Grid {
        let point = |&rate: &f64| {
            let mut latency = Histogram::default();
            if rate > 0.0 {
                (0..10).for_each(|_| latency.record(Time::ns((rate * 1e6) as u64)));
            }
            Steady { rate, power_w: 10.0 + rate, latency, keeps_up: rate < 50.0, requests: 10 }
        };
        Grid::new(rates.iter().map(point).collect()).unwrap()
    }

    fn walk(counts: &[f64], steps: f64) -> Walk<'_> {
        Walk { counts, step_s: 60.0, scale: 1.0, servers: 2.0, duration_s: 60.0 * steps }
    }

    #[test]
    fn linear_power_is_exact_on_any_grid() {
        let counts = [0.0, 120.0 * 3.0, 120.0 * 30.0];
        let year = grid(&[40.0, 0.0, 10.0, 100.0]).walk(&walk(&counts, 3.0));
        assert!((year.energy_j - 2.0 * 60.0 * (10.0 + 13.0 + 40.0)).abs() < 1e-6);
        assert!((year.requests - 120.0 * 33.0).abs() < 1e-6);
        // 3 per second: the lowest load's delay. 30: a third of 10 ms, two thirds of 40 ms.
        assert!((year.mean_s.unwrap() - (3.0 * 0.01 + 30.0 * 0.03) / 33.0).abs() < 1e-9);
        assert!((year.quantile_s(0.3).unwrap() - 0.01).abs() < 1e-9);
        assert!((year.quantile_s(0.5).unwrap() - 0.04).abs() < 1e-9);
        assert_eq!((year.above_s, year.above_requests), (0.0, 0.0));
    }

    #[test]
    fn steps_above_highest_load_are_counted_apart() {
        let counts = [120.0 * 100.0, 0.0];
        let grid = grid(&[0.0, 40.0, 100.0]);
        assert!((grid.highest() - 40.0).abs() < 1e-12);
        let year = grid.walk(&walk(&counts, 2.0));
        assert!((year.above_s - 60.0).abs() < 1e-9);
        assert!((year.above_requests - 120.0 * 60.0).abs() < 1e-6);
        assert!((year.requests - 120.0 * 40.0).abs() < 1e-6);
    }

    #[test]
    fn counts_are_repeated_and_cut_off() {
        let counts = [120.0, 240.0, 1200.0];
        let grid = grid(&[0.0, 20.0, 40.0]);
        let mut long = counts.repeat(3);
        long.extend([120.0, 120.0]);
        for (steps, like) in [(10.0, &long[..10]), (2.0, &long[..2]), (10.5, &long[..])] {
            let (found, same) = (grid.walk(&walk(&counts, steps)), walk(like, like.len() as f64));
            if steps.fract() == 0.0 {
                assert!((found.energy_j / grid.walk(&same).energy_j - 1.0).abs() < 1e-12);
                assert_eq!(found.requests, grid.walk(&same).requests);
            } else {
                assert!((found.requests - (3.0 * 1560.0 + 120.0 + 0.5 * 240.0)).abs() < 1e-6);
            }
            assert!((found.duration_s - 60.0 * steps).abs() < 1e-6);
        }
        let century = grid.walk(&walk(&counts, 100.0 * 525_600.0));
        assert!((century.duration_s / 3.1536e9 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn silence_has_power_and_no_delay() {
        let year = grid(&[0.0]).walk(&walk(&[0.0, 0.0], 2.0));
        assert!((year.power_w() - 20.0).abs() < 1e-9);
        assert_eq!((year.mean_s, year.quantile_s(0.5)), (None, None));
        assert!(Grid::new(Vec::new()).is_none());
    }

    #[test]
    fn rates_are_closer_together_where_they_are_low() {
        assert_eq!(rates(16.0, 5), [0.0, 1.0, 4.0, 9.0, 16.0]);
    }
}
