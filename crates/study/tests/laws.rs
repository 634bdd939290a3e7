//! Laws of policies: every shipped one keeps them, and those that do not are named.

use std::time::Duration;

use halfwink_study::{check_policy, Checked};
use halfwink_techniques::{techniques, Make, Plan};

use crate::library;

fn check(world: &str, technique: &str, seeds: u64) -> Checked {
    let within = Duration::from_secs(300);
    check_policy(&library(), Some(world), technique, seeds, within).unwrap()
}

/// Laws that were broken, with what was found.
fn broken(checked: &Checked) -> Vec<String> {
    let breaches = checked.laws.iter().filter_map(|law| Some((law.law, law.breach.as_ref()?)));
    breaches
        .map(|(law, b)| format!("{law}: seed {}, event {}, {}", b.seed, b.event, b.found))
        .collect()
}

/// Worlds and names of the techniques that have laws.
fn shipped() -> impl Iterator<Item = (&'static str, &'static str)> {
    techniques().filter_map(|technique| {
        let world = match technique.make {
            Make::Gating(row) if row.plan != Plan::Profiled => "chip",
            Make::Circuits(_) => technique.worlds[0],
            Make::Completion(_) => "storage",
            Make::Preheat(_) => "preheat",
            Make::Scaling(_) => "router",
            Make::Steering(_) => "server",
            _ => return None,
        };
        Some((world, technique.name))
    })
}

#[test]
fn shipped_policies_keep_laws_of_their_family() {
    let mut count = 0;
    let mut failed = Vec::new();
    for (world, name) in shipped() {
        let checked = check(world, name, 20);
        assert_eq!(checked.seeds, 20, "{name}");
        assert!(checked.laws.iter().all(|law| law.seeds == 20), "{name}: {:?}", checked.laws);
        failed.extend(broken(&checked).into_iter().map(|b| format!("{name}: {b}")));
        let own = checked.published.iter().find(|found| found.technique == name);
        let is_itself = own.is_some_and(|own| own.equal_seeds == own.seeds && own.seeds == 20);
        failed.extend((!is_itself).then(|| format!("{name} does not decide as itself: {own:?}")));
        count += 1;
    }
    assert!(count > 60, "{count}");
    assert_eq!(failed, [""; 0]);
}

fn module(folder: &tempfile::TempDir, family: &str, decide: &str) -> String {
    let about = format!(r#"{{\22family\22: \22{family}\22, \22title\22: \22t\22}}"#);
    let text = format!(
        r#"(module (memory (export "memory") 2)
            (data (i32.const 4096) "{about}\00")
            (global $calls (mut i64) (i64.const 0))
            (func (export "halfwink_abi") (result i32) (i32.const 1))
            (func (export "halfwink_about") (result i32) (i32.const 4096))
            (func (export "halfwink_block") (result i32) (i32.const 1024))
            (func (export "halfwink_decide")
                (global.set $calls (i64.add (global.get $calls) (i64.const 1)))
                {decide}))"#
    );
    let path = folder.path().join("own.wasm");
    std::fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Requests an action of this number if the event has the other.
fn at(event: u64, action: u64, field: &str) -> String {
    format!(
        "(if (i64.eq (i64.load (i32.const 1032)) (i64.const {event})) (then
            (i64.store (i32.const 1272) (i64.const 1))
            (i64.store (i32.const 1280) (i64.const {action}))
            (i64.store (i32.const 1288) {field})))"
    )
}

#[test]
fn module_that_breaks_law_is_named_with_seed_and_event() {
    let folder = tempfile::tempdir().unwrap();
    // Gates at each halt.
    let gates = at(6, 1, "(i64.const 0)");
    let none = "(i64.const 0)";
    let port = "(i64.const 80)";
    // Rings 1 ps after each call.
    let rings = "(i64.store (i32.const 1264)
        (i64.add (i64.load (i32.const 1024)) (i64.const 1)))";
    for (world, family, decide, law, found) in [
        ("chip", "gating", gates.clone(), "answers every question once", "left a core gated"),
        ("chip", "gating", at(2, 3, none) + &at(7, 1, none), "requests only", "gated a core that"),
        ("chip", "gating", rings.to_owned(), "rings no timer without end", "rang 100001 times"),
        ("chip", "gating", "unreachable".to_owned(), "stays within the limits", "trapped"),
        ("router", "scaling", at(3, 6, "(i64.const 99)"), "stays within", "named the core 99"),
        ("router", "scaling", String::new(), "stays within", "let the core"),
        ("server", "steering", at(2, 1, none), "keeps these laws while", "to the lost machine"),
        ("server", "steering", String::new(), "stays within", "sent the request 0 times"),
        ("storage", "completion", String::new(), "stays within", "expected one `here` or `give`"),
        ("storage", "completion", at(2, 1, "(i64.const 0)"), "stays within", "of I/O 1"),
        ("chip", "offload", String::new(), "stays within", "answered 0 times"),
        ("chip", "offload", at(2, 3, none), "stays within", "expected it of interrupts alone"),
        ("chip", "offload", at(2, 4, none), "stays within", "requested the action 4"),
        ("fabric", "circuits", String::new(), "stays within", "requested no day"),
        ("fabric", "circuits", at(2, 1, none), "stays within", "in answer to `next` alone"),
        ("fabric", "circuits", at(3, 1, none), "stays within", "requested no day"),
        ("fabric", "circuits", at(3, 2, none), "stays within", "a day of 0 ps, expected 50"),
        ("fabric", "circuits", at(3, 1, "(i64.const 1)"), "stays within", "expected circuits of"),
        ("preheat", "preheat", at(2, 10, port), "requests only", "loaded the set of service 80"),
        ("preheat", "preheat", at(3, 12, port), "requests only", "held a request of service 80"),
        ("preheat", "preheat", at(2, 3, port), "requests only", "dumped for service 80, which"),
        ("preheat", "preheat", at(2, 2, port), "requests only", "opened a window of service 80"),
        ("preheat", "preheat", at(2, 7, port), "requests only", "which is not kept"),
        ("preheat", "preheat", at(10, 1, none), "stays within", "expected `fetch` alone"),
        ("preheat", "preheat", at(11, 1, none), "stays within", "expected `place` alone"),
        ("chip", "segregation", at(2, 2, none), "stays within", "after 0, expected 1 at least"),
        ("chip", "segregation", at(2, 1, "(i64.const 3)"), "stays within", "which is out of range"),
    ] {
        let checked = check(world, &module(&folder, family, &decide), 40);
        let broken = broken(&checked);
        let is_named = broken.iter().any(|line| line.starts_with(law) && line.contains(found));
        assert!(is_named, "{family} {decide}: {broken:?}");
        eprintln!("{broken:?}");
    }
    // A halted core that is woken keeps them.
    let woken = gates + &at(7, 3, none);
    assert_eq!(broken(&check("chip", &module(&folder, "gating", &woken), 40)), [""; 0]);
}

/// Names of the techniques that a policy reproduces.
fn reproduced(checked: &Checked) -> Vec<&'static str> {
    let all = checked.published.iter().filter(|found| found.equal_seeds == found.seeds);
    all.map(|found| found.technique).collect()
}

#[test]
fn module_is_compared_with_published_techniques() {
    let folder = tempfile::tempdir().unwrap();
    let none = "(i64.const 0)";
    let module = |family, decide: &str| module(&folder, family, decide);
    // Gates at each halt, and wakes at its end.
    let gates = check("chip", &module("gating", &(at(6, 1, none) + &at(7, 3, none))), 40);
    assert_eq!(reproduced(&gates), ["idle-gate"]);
    let own = &gates.published[0];
    assert_eq!((own.technique, own.seeds, own.source), ("idle-gate", 40, "-"));
    assert!(own.equal_decisions == own.decisions && own.decisions > 1000, "{own:?}");
    // It is compared with no technique of another machine: states, gated units, no gates.
    let others: Vec<&str> = gates.published.iter().map(|found| found.technique).collect();
    assert!(others.contains(&"tap") && !others.contains(&"c6a"), "{others:?}");
    assert!(!others.contains(&"fupg") && !others.contains(&"dvfs-mean"), "{others:?}");
    // Never to act is what one published technique does; to agree on nothing is no likeness.
    let idle = check("chip", &module("gating", ""), 40);
    assert_eq!(reproduced(&idle), ["always-on"]);
    assert_eq!(idle.published[0].decisions, 0);
    for found in &idle.published[1..] {
        assert_eq!((found.equal_seeds, found.equal_decisions), (0, 0), "{found:?}");
    }
    // Sends each request to the big machine, also to one that is lost.
    let big = check("server", &module("steering", &at(2, 1, "(i64.const 1)")), 40);
    assert_eq!(reproduced(&big), [""; 0]);
    let nearest = &big.published[0];
    assert!(nearest.equal_decisions > nearest.decisions * 9 / 10, "{nearest:?}");
    assert!(nearest.equal_seeds < nearest.seeds, "{nearest:?}");
    // One that was stopped is compared with nothing.
    let stopped = check("chip", &module("gating", "unreachable"), 40);
    assert_eq!(stopped.published, []);
}

#[test]
fn techniques_are_compared_under_their_first_seeds_alone() {
    let checked = check("chip", "idle-gate", 120);
    assert_eq!((checked.seeds, checked.published[0].seeds), (120, 100));
    assert_eq!(reproduced(&checked), ["idle-gate"]);
}

#[test]
fn each_law_has_all_seeds_and_none_after_an_early_stop() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = |checked: &Checked| checked.laws.iter().map(|law| law.seeds).collect::<Vec<_>>();
    let woken = at(6, 1, "(i64.const 0)") + &at(7, 3, "(i64.const 0)");
    assert_eq!(seeds(&check("chip", &module(&folder, "gating", &woken), 5)), [5; 7]);
    let stopped = check("chip", &module(&folder, "gating", "unreachable"), 5);
    assert_eq!(seeds(&stopped), [0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(stopped.seeds, 1);
    // Time that is over leaves no law out.
    let done = check_policy(&library(), None, "tap", 5, Duration::ZERO).unwrap();
    assert_eq!((done.seeds, seeds(&done)), (1, vec![1; 6]));
}

#[test]
fn composition_and_family_without_laws_are_refused() {
    let within = Duration::from_secs(1);
    let error = check_policy(&library(), Some("chip"), "os-static", 1, within).unwrap_err();
    assert!(error.to_string().contains("no laws of the family `offload` here"), "{error}");
    let error = check_policy(&library(), Some("chip"), "tap+c6a", 1, within).unwrap_err();
    assert!(error.to_string().contains("check each of them alone"), "{error}");
    // Its world is that of its first part.
    let error = check_policy(&library(), None, "napi-menu+napi-teo", 1, within).unwrap_err();
    assert!(error.to_string().contains("cannot be added to another"), "{error}");
    // A `+` in the name of a file.
    let error = check_policy(&library(), None, "./c++/g.wasm", 1, within).unwrap_err();
    assert!(error.to_string().contains("write `+` as %2B"), "{error}");
}
