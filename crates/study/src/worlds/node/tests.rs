use halfwink_engine::RunControl;

use crate::job::Job;
use crate::logs::Logs;
use crate::shipped::library;
use crate::table::Value;
use crate::world::{Control, Tables};
use crate::worlds::list::world;
use halfwink_techniques::choices;

fn job(workload: &str, machine: &str, technique: &str) -> Job {
    Job {
        world: "node".to_owned(),
        workload: workload.to_owned(),
        machine: machine.to_owned(),
        technique: technique.to_owned(),
        set: vec![("requests".to_owned(), "20000".to_owned())],
        options: Vec::new(),
    }
}

fn complaint(workload: &str, machine: &str, technique: &str) -> String {
    match job(workload, machine, technique).prepare(&library()) {
        Ok(_) => panic!("{workload} {machine} {technique}: no error"),
        Err(error) => error.to_string(),
    }
}

fn real(tables: &Tables, column: &str) -> f64 {
    match tables[0].1.get(0, column) {
        Some(Value::Real(value)) => *value,
        other => panic!("{column}: {other:?}"),
    }
}

fn plays(workload: &str, machine: &str, technique: &str) -> Tables {
    let prepared = job(workload, machine, technique).prepare(&library()).unwrap();
    prepared.prepared.run(&RunControl::new(), &Logs::default()).unwrap()
}

#[test]
fn wrong_names_are_one_line_each() {
    for (workload, machine, technique, said) in [
        ("exponential@30", "golden-cove-5", "menu", "did you mean `golden-cove-56`"),
        ("exponentia@30", "golden-cove-56", "menu", "did you mean `exponential`"),
        ("fortran@30", "golden-cove-56", "menu", "halfwink profile fortran -m golden-cove"),
        ("exponential@120", "golden-cove-56", "menu", "nothing is saved by not serving them"),
        ("exponential@0", "golden-cove-56", "menu", "no request comes"),
        ("exponential@often", "golden-cove-56", "menu", "unknown load `often`"),
        ("exponential@30", "zen4-96", "c1e", "zen4-96 has no state `c1e`"),
        ("exponential@30", "golden-cove-56", "c6+c6a", "both decide how an idle core sleeps"),
        ("exponential@30", "golden-cove-56", "c6a+tap", "costs under `tap` (it has nothing)"),
        ("exponential@30", "golden-cove-56", "os-like", "world `chip`"),
        ("exponential@30", "golden-cove-56", "os-offload", "costs under `os-offload` (it has"),
        (
            "exponential@30",
            "golden-cove-56",
            "preheat",
            "what preheating takes off; only a profile",
        ),
        ("exponential@30", "golden-cove-56", "wake-only+lifo", "another may take it"),
        ("exponential@30", "golden-cove-56", "wake-only+preheat", "what is done before a request"),
    ] {
        let error = complaint(workload, machine, technique);
        assert!(error.contains(said) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn profile_of_another_core_or_without_a_mean_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, core: &str, law: &str| {
        let path = folder.path().join(name);
        let text = format!(
            "schema = 1\nworkload = \"w\"\ncore = \"{core}\"\nmade_by = \"test\"\n\
             service_us = {law}\n"
        );
        std::fs::write(&path, text).unwrap();
        format!("{}@30", path.display())
    };
    let law = "{ law = \"exponential\", mean = 50.0 }";
    let other = complaint(&file("other.toml", "zen4", law), "golden-cove-56", "menu");
    assert!(other.contains("the profile of a zen4 core"), "{other}");
    let none = "{ law = \"points\", points = [[0.0, 0.0], [0.0, 1.0]] }";
    let none = complaint(&file("none.toml", "any", none), "golden-cove-56", "menu");
    assert!(none.contains("service_us (its mean): 0, expected"), "{none}");
}

#[test]
fn every_technique_plays_on_every_machine_that_has_its_states() {
    for machine in library().nodes() {
        for choice in choices("node", &[]).unwrap() {
            let job = job("exponential@20", &machine, &choice.to_string());
            let Ok(prepared) = job.prepare(&library()) else { continue };
            let tables = prepared.prepared.run(&RunControl::new(), &Logs::default()).unwrap();
            assert!((real(&tables, "load_pct") - 20.0).abs() < 1e-6, "{machine} {choice}");
            assert!(real(&tables, "power_w") > 50.0, "{machine} {choice}");
            let schema = world("node").unwrap().schema();
            for ((name, table), (expected, heads)) in tables.iter().zip(schema) {
                assert_eq!(*name, expected);
                let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
                assert_eq!(names, heads.iter().map(|head| head.0).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn slots_that_do_nothing_change_nothing() {
    let text =
        |technique: &str| format!("{:?}", plays("exponential@30", "golden-cove-56", technique));
    // `packing` alone is what Linux does, packed.
    assert_eq!(text("packing"), text("menu+packing"));
    let nothing = ["coalesce:hold_us=0", "busy-poll:usecs=0,interrupt_us=0", "wake-only:lost=1"];
    for alone in ["menu", "teo", "c6a"] {
        let expected = text(alone);
        for added in nothing {
            assert_eq!(text(&format!("{alone}+{added}")), expected, "{alone}+{added}");
        }
        let all = format!("{alone}+{}", nothing[0]) + "+" + nothing[2];
        assert_eq!(text(&all), expected, "{all}");
    }
}

#[test]
fn techniques_within_a_request_are_the_profile_s() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.toml");
    let variant = |name: &str, time: f64, power: f64| {
        format!(
            "[[variants]]\ntechnique = \"{name}\"\ntime = {time}\npower = {power}\nshared = 1.0\n"
        )
    };
    let text = format!(
        "schema = 1\nworkload = \"w\"\ncore = \"any\"\nmade_by = \"test\"\n\
         service_us = {{ law = \"exponential\", mean = 50.0 }}\n{}{}",
        variant("tap", 1.0, 0.5),
        variant("tap+way-partition", 1.5, 1.0)
    );
    std::fs::write(&path, text).unwrap();
    let workload = format!("{}@30", path.display());
    let at = |technique: &str| {
        let tables = plays(&workload, "golden-cove-56", technique);
        ["power_w", "latency_mean_us", "busy_pct", "load_pct"].map(|name| real(&tables, name))
    };
    let (c6a, tap) = (at("c6a"), at("c6a+tap"));
    assert!(tap[0] < 0.95 * c6a[0] && tap[1..] == c6a[1..], "{tap:?} {c6a:?}");
    // Joined in any order they are one variant, and the load is that of the service without them.
    let both = at("way-partition+c6a+tap");
    assert!((both[2] / c6a[2] - 1.5).abs() < 1e-2 && both[3] == c6a[3], "{both:?} {c6a:?}");
    let missing = complaint(&workload, "golden-cove-56", "way-partition");
    assert!(missing.contains("under `way-partition` (it has tap, tap+way-partition)"));
}

#[test]
fn what_sleeps_deeper_takes_less_and_waits_longer() {
    let at = |technique: &str| {
        let tables = plays("exponential@10", "golden-cove-56", technique);
        (real(&tables, "power_w"), real(&tables, "latency_mean_us"))
    };
    let (polling, c1, c6a) = (at("always-on"), at("c1"), at("c6a"));
    assert!(polling.0 > c1.0 && c1.0 > c6a.0, "{polling:?} {c1:?} {c6a:?}");
    assert!(polling.1 < c1.1 && c1.1 < c6a.1, "{polling:?} {c1:?} {c6a:?}");
    let packed = at("c6a+package-sleep");
    assert!(packed.0 <= c6a.0, "{packed:?}");
}

#[test]
fn a_log_replays_to_the_same_rests() {
    let folder = tempfile::tempdir().unwrap();
    for technique in ["menu", "c6a+packing", "idle-adaptive"] {
        let path = folder.path().join(format!("{technique}.log"));
        let control = Control { log: Some(path.clone()), ..Control::default() };
        let prepared = job("exponential@20", "golden-cove-56", technique).prepare(&library());
        prepared.unwrap().run(&control).unwrap();
        let report = crate::replay::replay(&library(), &path, None).unwrap();
        assert!(report.first_difference.is_none(), "{technique}: {report:?}");
        assert!(report.actions > 100, "{technique}: {report:?}");
    }
}

#[test]
fn machines_of_today_add_up() {
    // All cores busy and all that they share, beside the part's TDP; idle beside a published idle.
    for (name, tdp_w, idle_w) in [("golden-cove-56", 350.0, None), ("zen4-96", 360.0, Some(100.0))]
    {
        let machine = library().node(name, &[]).unwrap().machine;
        let spec = machine.spec();
        let rest = spec.rest_w;
        let memory: f64 =
            spec.shared.iter().filter(|part| part.name == "memory").map(|part| part.awake_w).sum();
        let package =
            |core_w: f64| machine.floor_w() - rest - memory + core_w * machine.cores() as f64;
        let busy = package(spec.power.active_w);
        assert!((0.5 * tdp_w..=tdp_w).contains(&busy), "{name}: {busy} W");
        let deepest = spec.idle_states.iter().filter(|s| !s.proposed).map(|s| s.core_w);
        let idle = package(deepest.fold(f64::MAX, f64::min));
        if let Some(published) = idle_w {
            assert!((idle / published - 1.0_f64).abs() < 0.3, "{name}: {idle} W idle");
        }
    }
}
