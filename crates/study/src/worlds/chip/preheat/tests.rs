use super::*;
use crate::table::Value;

fn few() -> PreheatQuestion {
    PreheatQuestion { requests: 3, training: 3, ..PreheatQuestion::default() }
}

fn ask(
    question: &PreheatQuestion,
    set: &[(&str, &str)],
) -> Result<Vec<(&'static str, Table)>, StudyError> {
    let set: Vec<_> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    library.preheat("nginx-1pct", "ev6", question, &set)
}

fn real(table: &Table, row: usize, name: &str) -> f64 {
    match table.get(row, name) {
        Some(Value::Real(value)) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn modes_stand_in_their_order_on_a_recorded_server() {
    let found = ask(&few(), &[]).unwrap();
    let modes = &found[1].1;
    let response = |row| real(modes, row, "response_mean_us");
    let [warm, cold, wake_only, preheated, engine, sham] = [0, 1, 2, 3, 4, 5].map(response);
    assert!(warm < wake_only && wake_only <= cold);
    // A set can hold more than caches keep between requests: it may end below warm.
    for prepared in [preheated, sham, engine] {
        assert!(prepared > 0.8 * warm && prepared < wake_only, "{prepared} {warm} {wake_only}");
    }
    assert!(preheated < engine, "the engine reaches no further than the third level");
    let reduction = real(modes, 3, "reduction");
    assert!((0.3..1.2).contains(&reduction), "{reduction}");
    // What was touched was dumped: the third level evicted nothing.
    let training = &found[3].1;
    for row in 0..training.len() {
        let count = |name| match training.get(row, name) {
            Some(Value::Integer(n)) => *n,
            other => panic!("{other:?}"),
        };
        assert_eq!(count("evicted"), 0);
        assert!((0..=1).contains(&(count("dumped") - count("touched"))), "row {row}");
    }
}

#[test]
fn what_cannot_be_is_one_line() {
    let complain = |question: &PreheatQuestion, set: &[(&str, &str)]| {
        ask(question, set).unwrap_err().to_string()
    };
    let short = PreheatQuestion { sleep_us: 700.0, ..few() };
    assert!(complain(&short, &[]).contains("a sleep of 700 us, expected 2001 to 1000000"));
    let none = PreheatQuestion { requests: 0, ..few() };
    assert!(complain(&none, &[]).contains("expected 1 to 1048576"));
    let many = PreheatQuestion { training: 10_000, ..few() };
    assert!(complain(&many, &[]).contains("leave none to measure"));
    let unknown = complain(&few(), &[("gating.loses", "[\"rob\"]")]);
    assert!(unknown.contains("rob") && unknown.contains("l1i"), "{unknown}");
    let none = complain(&few(), &[("gating.loses", "[\"tlb\"]")]);
    assert!(none.ends_with("gating.loses: \"tlb\", but the machine has no [tlb]"), "{none}");
}
