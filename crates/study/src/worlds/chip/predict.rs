//! How well the run-length predictor predicts the kernel entries of a recorded workload (the shape
//! of Nellans 2014, Sec 4.6.2 and Fig 4.8).
//!
//! Which entries count is a reading: those of the recorded machine, or all privileged ones of a
//! machine with register windows and software-filled TLBs, as the published accuracy has them.

use halfwink_chip::kernel_entry;
use halfwink_policy::offload::{Parameters, Predictor, Source};
use halfwink_trace::{Event, KernelRun, KernelRuns, Trap, TrapCounts, Traps};
use serde::Serialize;

use super::entries::{EntryModel, PUBLISHED};
use crate::error::StudyError;
use crate::library::Library;

/// Thresholds at which decisions are judged, in instructions.
const THRESHOLDS: [u64; 5] = [100, 500, 1_000, 5_000, 10_000];
/// A prediction is good if it is off by at most this share (Nellans 2014, Sec 4.6.2).
const TOLERANCE_PERCENT: u32 = 5;

/// A reading of which kernel entries count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// All entries of the recorded machine.
    All,
    /// All entries but interrupts.
    WithoutInterrupts,
    /// All entries, with window traps and TLB misses; each kind of trap is an AState of its own.
    AllPrivileged,
    /// All entries and traps, without window traps in user code (Sec 4.1: "removed from all further
    /// results").
    WithoutWindowTraps,
    /// All entries, with window traps and TLB misses; each instruction that traps is an AState of
    /// its own.
    AllPrivilegedBySite,
}

// User addresses end below 2^47, so that a site never has these bits of its own.
/// Marks AStates of traps by the instruction that takes them.
const SITE: u64 = 3 << 62;

impl Reading {
    const RECORDED: [Reading; 2] = [Reading::All, Reading::WithoutInterrupts];
    const WITH_TRAPS: [Reading; 3] =
        [Reading::AllPrivileged, Reading::WithoutWindowTraps, Reading::AllPrivilegedBySite];

    const fn name(self) -> &'static str {
        match self {
            Reading::All => "all",
            Reading::WithoutInterrupts => "without-interrupts",
            Reading::AllPrivileged => "all-privileged",
            Reading::WithoutWindowTraps => "without-window-traps",
            Reading::AllPrivilegedBySite => "all-privileged-by-site",
        }
    }

    fn counts(self, cause: &Event) -> bool {
        match self {
            Reading::WithoutInterrupts => !matches!(cause, Event::Interrupt { .. }),
            Reading::WithoutWindowTraps => !Trap::of(cause).is_some_and(Trap::is_window),
            _ => true,
        }
    }

    fn astate(self, entry: &Entry) -> u64 {
        match Trap::of(&entry.cause) {
            Some(_) if self == Reading::AllPrivilegedBySite => SITE | entry.site,
            _ => entry.astate,
        }
    }
}

/// A kernel entry as predictors see it.
struct Entry {
    cause: Event,
    astate: u64,
    /// Address of the user instruction that trapped, if it is a trap.
    site: u64,
    instructions: u64,
}

/// The accuracy of the predictor on a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// Name of the workload.
    pub workload: String,
    /// Instructions of the trace, by privilege (user, kernel).
    pub instructions: [u64; 2],
    /// Complete kernel invocations that began with a system call.
    pub system_calls: u64,
    /// Complete kernel invocations that began with an interrupt.
    pub interrupts: u64,
    /// Complete kernel invocations that began with an exception.
    pub exceptions: u64,
    /// Invocations whose cause the trace does not tell; they are not predicted.
    pub unexplained: u64,
    /// Predicted ones in which the CPU halted.
    pub halted: u64,
    /// Predicted ones that were interrupted.
    pub nested: u64,
    /// Predicted ones that are longer than 16 bits count, which no prediction can match.
    pub too_long: u64,
    /// Mean length of the predicted ones, in instructions.
    pub mean_instructions: f64,
    /// Instructions with all handlers, by privilege (user, kernel).
    pub privileged_instructions: [u64; 2],
    /// Traps that the recorded machine did not have.
    pub traps: Vec<TrapRow>,
    /// One row for each reading and table.
    pub rows: Vec<Accuracy>,
}

/// The number of traps of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct TrapRow {
    /// The kind of trap.
    pub trap: &'static str,
    /// Taken by user code: kernel entries.
    pub user: u64,
    /// Taken inside the kernel, which lengthen what it is at.
    pub kernel: u64,
}

impl TrapRow {
    fn all(counts: &TrapCounts) -> Vec<TrapRow> {
        let row = |trap: Trap| {
            let [user, kernel] = counts.of(trap);
            TrapRow { trap: trap.name(), user, kernel }
        };
        Trap::ALL.into_iter().map(row).collect()
    }
}

/// Accuracy of one predictor on one set of kernel entries. Shares are in per cent of the entries.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// Which count; others are neither predicted nor trained on. Of the recorded machine: `all`, or
    /// `without-interrupts`. With register windows and software-filled TLBs: `all-privileged`;
    /// `without-window-traps`, where TLB misses alone are added; `all-privileged-by-site`, where
    /// traps are told apart by the instruction that takes them rather than by their kind.
    pub entries: &'static str,
    /// The predictor's table.
    pub table: String,
    /// Number of predictions.
    pub predictions: u64,
    /// Predictions of exactly the right length.
    pub exact_percent: f64,
    /// Off by at most 5 % of the length, the exact ones included.
    pub within_5_percent: f64,
    /// Share that is too short among those that are off by more than 5 %.
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
    /// The threshold N, in instructions.
    pub threshold: u64,
    /// Right ones, in per cent.
    pub right_percent: f64,
    /// Invocations longer than N, in per cent: what always or never moving would be right about.
    pub longer_percent: f64,
}

/// A predictor and what came of it.
struct Tally {
    reading: Reading,
    table: String,
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
    /// Makes a tally for each reading and table.
    fn each(readings: &[Reading], predictors: &[(String, Parameters)]) -> Vec<Tally> {
        let tally = |reading: &Reading, (table, parameters): &(String, Parameters)| Tally {
            reading: *reading,
            table: table.clone(),
            predictor: Predictor::new(*parameters),
            predictions: 0,
            exact: 0,
            within: 0,
            too_short: 0,
            local: 0,
            right: [0; THRESHOLDS.len()],
            longer: [0; THRESHOLDS.len()],
        };
        readings.iter().flat_map(|r| predictors.iter().map(move |p| tally(r, p))).collect()
    }

    fn meet(&mut self, entry: &Entry) {
        if !self.reading.counts(&entry.cause) {
            return;
        }
        let (astate, actual) = (self.reading.astate(entry), entry.instructions);
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
        // Only now: a predictor that is trained before it is asked would know the answer.
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
            entries: self.reading.name(),
            table: self.table.clone(),
            predictions: self.predictions,
            exact_percent: of(self.exact),
            within_5_percent: of(self.within),
            // The share is of those that are off: of all of them it would mostly say how many these
            // are.
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
    /// predictors: those of the recorded machine, and those of one with register windows and
    /// software-filled TLBs. `set` changes values of the description `ultrasparc-iii`.
    ///
    /// # Errors
    /// If there is no such workload, it is several, or it never enters the kernel; or if a value
    /// cannot be.
    pub fn prediction(
        &self,
        name: &str,
        set: &[(String, String)],
    ) -> Result<Prediction, StudyError> {
        let model = self.entry_model(PUBLISHED, set)?;
        let workload = self.workload(name)?;
        if workload.cores() != 1 {
            let cores = workload.cores();
            let message = format!("workload `{name}`: {cores} cores, expected one trace");
            return Err(StudyError::Usage(message));
        }
        // Each of the two passes has a source of its own: a source cannot be wound back.
        let source = || Ok::<_, StudyError>(workload.tasks(None)?.remove(0).source);
        let mut prediction = predict(name, KernelRuns::new(source()?), &model)?;
        if prediction.system_calls + prediction.interrupts + prediction.exceptions == 0 {
            let message = format!("workload `{name}`: no whole kernel invocation to predict");
            return Err(StudyError::Usage(message));
        }
        prediction.add_privileged(KernelRuns::new(Traps::new(source()?, model.traps)), &model)?;
        Ok(prediction)
    }
}

/// Returns what predictors see of a kernel run, if the trace tells what led to it.
fn entry(run: &KernelRun, site: u64) -> Option<Entry> {
    let cause = run.cause?;
    let astate = kernel_entry(&cause)?.registers.astate();
    Some(Entry { cause, astate, site, instructions: run.instructions })
}

fn predict<S: halfwink_trace::Source>(
    name: &str,
    mut runs: KernelRuns<S>,
    model: &EntryModel,
) -> Result<Prediction, StudyError> {
    let mut tallies = Tally::each(&Reading::RECORDED, &model.predictors);
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
        privileged_instructions: [0; 2],
        traps: Vec::new(),
        rows: Vec::new(),
    };
    let mut total = 0;
    while let Some(run) = runs.next_run()? {
        // Readings of the recorded machine never look at the site (`Reading::astate`).
        let Some(entry) = entry(&run, 0) else {
            found.unexplained += 1;
            continue;
        };
        found.count(&entry.cause, &run);
        total += run.instructions;
        tallies.iter_mut().for_each(|tally| tally.meet(&entry));
    }
    let predicted = found.system_calls + found.interrupts + found.exceptions;
    found.instructions = runs.instructions;
    found.mean_instructions = total as f64 / predicted.max(1) as f64;
    found.rows = tallies.iter().map(Tally::accuracy).collect();
    Ok(found)
}

impl Prediction {
    /// The readings with window traps and TLB misses.
    fn add_privileged<S: halfwink_trace::Source>(
        &mut self,
        mut runs: KernelRuns<Traps<S>>,
        model: &EntryModel,
    ) -> Result<(), StudyError> {
        let mut tallies = Tally::each(&Reading::WITH_TRAPS, &model.predictors);
        while let Some(run) = runs.next_run()? {
            if let Some(entry) = entry(&run, runs.source().site()) {
                tallies.iter_mut().for_each(|tally| tally.meet(&entry));
            }
        }
        self.privileged_instructions = runs.instructions;
        self.traps = TrapRow::all(runs.source().counts());
        self.rows.extend(tallies.iter().map(Tally::accuracy));
        Ok(())
    }

    fn count(&mut self, cause: &Event, run: &KernelRun) {
        match cause {
            Event::Syscall { .. } => self.system_calls += 1,
            Event::Interrupt { .. } => self.interrupts += 1,
            _ => self.exceptions += 1,
        }
        self.halted += u64::from(run.halted);
        self.nested += u64::from(run.nested > 0);
        // Table entries of the thesis hold lengths of 16 bits.
        self.too_long += u64::from(run.instructions > u64::from(u16::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use halfwink_trace::{Block, Branch, Instr, Program, Script, TemplateId};
    use halfwink_units::{PhysAddr, VirtAddr};

    use super::*;
    use crate::shipped::library;

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

    fn model() -> EntryModel {
        library().entry_model(PUBLISHED, &[]).unwrap()
    }

    #[test]
    fn predictions_of_short_runs_are_those_computed_by_hand() {
        // Expected: 0, then 600, 600, the mean of 600 twice and 630, then 40 twice.
        let list =
            [(read(3), 600), (read(3), 600), (read(3), 630), (TICK, 40), (TICK, 1_200), (TICK, 40)];
        let found = predict("test", KernelRuns::new(script(&list)), &model()).unwrap();
        assert_eq!((found.system_calls, found.interrupts, found.exceptions), (3, 3, 0));
        assert_eq!((found.unexplained, found.nested, found.halted, found.too_long), (0, 0, 0, 0));
        assert_eq!(found.instructions, [7, 3_110]);
        let row = &found.rows[0];
        assert_eq!(
            (row.entries, row.table.as_str(), row.predictions),
            ("all", "associative-200", 6)
        );
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

    /// Traps by hand: ten calls deep and back, twice, between two reads.
    #[test]
    fn readings_with_traps_by_hand() {
        let mut program = Program::default();
        let block = |pc: u64, kernel| Block {
            pc: VirtAddr(pc),
            phys: PhysAddr(pc),
            phys_next_page: PhysAddr(0),
            kernel,
            first_instr: 0,
            instrs: 0,
        };
        let mut template = |pc, kernel, branch, n: u16| {
            let code: Vec<Instr> =
                (0..n).map(|place| Instr { branch, ..Instr::nop(place, 1) }).collect();
            let block = program.push_block(block(pc, kernel), &code);
            program.push_template(block, n, &[])
        };
        let plain = template(0x1000, false, Branch::None, 1);
        let call = template(0x1100, false, Branch::Call, 1);
        let back = template(0x1200, false, Branch::Return, 1);
        let kernel = template(0xffff_ffff_8100_0000, true, Branch::None, 600);
        let mut script = Script::new(Arc::new(program));
        script.run(plain, vec![]);
        for _ in 0..2 {
            (0..10).for_each(|_| {
                script.run(call, vec![]);
            });
            (0..10).for_each(|_| {
                script.run(back, vec![]);
            });
            script.run(plain, vec![]).event(read(3)).run(kernel, vec![]).run(plain, vec![]);
        }
        // The window of the innermost procedure is its caller's: 9 saves, 3 spills, 3 fills. The
        // second time each window that the kernel may have used is cleaned: all six. The first TLB
        // miss begins the trace, which cuts it.
        let set = [("windows.clean_windows".to_owned(), "true".to_owned())];
        let model = library().entry_model(PUBLISHED, &set).unwrap();
        let mut found = predict("test", KernelRuns::new(script.clone()), &model).unwrap();
        let traps = KernelRuns::new(Traps::new(script, model.traps));
        found.add_privileged(traps, &model).unwrap();
        let user: Vec<u64> = found.traps.iter().map(|row| row.user).collect();
        assert_eq!(user, [6, 6, 6, 1, 0]);
        assert_eq!(found.instructions, [45, 1_200]);
        let handlers = 6 * 27 + 6 * 25 + 6 * 20 + 58;
        assert_eq!(found.privileged_instructions, [45, 1_200 + handlers]);
        let row = |n: usize| {
            let row = &found.rows[n];
            (row.entries, row.predictions, (row.exact_percent * row.predictions as f64) / 100.0)
        };
        // Every kind is foreseen from its second time on: 18 + 2 less 4 kinds.
        assert_eq!(row(6), ("all-privileged", 20, 16.0));
        assert_eq!(row(9), ("without-window-traps", 2, 1.0));
        assert_eq!(found.rows[6].table, "associative-200");
        assert_eq!(row(0), ("all", 2, 1.0));
        // By site: all spills and cleaned windows come before one instruction, all fills at
        // another: what alternates there is not foreseen at each change.
        let (name, predictions, exact) = row(12);
        assert_eq!((name, predictions), ("all-privileged-by-site", 20));
        assert!(exact < 16.0, "{exact}");
    }

    #[test]
    fn the_trace_must_be_one_that_enters_the_kernel() {
        let library = library();
        for (name, complaint) in [
            ("nginx*2", "workload `nginx*2`: 2 cores, expected one trace"),
            ("alu:instructions=1000", "no whole kernel invocation to predict"),
            ("nginy", "unknown workload `nginy`; did you mean `nginx`?"),
        ] {
            let error = library.prediction(name, &[]).unwrap_err();
            assert!(error.is_usage());
            assert!(error.to_string().contains(complaint), "{error}");
        }
    }
}
