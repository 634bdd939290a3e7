//! Policies of users as idle governors of a server of today.

use halfwink_study::{Job, Tables, Value};

use crate::own_policy::{
    differing, halted_job, module_about, requests, run, said_by, shipped, stores, ABOUT,
};

/// A server of today on which all idle times are short.
fn node_job(technique: &str) -> Job {
    Job {
        world: "node".into(),
        workload: "nginx@30".into(),
        machine: "golden-cove-56".into(),
        technique: technique.into(),
        set: Vec::new(),
        options: [("requests".to_owned(), "20000".to_owned())].to_vec(),
    }
}

#[test]
fn module_governs_idle_cores_of_a_server_as_the_native_policy_does() {
    let Some(module) = shipped("governors") else { return };
    let run = |technique: String| run(&node_job(&technique)).unwrap();
    let of = |number: u32| format!("{}:policy={number}", module.display());
    for (number, native) in [(3, "idle-adaptive"), (4, "oracle"), (5, "c1")] {
        // Alone, and beside a state of the package that needs a state of all cores.
        for more in ["", "+package-sleep", "+packing"] {
            let (own, native) = (run(of(number) + more), run(format!("{native}{more}")));
            assert_eq!(differing(&own, &native), [""; 0], "{number}{more}");
        }
    }
    // Linux's governors wake the core at each tick that they keep, and choose among three states; a
    // module's tick costs nothing, and it may poll, too.
    let energy_j = |tables: &Tables| number(tables, "energy_j");
    let teo = energy_j(&run("teo".into()));
    let [own, menu] = [of(1), "menu".into()].map(|name| energy_j(&run(name)) / teo - 1.0);
    assert!(own.abs() < 2e-3 && menu > 0.02, "{own} {menu}");
}

/// The value of a column of the run.
fn number(tables: &Tables, column: &str) -> f64 {
    let (_, run) = tables.iter().find(|(name, _)| *name == "run").unwrap();
    match run.get(0, column) {
        Some(Value::Real(value)) => *value,
        other => panic!("{column}: {other:?}"),
    }
}

#[test]
fn governor_whose_requests_no_server_can_follow_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |event: u64, then: &str| {
        format!("(if (i64.eq (i64.load (i32.const 1032)) (i64.const {event})) (then {then}))")
    };
    // Events and actions by the numbers of the family.
    let (idle_begin, idle_end, awake) = (6, 7, 8);
    let (gate, rest, wake) = (requests(1, &[]), |state| requests(2, &[state]), requests(3, &[]));
    for (decide, line) in [
        (at(idle_begin, &rest(4)), "it asked for the idle state 4, expected one below 4"),
        (at(idle_begin, &wake), "it woke a core that has no work"),
        (at(idle_begin, &requests(4, &[0, 1])), "it accounted a rest that has not ended"),
        (at(idle_begin, &gate), "it left a core asleep that has work"),
        (at(idle_begin, &rest(3)), "it left a core asleep that has work"),
        (at(idle_end, &gate), "it sent a core to sleep that has work"),
        (at(idle_begin, &gate) + &at(idle_end, &wake) + &at(awake, &gate), "it sent a core"),
        // A timer that rings while the core is in the deepest state, for another one.
        (
            at(idle_begin, &(rest(3) + &stores(30, &[2_000_000_000_000])))
                + &at(1, &(rest(1) + &stores(30, &[u64::MAX])))
                + &at(idle_end, &wake),
            "it asked for another idle state of a core that sleeps",
        ),
    ] {
        let about = ABOUT.replace('}', ", \"events\": [\"idle-begin\", \"idle-end\", \"awake\"]}");
        let module = module_about(&folder, &about, &decide, "");
        // At a load at which cores are idle for long enough.
        let found = said_by(&Job { workload: "nginx@0.01".into(), ..node_job(&module) });
        assert!(found.contains(line), "{decide}: {found}");
    }
    // The module is told three states on sale behind polling, and nothing that it did not list.
    let fault =
        at(10, "(if (i64.eq (i64.load (i32.const 1040)) (i64.const 3)) (then unreachable))");
    let about = ABOUT.replace('}', ", \"events\": [\"idle-state\"]}");
    let found = said_by(&node_job(&module_about(&folder, &about, &fault, "")));
    assert_eq!(found, "own.wasm: at 0 ps, told `idle-state`, it trapped: it reached `unreachable`");
    // A module without a list is of before the event was there: it is not sent.
    let module = module_about(&folder, ABOUT, &at(10, "unreachable"), "");
    assert!(run(&halted_job(&module)).is_ok());
}
