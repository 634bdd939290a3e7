//! What is held out was never used to fit a model, and does not read what was fitted.

use std::fs;
use std::path::Path;

use halfwink_engine::Input;
use halfwink_study::{Class, Compute, PublishedWork, Target};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Paths (with `*` for any part of a key) that the descriptions below a folder call `calibrated`.
/// Some say behind a colon what to.
fn calibrated_below(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            calibrated_below(&path, found);
        } else if path.extension().is_some_and(|e| e == "toml") {
            let table: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
            let Some(listed) = table.get("calibrated") else { continue };
            for key in listed.as_array().unwrap() {
                let key = key.as_str().unwrap();
                found.push(key.split_once(':').map_or(key, |(path, _)| path).trim().to_owned());
            }
        }
    }
}

/// Whether a path is the calibrated one, or one below it.
fn is_below(calibrated: &str, path: &str) -> bool {
    let mut parts = path.split('.');
    calibrated.split('.').all(|key| {
        parts.next().is_some_and(|part| match key.split_once('*') {
            None => key == part,
            Some((head, tail)) => {
                part.len() >= head.len() + tail.len()
                    && part.starts_with(head)
                    && part.ends_with(tail)
            }
        })
    })
}

/// Why a target must not be held out, if it must not.
fn objection(target: &Target, calibrated: &[String]) -> Option<String> {
    let compute = target.compute.as_ref().filter(|_| target.held_out)?;
    if compute.calibrated {
        return Some(format!("{} is held out and calibrated", target.id));
    }
    let separates = |c: char| !(c.is_alphanumeric() || "._-".contains(c));
    for (place, text) in [("sql", &compute.sql), ("remark", &compute.remark)] {
        let mut paths = text.split(separates).map(|word| word.trim_matches('.'));
        let touches = |path: &&str| calibrated.iter().any(|key| is_below(key, path));
        if let Some(path) = paths.find(touches) {
            let id = &target.id;
            return Some(format!("{id} is held out, but its {place} names `{path}`: calibrated"));
        }
    }
    None
}

#[test]
fn held_out_targets_use_nothing_calibrated() {
    let mut calibrated = Vec::new();
    calibrated_below(&Path::new(ROOT).join("machines"), &mut calibrated);
    assert!(calibrated.iter().any(|key| key == "wake.handler_us"), "{calibrated:?}");
    let targets = crate::library().targets().unwrap();
    assert!(targets.iter().any(|t| t.held_out && t.compute.is_some()));
    let objections: Vec<_> = targets.iter().filter_map(|t| objection(t, &calibrated)).collect();
    assert!(objections.is_empty(), "{}", objections.join("\n"));
}

/// An invented target of which this is how ours is computed.
fn invented(held_out: bool, compute: &str) -> Target {
    let text = format!(
        "schema = 1\nwork = 'niccolini'\ncitation = ''\nshort = ''\n[[target]]\nid = 'B-0'\n\
         area = 'router'\nsource = ''\nquantity = ''\nunit = 'us'\npublished = 5\n\
         class = 'quantitative'\nheld_out = {held_out}\n[target.compute]\n{compute}\n"
    );
    PublishedWork::parse(&Input::new("invented.toml", text)).unwrap().targets.remove(0)
}

#[test]
fn a_held_out_target_that_touches_a_calibrated_key_is_found() {
    let calibrated =
        ["wake.handler_us", "apps.ipv4", "cores.simple*.kernel_cycles"].map(str::to_owned);
    let objects = |compute: &str| objection(&invented(true, compute), &calibrated).is_some();
    assert!(objects("sql = \"SELECT value FROM router_facts WHERE fact = 'wake.handler_us'\""));
    assert!(objects("sql = \"SELECT value FROM facts WHERE key = 'apps.ipv4.cycles_us'\""));
    assert!(objects("sql = 'SELECT 5'\nremark = 'It is cores.simple-slow.kernel_cycles.'"));
    assert!(objects("sql = 'SELECT 5'\ncalibrated = true"));
    for other in ["wake.delivery_us", "apps.ipsec", "cores.complex.kernel_cycles", "wake"] {
        assert!(!objects(&format!("sql = 'SELECT 5'\nremark = 'It is {other}.'")), "{other}");
    }
    let open = invented(false, "sql = 'SELECT 5'\nremark = 'It is wake.handler_us.'");
    assert_eq!(objection(&open, &calibrated), None);
}

/// Tables that follow from a description in closed form: no run of a model computes them.
const CLOSED_FORMS: [&str; 7] = [
    "mordia_days",
    "mordia_facts",
    "optical_core_days",
    "optical_core_savings",
    "router_parts",
    "storage_facts",
    "switch_facts",
];

/// A value that is given back is no prediction: it is read from a description, or as another
/// target reads one that was fitted.
#[test]
fn what_was_given_is_no_prediction() {
    let targets = crate::library().targets().unwrap();
    let is_given = |target: &Target| {
        target.compute.as_ref().is_some_and(|c| c.calibrated)
            || matches!(target.class, Class::Arithmetic | Class::Input)
    };
    let given: Vec<&Compute> =
        targets.iter().filter(|t| is_given(t)).filter_map(|t| t.compute.as_ref()).collect();
    for target in targets.iter().filter(|t| t.class != Class::Hardware && !t.contradicted) {
        let Some(compute) = &target.compute else { continue };
        let words: Vec<&str> =
            compute.sql.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let mut tables = words.windows(2).filter(|w| matches!(w[0], "FROM" | "JOIN"));
        let is_closed =
            tables.clone().next().is_some() && tables.all(|w| CLOSED_FORMS.contains(&w[1]));
        let is_repeated = given.iter().any(|g| g.from == compute.from && g.sql == compute.sql);
        let id = &target.id;
        assert!(!is_closed || is_given(target), "{id} is a closed form of a description");
        assert!(!is_repeated || is_given(target), "{id} repeats a value that was given");
    }
}
