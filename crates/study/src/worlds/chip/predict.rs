//! How well the run-length predictor predicts the kernel entries of a recorded workload (the shape
//! of Nellans 2014, Sec 4.6.2 and Fig 4.8).

use halfwink_chip::kernel_entry;
use halfwink_policy::offload::{Organisation, Parameters, Predictor, Source};
use halfwink_trace::{Event, KernelRun, KernelRuns};
use serde::Serialize;

use crate::error::StudyError;
use crate::library::Library;

/// Thresholds at which decisions are judged, in instructions.
const THRESHOLDS: [u64; 5] = [100, 500, 1_000, 5_000, 10_000];
/// A prediction is good if it is off by at most this share (Nellans 2014, Sec 4.6.2).
const TOLERANCE_PERCENT: u32 = 5;
/// The tables of the dissertation.
const ORGANISATIONS: [(&str, Organisation); 3] = [
    ("associative-200", Organisation::PUBLISHED_ASSOCIATIVE),
    ("direct-1500", Organisation::PUBLISHED_DIRECT),
    ("unbounded", Organisation::Unbounded),
];

/// What the predictor makes of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// Name of the workload.
    pub workload: String,
    /// Instructions of the trace, by privilege (user, kernel).
    pub instructions: [u64; 2],
    /// Complete kernel invocations that began with a system call.
    pub system_calls: u64,
    /// With an interrupt.
    pub interrupts: u64,
    /// With an exception.
    pub exceptions: u64,
    /// Those whose cause the trace does not tell; they are not predicted.
    pub unexplained: u64,
    /// Predicted ones in which the CPU halted.
    pub halted: u64,
    /// Predicted ones that were interrupted.
    pub nested: u64,
    /// Predicted ones that are longer than 16 bits count, which no prediction can match.
    pub too_long: u64,
    /// Mean length of the predicted ones, in instructions.
    pub mean_instructions: f64,
    /// One row for each table, over all entries and without interrupts.
    pub rows: Vec<Accuracy>,
}

/// Accuracy of one predictor on one set of kernel entries. Shares are in per cent of the entries.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// `all`, or `without-interrupts`: those neither predicted nor trained on.
    pub entries: &'static str,
    /// The table.
    pub table: &'static str,
    /// Number of predictions.
    pub predictions: u64,
    /// The very length.
    pub exact_percent: f64,
    /// Off by at most 5 % of the length, the exact ones included.
    pub within_5_percent: f64,
    /// Of those that are off by more, the share that is too short.
    pub too_short_percent: f64,
    /// Taken from the table's own entry rather than from the last three lengths.
    pub local_percent: f64,
    /// Expected and actual length on the same side of a threshold.
    pub decisions: Vec<Decisions>,
    /// Table entries in use at the end.
    pub table_entries: usize,
}

/// Decisions at one threshold.
#[derive(Clone, Debug, Serialize)]
pub struct Decisions {
    /// N, in instructions.
    pub threshold: u64,
    /// Right ones, in per cent.
    pub right_percent: f64,
    /// Invocations longer than N, in per cent: what always or never moving would be right about.
    pub longer_percent: f64,
}

/// A predictor and what came of it.
struct Tally {
    entries: &'static str,
    table: &'static str,
    with_interrupts: bool,
    predictor: Predictor,
    predictions: u64,
    exact: u64,
    within: u64,
    too_short: u64,
    local: u64,
    right: [u64; THRESHOLDS.len()],
    longer: [u64; THRESHOLDS.len()],
}

impl Tally {
    fn new(with_interrupts: bool, (table, organisation): (&'static str, Organisation)) -> Tally {
        Tally {
            entries: if with_interrupts { "all" } else { "without-interrupts" },
            table,
            with_interrupts,
            predictor: Predictor::new(Parameters::published(organisation)),
            predictions: 0,
            exact: 0,
            within: 0,
            too_short: 0,
            local: 0,
            right: [0; THRESHOLDS.len()],
            longer: [0; THRESHOLDS.len()],
        }
    }

    fn meet(&mut self, cause: &Event, astate: u64, actual: u64) {
        if !self.with_interrupts && matches!(cause, Event::Interrupt { .. }) {
            return;
        }
        let prediction = self.predictor.predict(astate);
        let expected = prediction.instructions;
        let within = prediction.is_within(actual, TOLERANCE_PERCENT);
        self.predictions += 1;
        self.exact += u64::from(expected == actual);
        self.within += u64::from(within);
        self.too_short += u64::from(!within && expected < actual);
        self.local += u64::from(prediction.source == Source::Local);
        for (n, threshold) in THRESHOLDS.into_iter().enumerate() {
            self.right[n] += u64::from((expected > threshold) == (actual > threshold));
            self.longer[n] += u64::from(actual > threshold);
        }
        self.predictor.train(astate, actual);
    }

    fn accuracy(&self) -> Accuracy {
        let of = |part| percent(part, self.predictions);
        let decisions = THRESHOLDS.into_iter().enumerate().map(|(n, threshold)| Decisions {
            threshold,
            right_percent: of(self.right[n]),
            longer_percent: of(self.longer[n]),
        });
        Accuracy {
            entries: self.entries,
            table: self.table,
            predictions: self.predictions,
            exact_percent: of(self.exact),
            within_5_percent: of(self.within),
            too_short_percent: percent(self.too_short, self.predictions - self.within),
            local_percent: of(self.local),
            decisions: decisions.collect(),
            table_entries: self.predictor.entries(),
        }
    }
}

/// Zero of nothing is zero.
fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl Library {
    /// Plays the kernel entries of a workload, one core of one trace, through the published
    /// predictors.
    ///
    /// # Errors
    /// If there is no such workload, it is several, or it never enters the kernel.
    pub fn prediction(&self, name: &str) -> Result<Prediction, StudyError> {
        let workload = self.workload(name)?;
        if workload.cores() != 1 {
            let cores = workload.cores();
            let message = format!("workload `{name}`: {cores} cores, expected one trace");
            return Err(StudyError::Usage(message));
        }
        let source = workload.tasks(None)?.remove(0).source;
        let prediction = predict(name, KernelRuns::new(source))?;
        if prediction.system_calls + prediction.interrupts + prediction.exceptions == 0 {
            let message = format!("workload `{name}`: no whole kernel invocation to predict");
            return Err(StudyError::Usage(message));
        }
        Ok(prediction)
    }
}

fn predict<S: halfwink_trace::Source>(
    name: &str,
    mut runs: KernelRuns<S>,
) -> Result<Prediction, StudyError> {
    let mut tallies: Vec<Tally> = [true, false]
        .into_iter()
        .flat_map(|with| ORGANISATIONS.map(|organisation| Tally::new(with, organisation)))
        .collect();
    let mut found = Prediction {
        workload: name.to_owned(),
        instructions: [0; 2],
        system_calls: 0,
        interrupts: 0,
        exceptions: 0,
        unexplained: 0,
        halted: 0,
        nested: 0,
        too_long: 0,
        mean_instructions: 0.0,
        rows: Vec::new(),
    };
    let mut total = 0;
    while let Some(run) = runs.next_run()? {
        let known = run.cause.and_then(|c| Some((c, kernel_entry(&c)?.registers.astate())));
        let Some((cause, astate)) = known else {
            found.unexplained += 1;
            continue;
        };
        found.count(&cause, &run);
        total += run.instructions;
        tallies.iter_mut().for_each(|tally| tally.meet(&cause, astate, run.instructions));
    }
    let predicted = found.system_calls + found.interrupts + found.exceptions;
    found.instructions = runs.instructions;
    found.mean_instructions = total as f64 / predicted.max(1) as f64;
    found.rows = tallies.iter().map(Tally::accuracy).collect();
    Ok(found)
}

impl Prediction {
    fn count(&mut self, cause: &Event, run: &KernelRun) {
        match cause {
            Event::Syscall { .. } => self.system_calls += 1,
            Event::Interrupt { .. } => self.interrupts += 1,
            _ => self.exceptions += 1,
        }
        self.halted += u64::from(run.halted);
        self.nested += u64::from(run.nested > 0);
        self.too_long += u64::from(run.instructions > u64::from(u16::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use halfwink_trace::{Block, Instr, Program, Script, TemplateId};
    use halfwink_units::{PhysAddr, VirtAddr};

    use super::*;

    /// Calls and interrupts of as many instructions, between user instructions.
    fn script(list: &[(Event, u16)]) -> Script {
        let mut program = Program::default();
        let block = |pc: u64, kernel| Block {
            pc: VirtAddr(pc),
            phys: PhysAddr(pc),
            phys_next_page: PhysAddr(0),
            kernel,
            first_instr: 0,
            instrs: 0,
        };
        let user = program.push_block(block(0x1000, false), &[Instr::nop(0, 1)]);
        let user = program.push_template(user, 1, &[]);
        let code: Vec<Instr> = (0..2_000).map(|n| Instr::nop(n, 1)).collect();
        let kernel = program.push_block(block(0x10_0000, true), &code);
        let runs: Vec<TemplateId> =
            list.iter().map(|&(_, n)| program.push_template(kernel, n, &[])).collect();
        let mut script = Script::new(Arc::new(program));
        script.run(user, vec![]);
        for (&(event, _), run) in list.iter().zip(runs) {
            script.event(event).run(run, vec![]).run(user, vec![]);
        }
        script
    }

    fn read(fd: u64) -> Event {
        Event::Syscall { number: 0, args: [fd, 0, 0, 0, 0, 0] }
    }

    const TICK: Event = Event::Interrupt { vector: 236 };

    #[test]
    fn by_hand() {
        // Expected: 0, then 600, 600, the mean of 600 twice and 630, then 40 twice.
        let list =
            [(read(3), 600), (read(3), 600), (read(3), 630), (TICK, 40), (TICK, 1_200), (TICK, 40)];
        let found = predict("test", KernelRuns::new(script(&list))).unwrap();
        assert_eq!((found.system_calls, found.interrupts, found.exceptions), (3, 3, 0));
        assert_eq!((found.unexplained, found.nested, found.halted, found.too_long), (0, 0, 0, 0));
        assert_eq!(found.instructions, [7, 3_110]);
        let row = &found.rows[0];
        assert_eq!((row.entries, row.table, row.predictions), ("all", "associative-200", 6));
        // Exact: the second. Within 5 %: also 600 for 630 (4.8 %). The ticks: 610, 40, and after
        // that miss the mean of 630, 40 and 1200 = 623.
        assert!((row.exact_percent - 100.0 / 6.0).abs() < 1e-9);
        assert!((row.within_5_percent - 200.0 / 6.0).abs() < 1e-9);
        // Too short: 0 for 600 and 40 for 1200; too long: 610 and 623 for 40.
        assert!((row.too_short_percent - 50.0).abs() < 1e-9);
        assert!((row.local_percent - 50.0).abs() < 1e-9);
        let right: Vec<f64> = row.decisions.iter().map(|d| d.right_percent * 6.0 / 100.0).collect();
        // At 100 and 500: right are 2 and 3. At 1000 all but the long tick; above that, all.
        let rounded: Vec<i64> = right.iter().map(|n| n.round() as i64).collect();
        assert_eq!(rounded, [2, 2, 5, 6, 6]);
        let longer = row.decisions[1].longer_percent;
        assert!((longer - 400.0 / 6.0).abs() < 1e-9);
        assert_eq!((row.table_entries, found.rows.len()), (2, 6));
        // Without the ticks the calls are the same.
        let calls = &found.rows[3];
        assert_eq!((calls.entries, calls.predictions), ("without-interrupts", 3));
        assert!((calls.within_5_percent - 200.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn the_trace_must_be_one_that_enters_the_kernel() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let library = Library::new(root);
        for (name, complaint) in [
            ("nginx*2", "workload `nginx*2`: 2 cores, expected one trace"),
            ("alu:instructions=1000", "no whole kernel invocation to predict"),
            ("nginy", "unknown workload `nginy`; did you mean `nginx`?"),
        ] {
            let error = library.prediction(name).unwrap_err();
            assert!(error.is_usage());
            assert!(error.to_string().contains(complaint), "{error}");
        }
    }
}
