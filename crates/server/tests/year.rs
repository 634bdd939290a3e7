//! A year from runs at steady loads, against the same load event by event.

use crate::common;

use std::sync::Arc;

use halfwink_engine::RunControl;
use halfwink_policy::steering::Side;
use halfwink_policy::steering::{
    Always, AlwaysOn, SleepTimer, SleepTimerParameters, SteeringPolicy, Threshold,
    ThresholdParameters,
};
use halfwink_server::year::{rates, steady, Effort, Grid, Walk, Year};
use halfwink_server::{simulate_fleet, Arrivals, Dispatch, FleetRun, MakePolicy, Options};
use halfwink_techniques::server::{Model, Service};
use halfwink_units::Time;

const SERVERS: u32 = 3;
const STEP_S: f64 = 60.0;

fn model() -> (Model, Service, f64) {
    let model = Model::new(common::niccolini()).unwrap();
    let service = model.service("count").unwrap();
    let capacity = service.capacity(Side::Small) + service.capacity(Side::Big);
    (model, service, capacity)
}

/// Requests in each minute of an hour: up and down between 1 and 70 per cent, with a peak that
/// comes suddenly.
fn counts(capacity: f64) -> Vec<f64> {
    let share = |minute: u32| {
        let wave = 0.5 - 0.5 * (f64::from(minute) / 40.0 * std::f64::consts::TAU).cos();
        if (50..55).contains(&minute) {
            0.7
        } else {
            0.01 + 0.5 * wave
        }
    };
    (0..60).map(|m| share(m) * capacity * f64::from(SERVERS) * STEP_S).collect()
}

fn both(policy: MakePolicy, dispatch: Dispatch, part: f64) -> (Year, FleetRun) {
    let (model, service, capacity) = model();
    let counts = counts(part * capacity);
    let effort = Effort { seed: 7, requests: 100_000, goal: None };
    let fleet = (SERVERS, dispatch);
    let control = RunControl::new();
    let at = |rate| steady(&model, &service, policy(0), rate, fleet, effort, &control).unwrap();
    let grid = Grid::new(rates(0.75 * part * capacity, 17).into_iter().map(at).collect()).unwrap();
    let year = grid.walk(&Walk {
        counts: &counts,
        step_s: STEP_S,
        scale: 1.0,
        servers: f64::from(SERVERS),
        duration_s: STEP_S * counts.len() as f64,
    });
    let per_s: Arc<[f64]> = counts.iter().map(|count| count / STEP_S).collect();
    let arrivals = Arrivals::Rates { step: Time::ns(60_000_000_000), per_s };
    let run = simulate_fleet(&model, &service, &arrivals, policy, fleet, Options::all(3)).unwrap();
    (year, run)
}

fn compare(name: &str, (year, run): &(Year, FleetRun)) {
    let off = |found: f64, exact: f64| found / exact - 1.0;
    let latency = &run.tally.latency;
    let at = |q: f64| off(year.quantile_s(q).unwrap(), latency.quantile(q).unwrap().as_s());
    let requests = off(year.requests, run.tally.arrived as f64);
    let energy = off(year.energy_j, run.total_j());
    let mean = off(year.mean_s.unwrap(), latency.mean().unwrap().as_s());
    let said = format!(
        "{name}: energy {energy:+.4} mean {mean:+.4} p50 {:+.4} p99 {:+.4} p99.9 {:+.4}",
        at(0.5),
        at(0.99),
        at(0.999)
    );
    assert!(requests.abs() < 0.005, "{said}");
    assert!(energy.abs() < 0.01, "{said}");
    assert!(mean.abs() < 0.03, "{said}");
    assert!(at(0.99).abs() < 0.05, "{said}");
    assert_eq!(year.above_s, 0.0, "{said}");
}

#[test]
fn hours_of_changing_load_are_as_event_by_event() {
    let threshold =
        |_| Box::new(Threshold::new(ThresholdParameters::published(4))) as SteeringPolicy;
    let on = |_| Box::new(AlwaysOn::new(4)) as SteeringPolicy;
    let nap = |_| Box::new(SleepTimer::new(SleepTimerParameters::power_nap())) as SteeringPolicy;
    compare("hybrid", &both(&threshold, Dispatch::Random, 1.0));
    compare("always-on", &both(&on, Dispatch::Random, 1.0));
    // The big machine alone carries three quarters of what both do.
    compare("power-nap", &both(&nap, Dispatch::Random, 0.75));
    compare("hybrid in turn", &both(&threshold, Dispatch::RoundRobin, 1.0));
}

#[test]
fn a_load_that_is_not_kept_up_with_ends_the_grid() {
    let (model, service, capacity) = model();
    let effort = Effort { seed: 7, requests: 200_000, goal: None };
    let fleet = (1000, Dispatch::Random);
    let at = |share: f64| {
        let on = Box::new(AlwaysOn::new(4));
        steady(&model, &service, on, share * capacity, fleet, effort, &RunControl::new()).unwrap()
    };
    let grid = Grid::new(vec![at(0.0), at(0.5), at(1.1)]).unwrap();
    assert!((grid.highest() / capacity - 0.5).abs() < 1e-12);
    // The big machine alone carries three quarters of what both do, and is close to its end here.
    let big = |share: f64| {
        let alone = Box::new(Always::new(Side::Big));
        steady(&model, &service, alone, share * capacity, fleet, effort, &RunControl::new())
            .unwrap()
            .keeps_up
    };
    assert_eq!([0.2, 0.69, 0.73].map(big), [true, true, false]);
    let idle = at(0.0).power_w;
    assert!((idle - (12.1 + 160.0)).abs() < 1e-6, "{idle}");
    assert!(Grid::new(vec![at(0.0), at(1.1)]).is_none());
    let least = (3, Dispatch::Least { of: 2 });
    let on = Box::new(AlwaysOn::new(4));
    assert!(steady(&model, &service, on, 1.0, least, effort, &RunControl::new()).is_err());
}
