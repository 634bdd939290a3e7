//! Second levels that are ruled: whether a machine's can be, and what came of it.

use halfwink_chip::{possible_rule, Machine, RunResult};
use halfwink_policy::segregation::{Action, Event, LookUp, Rule, Split};
use halfwink_policy::Policy;
use halfwink_techniques::{Choice, Segregation};
use halfwink_units::Time;

use super::adapt::segregation_policy;
use super::tables::named_cores;
use crate::error::StudyError;
use crate::table::{integer, real, text, Head, Table, Value};

/// Columns of the counts of ruled second levels, by core. A side is that of a line under the rule
/// of its time.
pub(crate) const SEGREGATION: [Head; 23] = [
    text("core"),
    integer("user_reads"),
    integer("kernel_reads"),
    integer("user_misses"),
    integer("kernel_misses"),
    integer("user_write_backs"),
    integer("kernel_write_backs"),
    real("user_mpki"),
    real("kernel_mpki"),
    integer("user_displaced"),
    integer("kernel_displaced"),
    integer("user_predicted"),
    integer("kernel_predicted"),
    integer("user_mispredicted"),
    integer("kernel_mispredicted"),
    real("prediction_accuracy"),
    integer("whole_look_ups"),
    integer("bank_look_ups"),
    text("split"),
    text("route"),
    integer("kernel_ways"),
    integer("samples"),
    integer("rules"),
];

/// Checks that this technique can rule the second level of a machine.
///
/// # Errors
///
/// What its first rule cannot have there.
pub(super) fn check(
    choice: &Choice,
    how: Segregation,
    machine: &Machine,
    name: &str,
) -> Result<(), StudyError> {
    let geometry = machine.l2.geometry;
    let wrong = |why: &str| {
        StudyError::Usage(format!(
            "technique `{choice}` asks for {why}: the second level of machine `{name}` has {} \
             sets of {} ways",
            geometry.sets, geometry.ways
        ))
    };
    // A ruled cache begins with one stack, so that it must bear this rule whatever the policy sets.
    possible_rule(geometry, &Rule::LRU).map_err(wrong)?;
    // The run tells what a policy in a file does wrong, by its time and event.
    if choice.has_module() {
        return Ok(());
    }
    let mut policy = segregation_policy(&how, choice, machine);
    policy.on_event(Time::ZERO, &Event::Begin { ways: geometry.ways as u8 });
    // Only what is set at the start: rules that are learned depend on the run, and are checked
    // there.
    while let Some(action) = policy.poll_action() {
        if let Action::Set(rule) = action {
            possible_rule(geometry, &rule).map_err(wrong)?;
        }
    }
    Ok(())
}

fn names(rule: &Rule) -> (&'static str, &'static str) {
    let split = match (rule.split, rule.look_up) {
        (Split::None, _) => "none",
        (Split::Ways(_), _) => "ways",
        (Split::Banks, LookUp::Parallel) => "banks",
        (Split::Banks, LookUp::Serial) => "banks-serial",
    };
    (split, rule.route.name())
}

/// One row for each core whose second level was ruled.
pub(super) fn segregation_table(result: &RunResult) -> Table {
    let mut table = Table::new(&SEGREGATION);
    for (name, core) in named_cores(result) {
        let Some(found) = &core.segregation else { continue };
        let instructions = core.work.instructions.iter().sum::<u64>();
        let mpki = |misses: u64| Value::from(1e3 * misses as f64 / instructions.max(1) as f64);
        let right: u64 = found.predicted.iter().sum();
        let hits = right + found.mispredicted.iter().sum::<u64>();
        let accuracy = (hits > 0).then(|| right as f64 / hits as f64);
        let (split, route) = names(&found.rule);
        let mut row = vec![Value::from(name.as_str())];
        for pair in [found.reads, found.misses, found.write_backs] {
            row.extend(pair.map(Value::from));
        }
        row.extend(found.misses.map(mpki));
        for pair in [found.displaced, found.predicted, found.mispredicted] {
            row.extend(pair.map(Value::from));
        }
        row.extend([
            accuracy.into(),
            found.whole.iter().sum::<u64>().into(),
            found.banks.iter().sum::<u64>().into(),
            split.into(),
            route.into(),
            u64::from(found.rule.split.kernel_ways().unwrap_or(0)).into(),
            found.samples.into(),
            found.rules.into(),
        ]);
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use crate::job::Job;
    use crate::library::Library;
    use crate::table::Value;
    use crate::world::{Control, Tables};
    use crate::StudyError;

    fn play(technique: &str, set: &[(&str, &str)]) -> Result<Tables, StudyError> {
        let own = |&(path, value): &(&str, &str)| (path.to_owned(), value.to_owned());
        let job = Job {
            world: "chip".into(),
            workload: "apache".into(),
            machine: "ultrasparc".into(),
            technique: technique.into(),
            set: set.iter().map(own).collect(),
            options: vec![("instructions".into(), "300000".into())],
        };
        let library = Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        job.prepare(&library)?.run(&Control::default())
    }

    fn table<'a>(tables: &'a Tables, name: &str) -> &'a crate::table::Table {
        &tables.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn number(tables: &Tables, column: &str) -> f64 {
        match table(tables, "segregation").get(0, column) {
            Some(Value::Integer(n)) => *n as f64,
            Some(Value::Real(n)) => *n,
            other => panic!("{column}: {other:?}"),
        }
    }

    /// Recorded services, user and kernel: one stack for all is what is not ruled, to the bit.
    #[test]
    fn lru_is_the_plain_chip() {
        let (plain, lru) = (play("always-on", &[]).unwrap(), play("lru", &[]).unwrap());
        for name in ["run", "ledger", "counters", "histograms"] {
            assert!(table(&plain, name) == table(&lru, name), "{name}");
        }
        assert!(table(&plain, "segregation").is_empty());
        assert!(number(&lru, "kernel_reads") > number(&lru, "user_reads"));
    }

    #[test]
    fn techniques_rule_as_they_say() {
        let small = [("l2.size", "128KB")];
        let ways = play("way-partition:ways=5", &small).unwrap();
        assert_eq!((number(&ways, "kernel_ways"), number(&ways, "rules")), (5.0, 1.0));
        let found = play("way-partition:shortened=2000", &small).unwrap();
        assert!(number(&found, "samples") > 10.0);
        let serial = play("bank-partition:lookup=serial,shortened=2000", &small).unwrap();
        let accuracy = number(&serial, "prediction_accuracy");
        assert!((0.5..1.0).contains(&accuracy), "{accuracy}");
        let parallel = play("bank-partition:shortened=2000", &small).unwrap();
        assert!(number(&serial, "bank_look_ups") < number(&parallel, "bank_look_ups"));
        let lru = play("lru", &small).unwrap();
        let misses =
            |tables: &Tables| number(tables, "user_misses") + number(tables, "kernel_misses");
        for technique in ["drrip", "ship", "insertion", "ucp:shortened=2000"] {
            assert_ne!(misses(&play(technique, &small).unwrap()), misses(&lru), "{technique}");
        }
    }

    /// Banks that are as fast as the whole gain nothing where everything fits: a workload that runs
    /// from 9 against 12 cycles is faster for that alone.
    #[test]
    fn a_gain_of_banks_that_fit_is_their_latency() {
        let large = [("l2.size", "16MB"), ("l2.bank_ns", "2.571")];
        let time = |tables: &Tables| match table(tables, "run").get(0, "run_s") {
            Some(Value::Real(seconds)) => *seconds,
            other => panic!("{other:?}"),
        };
        let lru = time(&play("lru", &large).unwrap());
        let banks = "bank-partition:route=both,shortened=2000";
        let equal = time(&play(banks, &large[..1]).unwrap());
        let fast = time(&play(banks, &large).unwrap());
        assert!((equal / lru - 1.0).abs() < 1e-3, "{}", equal / lru);
        assert!(fast / lru < 0.95, "{}", fast / lru);
    }

    #[test]
    fn impossible_rule_is_refused_in_one_line() {
        let why = |technique: &str, set: &[(&str, &str)]| {
            let error = play(technique, set).map(drop).expect_err(technique).to_string();
            assert!(!error.contains('\n'), "{error}");
            error
        };
        let ways = why("way-partition:ways=0", &[]);
        assert!(ways.contains("`0`, expected a whole number, 1 to 31"), "{ways}");
        let ways = why("way-partition:ways=16", &[]);
        assert!(ways.contains("no way for the user: the second level of machine"), "{ways}");
        assert!(why("insertion:kernel=16", &[]).contains("a rank that no way has"));
        assert!(why("ucp:shortened=0", &[]).contains("expected a whole number"));
        assert!(why("bank-partition:fallback=101", &[]).contains("expected 0 to 100"));
        let many = [("l2.size", "4MB"), ("l2.ways", "64")];
        assert!(why("lru", &many).contains("more ways than can be ruled"));
        let one = [("l2.size", "1KB")];
        assert!(why("bank-partition", &one).contains("one set has no two banks"));
        assert!(why("lru", &[("l2.bank_ns", "9")]).contains("expected at most 12"));
    }
}
