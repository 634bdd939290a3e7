#![allow(clippy::print_stdout)] // how near it was, for who looks

use halfwink_chip::sample::Begins;
use halfwink_engine::RunControl;
use halfwink_trace::Samples;

use super::{Sample, SampleQuestion, Spacing};
use crate::error::StudyError;
use crate::job::Job;
use crate::shipped::library;
use crate::table::Value;
use crate::world::Control;

fn question(workload: &str) -> SampleQuestion {
    SampleQuestion {
        workload: workload.to_owned(),
        machine: "ev6-1".to_owned(),
        set: Vec::new(),
        techniques: vec!["always-on".to_owned(), "tap".to_owned()],
        spacing: Spacing::Default,
        unit: 10_000,
        warm_up: 2_000,
        instructions: None,
        skip: None,
        seed: 1,
        precision_pct: None,
    }
}

fn sample(question: &SampleQuestion) -> Result<Sample, StudyError> {
    library().sample(question, &RunControl::new())
}

/// IPC and core energy per instruction of a whole run.
fn full(workload: &str, technique: &str) -> [f64; 2] {
    let job = Job {
        world: "chip".to_owned(),
        workload: workload.to_owned(),
        machine: "ev6-1".to_owned(),
        technique: technique.to_owned(),
        ..Job::default()
    };
    let tables = job.prepare(&library()).unwrap().run(&Control::default()).unwrap();
    let run = &tables.iter().find(|(name, _)| *name == "run").unwrap().1;
    let real = |column: &str| match run.get(0, column) {
        Some(Value::Real(n)) => *n,
        Some(Value::Integer(n)) => *n as f64,
        other => panic!("{column}: {other:?}"),
    };
    [real("ipc"), real("working_core_energy_j") / real("instructions")]
}

/// A full run's figures lie in the intervals, or within 2 %: two percentage points of savings.
#[test]
fn samples_say_what_whole_runs_say() {
    let (mut inside, mut all) = (0, 0);
    for workload in ["gcc", "bzip2", "minisat", "x264"] {
        let found = sample(&question(workload)).unwrap();
        assert!(found.windows >= 150, "{workload}: {} windows", found.windows);
        let [base, tap] = ["always-on", "tap"].map(|technique| full(workload, technique));
        let row = &found.results[1];
        let saving = 100.0 * (1.0 - tap[1] / base[1]);
        let slowdown = 100.0 * (base[0] / tap[0] - 1.0);
        for (what, interval, expected, near) in [
            ("IPC", found.results[0].ipc, base[0], 0.02 * base[0]),
            ("saving", row.core_energy_saving_pct.unwrap(), saving, 2.0),
            ("slowdown", row.slowdown_pct.unwrap(), slowdown, 2.0),
        ] {
            let (low, high) = (interval.low.unwrap(), interval.high.unwrap());
            let value = interval.value.unwrap();
            let covered = low <= expected && expected <= high;
            (inside, all) = (inside + u32::from(covered), all + 1);
            println!("{workload} {what}: {value:.3} ({low:.3} to {high:.3}), full {expected:.3}");
            let is_near = (value - expected).abs() <= near;
            assert!(covered || is_near, "{workload} {what}: {low} to {high}, full {expected}");
        }
    }
    println!("{inside} of {all} within their intervals");
}

/// What one window over everything measures is the whole run, whatever is between.
#[test]
fn one_window_is_the_whole_run() {
    let wanted = SampleQuestion {
        spacing: Spacing::Windows(1),
        unit: u64::MAX,
        warm_up: 0,
        ..question("alu:instructions=100000")
    };
    let found = sample(&wanted).unwrap();
    let [ipc, energy] = full("alu:instructions=100000", "always-on");
    let row = &found.results[0];
    assert!((row.ipc.value.unwrap() / ipc - 1.0).abs() < 1e-12);
    assert!((row.core_energy_j_per_instruction.value.unwrap() / energy - 1.0).abs() < 1e-12);
    assert_eq!((row.ipc.low, found.windows), (None, 1), "no interval of one window");
}

/// Who played which window does not show, nor does how often it is asked.
#[test]
fn the_same_question_has_the_same_answer() {
    let wanted = SampleQuestion { instructions: Some(600_000), ..question("nginx") };
    let text = |question: &SampleQuestion| serde_json::to_string(&sample(question).unwrap());
    let first = text(&wanted).unwrap();
    assert_eq!(first, text(&wanted).unwrap());
    let other = SampleQuestion { seed: 2, spacing: Spacing::Windows(20), ..wanted };
    assert_ne!(first, text(&other).unwrap());
}

#[test]
fn more_windows_are_asked_for_where_more_is_wanted() {
    let needed = |precision: f64| {
        let wanted = SampleQuestion { precision_pct: Some(precision), ..question("gcc") };
        sample(&wanted).unwrap().results[1].windows_needed.unwrap()
    };
    let (coarse, fine) = (needed(2.0), needed(1.0));
    assert!(coarse >= 32 && (3 * coarse..=5 * coarse).contains(&fine), "{coarse} {fine}");
}

#[test]
fn what_cannot_be_sampled_is_one_line() {
    let q = || question("gcc");
    for (wanted, complaint) in [
        (question("nginx*2"), "workload `nginx*2`: 2 cores, expected one"),
        (question("nginy"), "unknown workload `nginy`; did you mean `nginx`?"),
        (SampleQuestion { unit: 0, ..q() }, "unit 0: expected at least 1 instruction"),
        (SampleQuestion { skip: Some(1 << 40), ..q() }, "no window of 12000 instructions in"),
        (SampleQuestion { spacing: Spacing::Windows(0), ..q() }, "expected at least 1 window"),
        (SampleQuestion { spacing: Spacing::Period(500), ..q() }, "expected at least 13000"),
        (SampleQuestion { spacing: Spacing::Windows(1 << 40), ..q() }, "do not fit into"),
        (SampleQuestion { techniques: vec!["dvfs-mean".into()], ..q() }, "decides by whole runs"),
        (SampleQuestion { techniques: vec!["os-always".into()], ..q() }, "several cores"),
        (SampleQuestion { techniques: vec!["tapp".into()], ..q() }, "did you mean `tap`?"),
        (SampleQuestion { techniques: vec![], ..q() }, "no technique was named"),
    ] {
        let error = sample(&wanted).unwrap_err();
        assert!(error.is_usage(), "{error:?}");
        assert!(error.to_string().contains(complaint), "{error}");
    }
}

/// Three samples of 100,000 instructions; a window takes 13,000 with what follows it.
#[test]
fn windows_of_samples_lie_behind_what_warms_them() {
    let samples = Samples { of: 9_000_000, every: 3_000_000, begins: vec![0, 100_000, 200_000] };
    let begins = |question: &SampleQuestion| match question.in_samples(&samples, 300_000).unwrap() {
        (Begins::At(all), first, period) => (all, first, period),
        (Begins::Every { .. }, ..) => panic!("windows at one distance over all samples"),
    };
    let (all, first, period) = begins(&question("x"));
    // Three fit into the second half of each; where in its third each lies is drawn.
    assert_eq!((all.len(), all[0], period), (9, first, 16_666));
    assert!((50_000..=53_666).contains(&first), "{first}");
    let distances: Vec<u64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let next = 100_000 - 2 * 16_666;
    assert_eq!(distances, [16_666, 16_666, next, 16_666, 16_666, next, 16_666, 16_666]);

    let four = SampleQuestion { spacing: Spacing::Windows(4), ..question("x") };
    let (all, _, period) = begins(&four);
    assert_eq!((all.len(), period), (6, 25_000), "as many in each, and no fewer than asked for");
    let late = SampleQuestion { skip: Some(80_000), ..question("x") };
    let (all, first, _) = begins(&late);
    assert_eq!(all.len(), 3);
    assert!((80_000..=87_000).contains(&first), "{first}");
    // Fewer instructions end in the third sample, and the shortest one counts.
    assert!(question("x").in_samples(&samples, 212_000).is_err());

    for (asked, word) in [
        (
            SampleQuestion { spacing: Spacing::Windows(10), ..question("x") },
            "3 windows of 13000 fit",
        ),
        (SampleQuestion { spacing: Spacing::Windows(0), ..question("x") }, "at least 1 window"),
        (SampleQuestion { spacing: Spacing::Period(20_000), ..question("x") }, "in place of a"),
        (SampleQuestion { skip: Some(88_000), ..question("x") }, "0 windows of 13000 fit"),
    ] {
        let error = asked.in_samples(&samples, 300_000).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
