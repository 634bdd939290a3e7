//! Fleets of hybrid servers.

use crate::common;

use halfwink_policy::steering::{Side, SteeringPolicy, Threshold, ThresholdParameters};
use halfwink_server::{simulate, simulate_fleet, Arrivals, Dispatch, FleetRun, Options};
use halfwink_techniques::server::{Model, Service};
use halfwink_units::Time;

fn model() -> (Model, Service) {
    let spec = common::niccolini();
    let model = Model::new(spec).unwrap();
    let service = model.service("count").unwrap();
    (model, service)
}

fn policy() -> SteeringPolicy {
    Box::new(Threshold::new(ThresholdParameters::published(4)))
}

fn capacity(service: &Service) -> f64 {
    service.capacity(Side::Small) + service.capacity(Side::Big)
}

fn play(servers: u32, dispatch: Dispatch, load: f64, options: Options) -> FleetRun {
    let (model, service) = model();
    let rate = load * f64::from(servers) * capacity(&service);
    let arrivals = Arrivals::Poisson { rate };
    simulate_fleet(&model, &service, &arrivals, &|_| policy(), (servers, dispatch), options)
        .unwrap()
}

#[test]
fn a_fleet_of_one_draws_what_one_does() {
    let (model, service) = model();
    let arrivals = Arrivals::Poisson { rate: 0.3 * capacity(&service) };
    let options = Options::requests(200_000, 4);
    let one = simulate(&model, &service, &arrivals, policy(), options).unwrap();
    let fleet = play(1, Dispatch::Random, 0.3, options);
    // Sizes are drawn from another stream.
    assert!((fleet.total_j() / fleet.duration.as_s() / one.power_w() - 1.0).abs() < 0.03);
    assert_eq!(fleet.tally.arrived, one.tally.arrived);
}

#[test]
fn random_thinning_leaves_each_server_as_if_it_were_alone() {
    let fleet = play(20, Dispatch::Random, 0.3, Options::requests(1_000_000, 4));
    let alone = play(1, Dispatch::Random, 0.3, Options::requests(400_000, 5));
    let w = |run: &FleetRun, n: f64| run.total_j() / run.duration.as_s() / n;
    assert!((w(&fleet, 20.0) / w(&alone, 1.0) - 1.0).abs() < 0.02);
    let mean = |run: &FleetRun| run.tally.latency.mean().unwrap().as_ns();
    assert!((mean(&fleet) / mean(&alone) - 1.0).abs() < 0.03);
}

#[test]
fn choosing_well_shortens_waits_when_servers_are_full() {
    let options = Options::requests(300_000, 4);
    let waited = |dispatch| {
        let run = play(20, dispatch, 0.85, options);
        run.tally.waited_ps.iter().sum::<u128>() as f64 / run.tally.arrived as f64
    };
    let random = waited(Dispatch::Random);
    assert!(waited(Dispatch::RoundRobin) < 0.8 * random);
    assert!(waited(Dispatch::Least { of: 2 }) < 0.5 * random);
}

#[test]
fn packing_lets_the_last_big_machines_sleep() {
    let options = Options::requests(300_000, 4);
    let [random, pack] =
        [Dispatch::Random, Dispatch::Pack { below: 6 }].map(|d| play(20, d, 0.4, options));
    assert!(pack.total_j() / pack.duration.as_s() < random.total_j() / random.duration.as_s());
    // The first ones are full, the last ones empty.
    assert!(pack.energy_j[0] > 3.0 * pack.energy_j[19]);
}

#[test]
fn parts_of_a_fleet_add_up_and_all_is_done_at_the_end() {
    let slot = Some(Time::ns(1_000_000_000));
    let until = Time::ns(20_500_000_000);
    let options = Options { slot, until, ..Options::all(2) };
    let run = play(7, Dispatch::RoundRobin, 0.5, options);
    assert!(run.slots.len() >= 21);
    let sum: f64 = run.slots.iter().flat_map(|s| s.machines.iter().map(|m| m.energy_j)).sum();
    assert!((sum / run.total_j() - 1.0).abs() < 1e-9);
    assert!((run.energy_j.iter().sum::<f64>() / run.total_j() - 1.0).abs() < 1e-9);
    assert_eq!(run.tally.finished.iter().sum::<u64>(), run.tally.arrived);
    let spent: f64 = run.machines[1].state_s.iter().sum();
    assert!((spent / (7.0 * run.duration.as_s()) - 1.0).abs() < 1e-9);
}

#[test]
fn a_fleet_of_none_is_refused() {
    let (model, service) = model();
    let arrivals = Arrivals::Poisson { rate: 1.0 };
    for fleet in [(0, Dispatch::Random), (3, Dispatch::Least { of: 0 })] {
        let options = Options::requests(10, 1);
        let found = simulate_fleet(&model, &service, &arrivals, &|_| policy(), fleet, options);
        assert!(found.is_err());
    }
}
