//! Values of machines that a technique is listed not to read change no result of it.

use std::collections::BTreeMap;

use halfwink_techniques::{techniques, Choice, Values};

use crate::job::Job;
use crate::logs::Logs;
use crate::shipped::library;
use crate::world::{Settings, World};
use crate::worlds::list::world;

/// World, workload, machine, and values that are set.
type Case = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Runs that would read such a value if any does: of one world, on one machine, with values set.
const RUNS: &[Case] = &[
    ("chip", "gcc", "ev6-4", &[]),
    ("chip", "nginx*2", "ev6-4", &[]),
    ("chip", "nginx", "golden-cove-56", &[]),
    ("server", "count@30", "niccolini", &[]),
    ("server", "dns@70", "niccolini", &[("faults.crash_every_s", "20")]),
    ("router", "ipv4@5", "westmere", &[]),
    ("router", "ipsec@5,20", "westmere", &[]),
];

fn options(world: &dyn World) -> Values {
    let mut options = Values::of(world.options());
    for (name, value) in [("instructions", "40000"), ("requests", "2000")] {
        if options.knows(name) {
            options.set(name, value).unwrap();
        }
    }
    options
}

/// Numbers of a description by path.
fn numbers(text: &str) -> BTreeMap<String, f64> {
    fn walk(table: &toml::Table, before: &str, found: &mut BTreeMap<String, f64>) {
        for (name, value) in table {
            let path = format!("{before}{name}");
            match value {
                toml::Value::Table(inner) => walk(inner, &format!("{path}."), found),
                toml::Value::Float(number) => drop(found.insert(path, *number)),
                toml::Value::Integer(number) => drop(found.insert(path, *number as f64)),
                _ => {}
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&text.parse().unwrap(), "", &mut found);
    found
}

#[test]
fn an_unread_value_changes_no_result() {
    let library = library();
    let mut tried = 0;
    for technique in techniques().filter(|technique| !technique.unread.is_empty()) {
        for (name, workload, machine, set) in RUNS {
            if !technique.worlds.contains(name) {
                continue;
            }
            let world = world(name).unwrap();
            let choice = Choice::parse(name, technique.name).unwrap();
            let job = Job {
                world: (*name).into(),
                workload: (*workload).into(),
                machine: (*machine).into(),
                technique: technique.name.into(),
                ..Job::default()
            };
            let prepared = |more: Option<(String, String)>| {
                let usual =
                    set.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned()));
                let settings = Settings {
                    choice: choice.clone(),
                    options: options(world),
                    machine: usual.chain(more).collect(),
                };
                world.prepare(&library, &job, settings)
            };
            let run =
                |more| Some(prepared(more).ok()?.run(&crate::RunControl::new(), &Logs::default()));
            let usual = format!("{:?}", run(None).unwrap().unwrap());
            for (path, number) in numbers(prepared(None).unwrap().machine_text()) {
                if choice.reads(&path) {
                    continue;
                }
                // One of these is allowed.
                let others = [number * 1.5, number * 0.5, number + 1.0, 2.0 * number + 1.0];
                let found =
                    others.iter().find_map(|other| run(Some((path.clone(), other.to_string()))));
                let Some(found) = found else { continue };
                tried += 1;
                let (found, name) = (format!("{:?}", found.unwrap()), technique.name);
                assert!(found == usual, "{name} reads {path} on {workload}, {machine}");
            }
        }
    }
    assert!(tried > 60, "{tried} values were tried");
}

#[test]
fn jobs_that_differ_in_an_unread_value_share_a_key() {
    let library = library();
    let key = |technique: &str, ns: &str| {
        let set = vec![("gating.wake_up_ns".to_owned(), ns.to_owned())];
        let [world, workload, machine] = ["chip", "gcc", "ev6-1"].map(str::to_owned);
        let technique = technique.to_owned();
        let job = Job { world, workload, machine, technique, set, options: Vec::new() };
        job.prepare(&library).unwrap().key()
    };
    assert_eq!(key("always-on", "8"), key("always-on", "16"));
    assert_ne!(key("tap", "8"), key("tap", "16"));
    assert_ne!(key("always-on+central-wake-up", "8"), key("always-on+central-wake-up", "16"));
}
