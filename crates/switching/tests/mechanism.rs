//! The cost of a switch, by hand; and the fit of the shipped model.

use crate::common;

use std::fs;

use common::{model_of, MACHINE};
use halfwink_engine::Input;
use halfwink_switching::{calibrate_mechanism, Model, Spec};
use proptest::prelude::*;

fn total(model: &Model, configuration: &str, version: Option<&str>, cycles: f64) -> f64 {
    let configuration = model.configuration(configuration).unwrap();
    model.round_trip(version, configuration, cycles).unwrap().total_ns()
}

fn shipped() -> Model {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/switching/alpha.toml");
    model_of(&fs::read_to_string(path).unwrap())
}

#[test]
fn like_cores_by_hand() {
    let model = model_of(MACHINE);
    assert_eq!(total(&model, "alike", None, 0.0), 100.0);
    // Twice: 200 on the source, 20 to send, 50 to handle, 200 on the target.
    assert_eq!(total(&model, "alike", Some("ipi"), 0.0), 100.0 + 2.0 * 470.0);
    assert_eq!(total(&model, "alike", Some("ipi"), 300.0), 100.0 + 2.0 * 770.0);
    // Twice: 200, a line of 5, 200; nobody sleeps.
    assert_eq!(total(&model, "alike", Some("poll"), 0.0), 100.0 + 2.0 * 405.0);
    assert_eq!(total(&model, "alike", Some("poll"), 300.0), 100.0 + 2.0 * 405.0);
    // The early wake-up costs 10 and hides up to 170.
    assert_eq!(total(&model, "alike", Some("wake"), 0.0), 100.0 + 2.0 * 415.0);
    assert_eq!(total(&model, "alike", Some("wake"), 170.0), 100.0 + 2.0 * 415.0);
}

#[test]
fn unlike_cores_pay_where_they_execute() {
    let model = model_of(MACHINE);
    // A cycle takes the small core 1.5 ns and a twentieth of a miss of 10 ns: twice as long.
    assert_eq!(total(&model, "unlike", Some("poll"), 0.0), 100.0 + 2.0 * (200.0 + 5.0 + 400.0));
    // At a quarter of the clock misses stay: 6.5 ns.
    assert_eq!(total(&model, "slow", Some("poll"), 0.0), 100.0 + 2.0 * (200.0 + 5.0 + 1300.0));
    // Better caches halve the misses: 1.75 ns.
    assert_eq!(total(&model, "better", Some("poll"), 0.0), 100.0 + 2.0 * (200.0 + 5.0 + 350.0));
}

#[test]
fn a_fast_source_reaches_the_signal_before_a_slow_target_polls() {
    let model = model_of(MACHINE);
    let slow = model.configuration("slow").unwrap();
    let trip = model.round_trip(Some("wake"), slow, 100.0).unwrap();
    // Out: wake at 10, up at 410, polling at 605; the source signals at 210: lost. It sends until
    // 230; the target handles from 410 for 200, then takes 1300.
    assert!(!trip.out.won);
    assert_eq!([trip.out.source_ns, trip.out.gap_ns, trip.out.target_ns], [230.0, 180.0, 1500.0]);
    // Back: the slow source needs 65 + 1300; the fast target polls long before.
    assert!(trip.back.won);
    assert_eq!(trip.back.total_ns(), 65.0 + 1300.0 + 5.0 + 200.0);
}

#[test]
fn what_is_not_there_is_said() {
    let model = model_of(MACHINE);
    let one = model.configuration("one").unwrap();
    let complaint = |error: halfwink_switching::ModelError| error.to_string();
    assert!(complaint(model.round_trip(Some("ipi"), one, 0.0).unwrap_err()).contains("no OS core"));
    let alike = model.configuration("alike").unwrap();
    assert!(complaint(model.round_trip(Some("v9"), alike, 0.0).unwrap_err()).contains("v9"));
    assert!(complaint(model.configuration("two").unwrap_err()).contains("two"));
    assert!(complaint(calibrate_mechanism(&model).unwrap_err()).contains("round trips"));
}

#[test]
fn the_shipped_cycles_are_the_fitted_ones() {
    let model = shipped();
    let fit = calibrate_mechanism(&model).unwrap();
    assert!(fit.error_rms < 0.05 && fit.error_max < 0.10, "{fit:?}");
    let text = toml_values(&model);
    for parameter in fit.parameters {
        let (_, shipped) = text.iter().find(|(path, _)| *path == parameter.element).unwrap();
        let off = (parameter.value / shipped - 1.0).abs();
        assert!(off < 2e-3, "{}: {} beside {shipped}", parameter.element, parameter.value);
    }
}

fn toml_values(model: &Model) -> Vec<(String, f64)> {
    let (mechanism, cores) = (&model.spec().mechanism, &model.spec().cores);
    let mut list = vec![
        ("mechanism.ipi_send_cycles".to_owned(), mechanism.ipi_send_cycles),
        ("mechanism.wake_cycles".to_owned(), mechanism.wake_cycles),
    ];
    for (name, version) in &mechanism.versions {
        list.push((format!("mechanism.versions.{name}.leg_cycles"), version.leg_cycles));
    }
    for (name, core) in cores {
        list.push((format!("cores.{name}.empty_call_ns"), core.empty_call_ns));
        list.push((format!("cores.{name}.kernel_cycles"), core.kernel_cycles));
        list.push((format!("cores.{name}.kernel_misses"), core.kernel_misses));
    }
    list
}

#[test]
fn the_order_of_the_shipped_versions_is_the_published_one() {
    let model = shipped();
    for configuration in ["sim-cc", "sim-ss", "sim-cs", "sim-cs-slow"] {
        let of = |version| total(&model, configuration, Some(version), 0.0);
        assert!(of("v1") > of("v2") && of("v2") > of("v3"), "{configuration}");
        assert!(of("v3") > of("v4") && of("v3") > of("v5"), "{configuration}");
    }
}

/// Round trips do not get shorter with a longer power-up.
fn never_shorter(model: &Model, version: &str, a: f64, b: f64) -> bool {
    let (less, more) = (a.min(b), a.max(b));
    ["alike", "unlike", "slow"].iter().all(|configuration| {
        let of = |cycles| total(model, configuration, Some(version), cycles);
        of(more) >= of(less) - 1e-9
    })
}

proptest! {
    #[test]
    fn a_longer_power_up_never_helps(a in 0.0..5000.0f64, b in 0.0..5000.0f64) {
        let model = model_of(MACHINE);
        for version in ["ipi", "poll", "wake"] {
            prop_assert!(never_shorter(&model, version, a, b), "{version} {a} {b}");
        }
    }

    #[test]
    fn damaged_descriptions_are_refused_or_work(
        line in 0usize..120, keep in any::<bool>(), n in -2i32..3,
    ) {
        let lines = MACHINE.lines().enumerate().map(|(k, text)| match text.split_once(" = ") {
            Some((key, _)) if k == line && keep => format!("{key} = {n}"),
            _ if k == line => String::new(),
            _ => text.to_owned(),
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        match Input::new("x.toml", &text).parse::<Spec>() {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            Ok(spec) => if let Ok(model) = Model::new(spec) {
                for configuration in &model.spec().configurations {
                    let trip = model.round_trip(None, configuration, 0.0);
                    prop_assert!(trip.is_ok_and(|trip| trip.total_ns().is_finite()));
                }
            },
        }
    }
}
