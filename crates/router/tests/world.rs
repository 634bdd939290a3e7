//! The router against closed forms, by hand, and against itself.

use crate::common;

use common::{at, model, napi, polling, power_save, random, run};
use halfwink_engine::Input;
use halfwink_policy::scaling::{Depth, Napi};
use halfwink_router::{Options, Profile, Traffic};
use halfwink_techniques::router::{Model, Point, Spec};
use halfwink_units::Time;

#[test]
fn the_sleeping_router_draws_what_the_table_says() {
    let model = model();
    for (depth, watts) in [(Depth::C1, 133.0), (Depth::C3, 120.0), (Depth::C6, 115.0)] {
        let silence = random(&model, 1e-9, 400);
        let policy = Box::new(Napi::new(depth));
        let power = run(&model, &silence, policy, at(&model, 12, 13)).power_w();
        assert!((power - watts).abs() < 0.05, "{depth:?}: {power}");
    }
}

#[test]
fn napping_cores_are_a_queue_with_a_set_up() {
    let model = model();
    let app = model.app("ipv4").unwrap();
    for (cores, step, mpps) in [(1, 0, 0.2), (3, 0, 3.0), (12, 0, 5.0), (12, 13, 20.0)] {
        let point = Point { cores, step };
        let run = run(&model, &random(&model, mpps, 40), napi(), at(&model, cores, step));
        let small = halfwink_techniques::router::App { bytes: 64, ..app.clone() };
        let expected = model.napping_w(&small, point, mpps);
        let off = run.power_w() / expected - 1.0;
        assert!(off.abs() < 0.01, "{point:?} at {mpps}: {} W, {expected} W", run.power_w());
        assert_eq!(run.lost, 0);
    }
}

#[test]
fn an_unloaded_packet_takes_7_us_and_5_more_with_an_interrupt() {
    let model = model();
    let lonely = random(&model, 0.001, 100);
    let mean = |policy| run(&model, &lonely, policy, at(&model, 12, 13)).latency.mean_us().unwrap();
    assert!((mean(polling()) - 7.0).abs() < 0.01);
    assert!((mean(napi()) - 12.0).abs() < 0.01);
    let deep = mean(Box::new(Napi::new(Depth::C6)));
    // Less the packets that came while the core was still in C1.
    assert!((90.0..98.2 + 43.5).contains(&deep), "{deep}");
}

#[test]
fn lonely_packets_pay_for_the_caches_that_deep_sleep_lost() {
    let cold_us = 20.0;
    let with_cold = |us: f64| {
        let mut spec = model().spec().clone();
        spec.sleep.c6_cold_us = us;
        Model::new(spec).unwrap()
    };
    let c6 = |model: &Model| {
        run(model, &random(model, 0.001, 100), Box::new(Napi::new(Depth::C6)), at(model, 12, 13))
    };
    let (kept, lost) = (c6(&with_cold(0.0)), c6(&with_cold(cold_us)));
    let cold_s = |run: &halfwink_router::Run| -> f64 {
        let rows = run.books.named_rows().filter(|(_, _, cause, _)| cause.reason == "cold-caches");
        rows.map(|(.., row)| row.time.as_s()).sum()
    };
    assert_eq!(cold_s(&kept), 0.0);
    // Packets that come together pay once, and all of them wait for it.
    let paid_us = 1e6 * cold_s(&lost) / lost.forwarded as f64;
    let added_us = lost.latency.mean_us().unwrap() - kept.latency.mean_us().unwrap();
    for us in [paid_us, added_us] {
        assert!((0.9 * cold_us..=cold_us).contains(&us), "{paid_us} {added_us}");
    }
    assert!(lost.power_w() > kept.power_w());
}

#[test]
fn overload_is_forwarded_at_the_closed_form_rate_and_the_rest_is_lost() {
    let model = model();
    let app = model.app("ipv4").unwrap();
    for (cores, step) in [(1, 0), (12, 0), (12, 13)] {
        let point = Point { cores, step };
        let rate = f64::from(cores) / model.service_us(app, point);
        let run = run(&model, &random(&model, 1.2 * rate, 20), polling(), at(&model, cores, step));
        assert!((run.forwarded_mpps() / rate - 1.0).abs() < 0.01, "{}", run.forwarded_mpps());
        assert!(run.lost > 0);
    }
}

#[test]
fn waiting_is_that_of_random_arrivals_at_a_server_of_fixed_time() {
    let model = model();
    let app = model.app("ipv4").unwrap();
    let service = model.service_us(app, Point { cores: 1, step: 0 });
    let rho = 0.8;
    let run = run(&model, &random(&model, rho / service, 200), polling(), at(&model, 1, 0));
    // M/D/1: rho S / 2 (1 - rho). The path is 7 us with one packet at full speed in it.
    let own = model.service_us(app, model.fastest());
    let expected = 7.0 - own + service + rho * service / (2.0 * (1.0 - rho));
    let mean = run.latency.mean_us().unwrap();
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean} us, {expected} us");
}

#[test]
fn power_save_follows_the_load_without_loss_or_reordering() {
    let model = model();
    let loads = [0.05, 0.4, 0.8, 0.4, 0.05, 0.05];
    let profile = Profile::smooth(loads.to_vec(), Time::ns(10_000_000));
    let traffic = Traffic { profile, ..random(&model, 28.0, 1) };
    let run = run(&model, &traffic, power_save(true), Options::all_cores(&model, 7));
    assert_eq!((run.lost, run.reordered), (0, 0));
    assert!(run.changes > 20, "{}", run.changes);
    let watts: Vec<f64> = run.slots.iter().map(|slot| slot.power_w).collect();
    assert!(watts[0] < 140.0 && watts[2] > 180.0 && watts[5] < 140.0, "{watts:?}");
    let cores: Vec<f64> = run.slots.iter().map(|slot| slot.cores).collect();
    assert!(cores[5] < 4.0 && cores[2] > 10.0, "{cores:?}");
}

#[test]
fn power_save_loses_where_it_must_step_far_at_once_or_looks_seldom() {
    // Against an independent simulation of the same rules: 2110 and 653 packets of a step from 1 to
    // 25 M packets/s with rings of 512 and 1024, none with 4096, none of other steps and ramps;
    // batches of 32 lose on every step.
    let lost = |batch: u32, ring: u32, from: f64, to: f64| {
        let mut spec = model().spec().clone();
        spec.poll.batch = batch;
        spec.nic.ring = ring;
        let model = Model::new(spec).unwrap();
        let profile = Profile::steps(vec![from / 28.0, to / 28.0], Time::ns(5_000_000));
        let traffic = Traffic { profile, ..random(&model, 28.0, 1) };
        run(&model, &traffic, power_save(false), Options::all_cores(&model, 1)).lost
    };
    assert!((1_500..3_500).contains(&lost(8, 512, 1.0, 25.0)));
    assert!((400..1_200).contains(&lost(8, 1024, 1.0, 25.0)));
    assert_eq!(lost(8, 4096, 1.0, 25.0), 0);
    for (from, to) in [(1.0, 10.0), (3.0, 10.0), (10.0, 25.0)] {
        assert_eq!(lost(8, 1024, from, to), 0, "{from} to {to}");
        assert!(lost(32, 512, from, to) > 0, "{from} to {to}");
    }
}

#[test]
fn more_traffic_never_draws_less() {
    let model = model();
    for policy in [napi as fn() -> _, || power_save(false)] {
        let mut last = 0.0;
        for mpps in [0.5, 1.0, 4.0, 10.0, 16.0, 25.0] {
            let run = run(&model, &random(&model, mpps, 30), policy(), at(&model, 12, 13));
            assert!(run.power_w() > last, "{mpps}");
            last = run.power_w();
        }
    }
}

#[test]
fn a_seed_repeats_a_run_bit_for_bit() {
    let model = model();
    let go = |seed| {
        let options = Options { seed, ..at(&model, 12, 13) };
        let run = run(&model, &random(&model, 8.0, 10), power_save(false), options);
        (run.received, run.passes, run.energy_j().to_bits(), run.latency.mean_us())
    };
    assert_eq!(go(3), go(3));
    assert_ne!(go(3), go(4));
}

#[test]
fn timers_spread_the_latency_of_deep_sleep() {
    let model = model();
    let options = Options { background: true, ..at(&model, 12, 13) };
    let policy = Box::new(Napi::new(Depth::C6));
    let latency = run(&model, &random(&model, 0.002, 2_000), policy, options).latency;
    let (mean, max) = (latency.mean_us().unwrap(), latency.max_us().unwrap());
    assert!((92.0..106.0).contains(&mean) && max > 110.0, "{mean} {max}");
}

#[test]
fn mistakes_are_named_with_their_line() {
    let bad = |from: &str, to: &str| {
        let input = Input::new("w.toml", common::text().replacen(from, to, 1));
        match input.parse::<Spec>() {
            Err(error) => error.to_string(),
            Ok(spec) => {
                let error = Model::new(spec).unwrap_err();
                input.error_at_key(&error.element, &error.message).to_string()
            }
        }
    };
    let unknown = bad("batch = 8", "bacth = 8");
    assert!(unknown.starts_with("w.toml:") && unknown.contains("did you mean `batch`?"));
    let ring = bad("ring = 1024", "ring = 1000");
    assert!(ring.contains("nic.ring: 1000, expected a power of two"), "{ring}");
    assert!(bad("count = 12", "count = 0").contains("cores.count: 0, expected 1 to 64"));
    assert!(bad("cycles_us = 1.5", "cycles_us = -1.5").contains("apps.netflow.cycles_us"));
    assert!(bad("schema = 1", "schema = 2").contains("schema: 2, expected 1"));
}
