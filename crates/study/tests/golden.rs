//! One run and more of each world beside what was recorded before worlds had a seam: results must
//! not change when the house is rebuilt. `near`: the same value in another unit, rounded otherwise.
//!
//! Where a model is *meant* to change, its entries are recorded anew, and the commit says why. For
//! the world `chip`: `HALFWINK_RECORD=chip cargo test -p halfwink-study --test all golden`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use halfwink_study::{Control, Job, Table, Value};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    job: Job,
    /// As text: the JSON reader's numbers may be off by their last bit.
    exact: BTreeMap<String, String>,
    near: BTreeMap<String, f64>,
    ledger_rows: Option<usize>,
    ledger_j: Option<String>,
}

const FILE: &str = "tests/golden/runs.json";

/// Writes the file anew with what runs of one world give now.
fn record(world: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
    let mut all: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    let library = crate::library();
    for entry in all.values_mut().filter(|entry| entry["job"]["world"] == world) {
        let job: Job = serde_json::from_value(entry["job"].clone()).unwrap();
        let tables = job.prepare(&library).unwrap().run(&Control::default()).unwrap();
        let table = |wanted: &str| &tables.iter().find(|(name, _)| *name == wanted).unwrap().1;
        for (column, recorded) in entry["exact"].as_object_mut().unwrap() {
            *recorded = match table("run").get(0, column) {
                Some(Value::Text(text)) => text.as_str().into(),
                Some(Value::Integer(n)) => n.to_string().into(),
                Some(Value::Real(n)) => format!("{n:?}").into(),
                other => panic!("{column}: {other:?}"),
            };
        }
        for (column, recorded) in entry["near"].as_object_mut().unwrap() {
            *recorded = real(table("run"), 0, column).into();
        }
        if !entry["ledger_rows"].is_null() {
            let ledger = table("ledger");
            let sum: f64 = (0..ledger.len()).map(|row| real(ledger, row, "energy_j")).sum();
            (entry["ledger_rows"], entry["ledger_j"]) =
                (ledger.len().into(), format!("{sum:?}").into());
        }
    }
    let mut out = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
    all.serialize(&mut serde_json::Serializer::with_formatter(&mut out, format)).unwrap();
    out.push(b'\n');
    std::fs::write(folder.join(FILE), out).unwrap();
}

fn same(found: &Value, recorded: &str) -> bool {
    match found {
        Value::Text(text) => recorded == text,
        Value::Integer(n) => recorded.parse() == Ok(*n),
        Value::Real(n) => recorded.parse() == Ok(*n),
        Value::Missing(_) => false,
    }
}

fn real(table: &Table, row: usize, name: &str) -> f64 {
    match table.get(row, name) {
        Some(Value::Real(n)) => *n,
        other => panic!("{name}: {other:?}"),
    }
}

/// Columns with an interval that a run of this table has; each holds its own value.
fn known(run: &Table) -> Vec<&'static str> {
    let of = [
        ("energy_j_per_unit", "energy_low_j_per_unit", "energy_high_j_per_unit"),
        ("latency_mean_us", "latency_mean_low_us", "latency_mean_high_us"),
        ("power_w", "power_low_w", "power_high_w"),
        ("ipc", "ipc_low", "ipc_high"),
    ];
    let known = |&(_, low, _): &_| matches!(run.get(0, low), Some(Value::Real(_)));
    of.into_iter()
        .filter(known)
        .map(|(name, low, high)| {
            let [low, value, high] = [low, name, high].map(|name| real(run, 0, name));
            assert!(low <= value && value <= high, "{name}: {low}, {value}, {high}");
            name
        })
        .collect()
}

#[test]
fn runs_of_every_world_give_what_is_on_record() {
    if let Ok(world) = std::env::var("HALFWINK_RECORD") {
        record(&world);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(folder.join(FILE)).unwrap();
    let recorded: BTreeMap<String, Golden> = serde_json::from_str(&text).unwrap();
    let library = crate::library();
    let mut worlds: Vec<&str> = Vec::new();
    let mut intervals: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (name, golden) in &recorded {
        let prepared = golden.job.prepare(&library).unwrap_or_else(|e| panic!("{name}: {e}"));
        let tables = prepared.run(&Control::default()).unwrap();
        let table = |wanted: &str| &tables.iter().find(|(name, _)| *name == wanted).unwrap().1;
        for (column, value) in &golden.exact {
            let found = table("run").get(0, column);
            assert!(found.is_some_and(|f| same(f, value)), "{name}: {column}: {found:?}, {value}");
        }
        for (column, value) in &golden.near {
            let found = real(table("run"), 0, column);
            assert!((found / value - 1.0).abs() < 1e-12, "{name}: {column}: {found}, {value}");
        }
        if let (Some(rows), Some(joules)) = (golden.ledger_rows, &golden.ledger_j) {
            let ledger = table("ledger");
            let sum: f64 = (0..ledger.len()).map(|row| real(ledger, row, "energy_j")).sum();
            assert_eq!((ledger.len(), Ok(sum)), (rows, joules.parse()), "{name}");
        }
        worlds.push(golden.job.world.as_str());
        intervals.extend(known(table("run")).into_iter().map(|n| (golden.job.world.as_str(), n)));
    }
    for has in [("chip", "ipc"), ("router", "power_w"), ("switching", "power_w")] {
        assert!(intervals.contains(&has), "{has:?} has no interval: {intervals:?}");
    }
    for world in ["chip", "router", "server", "switching"] {
        assert!(worlds.contains(&world), "nothing on record of the world `{world}`");
    }
}
