//! World: cores, caches, memory; and questions about instruction traces that need no time.

mod adapt;
mod closed_form;
mod entries;
#[cfg(test)]
mod fault_tests;
mod idle_floor;
mod io_path;
mod memory;
mod network;
mod os_profile;
mod predict;
mod preheat;
mod ruled;
mod sample;
mod segregation;
pub(crate) mod service;
mod tables;
mod together;
pub(crate) mod trace;
pub(crate) mod workload;

pub use closed_form::closed_form;
pub use entries::EntryModel;
pub use network::{CaseAnswer, Fact, FitRow, NetworkInfo, StaggerRow, WakeRow};
pub use os_profile::THRESHOLDS;
pub use predict::{Accuracy, Decisions, Prediction, TrapRow};
pub use preheat::PreheatQuestion;
pub use sample::{Interval, Sample, SampleQuestion, SampledTechnique, Spacing};
pub use segregation::{ChangePct, SegregationSweep, SplitAdvice};

use std::any::Any;
use std::sync::Arc;

use halfwink_chip::{
    run, CodeCache, LossCounts, Machine, Options, RunResult, Segregated, Task, MAX_CORES,
};
use halfwink_engine::RunControl;
use halfwink_eventlog::{replayer, Family, Place, Replayer};
use halfwink_policy::offload::{CallProfile, Fixed, OffloadPolicy};
use halfwink_policy::wake_up::Central;
use halfwink_power::CoreState;
use halfwink_techniques::{Choice, MakeOffload, Parameter, Plan};
use halfwink_units::Time;

use self::adapt::{segregation_policy, Joint};
use self::memory::Memory;
use self::ruled::{segregation_table, SEGREGATION};
use self::tables::{
    call_profile, calls_table, counter_table, energy_columns, histogram_table, intervals, is_core,
    kernel_columns, memory_gb_s, memory_read_mean_ns, running_share, timeline_table, us,
    working_energy, Sums, CALLS, COUNTERS, ENERGY, HISTOGRAMS, TIMELINE,
};
use self::workload::Workload;
use crate::error::StudyError;
use crate::job::Job;
use crate::library::{Library, MachineInfo};
use crate::logs::{nobody_at, Logs};
use crate::table::{integer, real, text, Head, Table, Value};
use crate::world::{Defaults, Named, Prepared, Settings, Tables, Work, World};
use crate::worlds::common::{ends, interval, ledger, slices, Common, Load, COMMON, LEDGER, SLICES};

/// World: cores, caches and memory, playing instruction traces.
pub struct Chip;

/// A job whose names were found.
struct ChipJob {
    machine: Arc<MachineInfo>,
    workload: Workload,
    choice: Choice,
    joint: Joint,
    /// Instructions of each core, at most.
    instructions: Option<u64>,
    /// Part of the run to record the states of, in nanoseconds from its start.
    timeline_ns: Option<(u64, u64)>,
    memory: Memory,
    /// The seed of random faults.
    seed: u64,
}

const OPTIONS: &[Parameter] = &[
    Parameter::whole("instructions", 0, (1, u64::MAX))
        .or_else("all that the workload has")
        .about("of each core, at most", "as many as wanted"),
    Parameter::text("timeline_ns", "two times, as 0..5000", "none")
        .about("part of the run whose states are kept, in nanoseconds", "what is to be seen"),
    Parameter::words("memory", Memory::WORDS).about(
        "of programs side by side; `one` for CPUs of one recorded run, `shared-text` for copies \
         that share what none writes",
        "halfwink",
    ),
    Parameter::whole("seed", 1, (0, u64::MAX))
        .about("of the machine's faults; nothing else is random", "halfwink"),
];

/// Parameters of techniques that were a machine's.
pub(crate) const MOVED: &[(&str, &str)] = &[
    ("mapg.expectation", "technique.expectation"),
    ("fupg.idle_ns", "fupg:idle_ns"),
    ("fupg.window_ns", "fupg:window_ns"),
    ("fupg.budget", "fupg:budget"),
    ("dvfs.max_slowdown", "dvfs-mean:max_slowdown"),
    ("os.threshold_instructions", "technique.threshold"),
    ("os.enough_bytes", "os-enough-work:bytes"),
];

/// Columns of a run beside the common ones.
const OWN: [Head; 48] = [
    integer("cores"),
    integer("working_cores"),
    real("frequency"),
    integer("instructions"),
    integer("kernel_instructions"),
    integer("uops"),
    integer("requests"),
    real("run_s"),
    real("ipc"),
    real("ipc_low"),
    real("ipc_high"),
    real("core_energy_j"),
    real("working_core_energy_j"),
    real("core_energy_j_per_unit"),
    real("core_power_w"),
    real("latency_p50_us"),
    real("latency_p90_us"),
    real("latency_max_us"),
    integer("stalls"),
    real("stall_mean_ns"),
    real("memory_stall_mean_ns"),
    real("memory_gb_s"),
    real("memory_read_mean_ns"),
    real("active_share"),
    real("stalled_share"),
    real("idle_share"),
    real("gating_share"),
    real("gated_share"),
    real("charging_share"),
    real("restoring_share"),
    real("flushing_share"),
    integer("cache_losses"),
    integer("cold_misses"),
    integer("wakes"),
    integer("halts"),
    text("power_basis"),
    real("power_low"),
    real("power_high"),
    integer("late_wakes"),
    real("late_share"),
    integer("most_outstanding"),
    real("closed_form_saving"),
    integer("os_cores"),
    integer("kernel_invocations"),
    integer("moved_invocations"),
    real("kernel_time_share"),
    real("os_core_time_share"),
    real("away_share"),
];

impl World for Chip {
    fn name(&self) -> &'static str {
        "chip"
    }

    fn title(&self) -> &'static str {
        "cores, caches and memory, playing instruction traces"
    }

    fn command(&self, technique: &str) -> String {
        format!("halfwink compare nginx --technique {technique}")
    }

    fn workloads(&self, library: &Library) -> Result<Vec<Named>, StudyError> {
        let named = |w: crate::library::WorkloadInfo| Named { name: w.name, title: w.description };
        Ok(library.workloads()?.into_iter().map(named).collect())
    }

    fn machines(&self, library: &Library) -> Vec<Named> {
        Named::described(library.names("machines", "toml"), |name| {
            Ok(library.machine(name, &[])?.machine.description.clone())
        })
    }

    fn options(&self) -> &'static [Parameter] {
        OPTIONS
    }

    fn moved(&self) -> &'static [(&'static str, &'static str)] {
        MOVED
    }

    fn defaults(&self) -> Defaults {
        Defaults { machine: Some("ev6-4"), workload: None, loads: None }
    }

    fn schema(&self) -> Vec<(&'static str, Vec<Head>)> {
        vec![
            ("run", [&COMMON[..], &OWN, &ENERGY].concat()),
            ("ledger", LEDGER.to_vec()),
            ("counters", COUNTERS.to_vec()),
            ("histograms", HISTOGRAMS.to_vec()),
            ("calls", CALLS.to_vec()),
            ("segregation", SEGREGATION.to_vec()),
            ("timeline", TIMELINE.to_vec()),
            ("slices", SLICES.to_vec()),
        ]
    }

    fn prepare(
        &self,
        library: &Library,
        job: &Job,
        settings: Settings,
    ) -> Result<Box<dyn Prepared>, StudyError> {
        let Some(joint) = Joint::of(&settings.choice) else {
            let message = format!("{}: no technique of a chip", settings.choice);
            return Err(StudyError::Usage(message));
        };
        joint.check()?;
        let timeline = settings.options.text("timeline_ns").map(span).transpose()?;
        let machine = library.machine(&job.machine, &settings.machine)?;
        let workload = library.workload(&job.workload)?;
        fits(&workload, &machine)?;
        let together = (&settings.choice, &joint);
        let memory = Memory::of(settings.options.word("memory"), &workload, together)?;
        if joint.needs_os_cores() && machine.machine.os.cores == 0 {
            let (technique, machine) = (&settings.choice, &machine.name);
            return Err(StudyError::Usage(format!(
                "technique `{technique}` needs OS cores, machine `{machine}` sets none aside; \
                 expected os.cores above 0"
            )));
        }
        if let Some(lacking) = joint.lacking(&machine.machine) {
            return Err(StudyError::Usage(format!("{}: {lacking}", machine.name)));
        }
        if let Some((choice, how)) = joint.segregation() {
            let adapted = joint.adapted(machine.machine.clone());
            ruled::check(choice, how, &adapted, &machine.name)?;
        }
        Ok(Box::new(ChipJob {
            machine,
            workload,
            choice: settings.choice,
            joint,
            instructions: settings.options.given("instructions").map(|n| n as u64),
            timeline_ns: timeline,
            memory,
            seed: settings.options.number("seed") as u64,
        }))
    }

    fn replayer(
        &self,
        library: &Library,
        job: &Job,
        settings: &Settings,
        place: Place,
    ) -> Result<Box<dyn Replayer>, StudyError> {
        let (choice, number) = (&settings.choice, place.stream as usize);
        let joint = Joint::of(choice).ok_or_else(|| nobody_at(job, place))?;
        let found = library.machine(&job.machine, &settings.machine)?;
        let machine = joint.adapted(found.machine.clone());
        match place.family {
            // Techniques that run at several frequencies gate at none.
            Family::Gating if joint.is_single() || joint.plan().1 == Plan::Once => {
                Ok(replayer(joint.policy(&machine, number)))
            }
            Family::Gating => Err(StudyError::Usage(format!(
                "`{choice}` gates at a frequency that earlier runs decided, which a log does not \
                 say: it cannot be replayed"
            ))),
            Family::Offload if joint.plan().1 == Plan::Profiled => Err(StudyError::Usage(format!(
                "`{choice}` decides by what a first run measured, which a log does not say: \
                 it cannot be replayed"
            ))),
            Family::Offload => {
                let (choice, make) = joint.offload().unwrap_or((choice, WATCH));
                Ok(replayer(make(choice, machine.os.switch, &[])))
            }
            Family::Segregation => match joint.segregation() {
                Some((choice, how)) => Ok(replayer(segregation_policy(&how, choice, &machine))),
                None => Err(nobody_at(job, place)),
            },
            Family::WakeUp => {
                let working = library.workload(&job.workload)?.cores().min(machine.cores);
                let central = machine.central_wake_up(working);
                Ok(replayer(central.ok_or_else(|| nobody_at(job, place))?))
            }
            _ => Err(nobody_at(job, place)),
        }
    }
}

/// Sees threads enter and leave the kernel, and moves nothing.
const WATCH: MakeOffload = |_, _, _| Box::new(Fixed::never());

/// Whether a machine has a core for each of the workload's.
fn fits(workload: &Workload, machine: &MachineInfo) -> Result<(), StudyError> {
    let takes_turns = machine.machine.os.time_slice > Time::ZERO;
    let most = if takes_turns { MAX_CORES } else { machine.machine.cores };
    if workload.cores() > most {
        return Err(StudyError::Usage(format!(
            "workload `{}` needs {} cores, machine `{}` has {}; \
             os.time_slice_us above 0 lets up to {MAX_CORES} threads take turns",
            workload.name,
            workload.cores(),
            machine.name,
            machine.machine.cores
        )));
    }
    Ok(())
}

/// Two times, as `0..5000`.
fn span(text: &str) -> Result<(u64, u64), StudyError> {
    let read = || {
        let (from, until) = text.split_once("..")?;
        Some((from.trim().parse().ok()?, until.trim().parse().ok()?))
    };
    let wrong = || StudyError::Usage(format!("timeline_ns: `{text}`, expected FROM..UNTIL"));
    read().filter(|(from, until)| from < until).ok_or_else(wrong)
}

impl Prepared for ChipJob {
    fn identity(&self) -> String {
        format!("{}\n{}", self.workload.identity(), self.machine.text)
    }

    fn work(&self) -> Work {
        Work { amount: self.workload.instructions(self.instructions), unit: "instructions" }
    }

    fn machine_text(&self) -> &str {
        &self.machine.text
    }

    fn run(&self, control: &RunControl, logs: &Logs) -> Result<Tables, StudyError> {
        let mut machine = self.joint.adapted(self.machine.machine.clone());
        machine.os.one_memory = self.memory == Memory::One; // Jobs say it, and no file does.
        machine.faults.seed = self.seed; // Files describe faults; jobs draw them.
        let (frequency, machine, result) = self.chosen(&machine, control, logs)?;
        Ok(self.tables(&machine, frequency, &result))
    }

    fn pace(&self) -> Option<String> {
        self.shared_pace()
    }

    fn run_together(
        &self,
        others: &[&dyn Prepared],
        control: &RunControl,
    ) -> Result<(Tables, Vec<Option<Tables>>), StudyError> {
        let of_chip = others.iter().map(|&other| (other as &dyn Any).downcast_ref::<ChipJob>());
        match of_chip.collect::<Option<Vec<_>>>() {
            Some(others) => self.play_together(&others, control),
            None => Err(StudyError::Model("jobs of another world have no common pace".into())),
        }
    }
}

/// Sum over all cores of what sleep lost.
fn losses(result: &RunResult, of: impl Fn(&LossCounts) -> u64) -> u64 {
    result.cores.iter().chain(&result.os_cores).map(|core| of(&core.losses)).sum()
}

impl ChipJob {
    /// The run that counts: at which share of the frequency, on which machine.
    fn chosen(
        &self,
        machine: &Machine,
        control: &RunControl,
        logs: &Logs,
    ) -> Result<(f64, Machine, RunResult), StudyError> {
        let full = self.play(machine, &[], control, logs)?;
        let again = |machine: &Machine, calls: &[CallProfile]| {
            logs.begin_again(); // Fresh policies need a header of their own.
            self.play(machine, calls, control, logs)
        };
        let points = &machine.dvfs.frequencies; // They fall: `rfind` finds the slowest.
        match self.joint.plan().1 {
            Plan::Once => Ok((1.0, machine.clone(), full)),
            Plan::Profiled => {
                let calls = call_profile(&full, machine);
                Ok((1.0, machine.clone(), again(machine, &calls)?))
            }
            Plan::LeastEnergyDelay => {
                let mut best = (1.0, machine.clone(), full); // The first point is full speed.
                for &share in &points[1..] {
                    let slower = machine.clone().at_frequency(share);
                    let result = again(&slower, &[])?;
                    if self.energy_delay(&result) < self.energy_delay(&best.2) {
                        best = (share, slower, result);
                    }
                }
                Ok(best)
            }
            Plan::BoundedSlowdown => {
                let bound = running_share(&full); // Only this share stretches at a lower clock.
                let max_slowdown = self.joint.plan().0.number("max_slowdown");
                let allowed = |share: f64| bound * (1.0 / share - 1.0) <= max_slowdown;
                match points.iter().rfind(|&&share| share < 1.0 && allowed(share)) {
                    Some(&share) => {
                        let slower = machine.clone().at_frequency(share);
                        let result = again(&slower, &[])?;
                        Ok((share, slower, result))
                    }
                    None => Ok((1.0, machine.clone(), full)),
                }
            }
        }
    }

    /// Energy of the cores with work, times what a user waits for.
    fn energy_delay(&self, result: &RunResult) -> f64 {
        let sums = Sums::of(result);
        let energy = working_energy(result);
        // Under an open load the run is as long as its arrivals, whatever the frequency: its length
        // would reward any slowdown.
        let delay = sums.latency.mean().filter(|_| self.workload.is_open());
        energy * delay.map_or(sums.run.as_s(), Time::as_s)
    }

    fn tables(&self, machine: &Machine, frequency: f64, result: &RunResult) -> Tables {
        vec![
            ("run", self.run_table(machine, frequency, result)),
            ("ledger", ledger(&result.books)),
            ("counters", counter_table(result)),
            ("histograms", histogram_table(result)),
            ("calls", calls_table(result)),
            ("segregation", segregation_table(result)),
            ("timeline", timeline_table(machine, result)),
            ("slices", slices(&result.pieces)),
        ]
    }

    fn play(
        &self,
        machine: &Machine,
        calls: &[CallProfile],
        control: &RunControl,
        logs: &Logs,
    ) -> Result<RunResult, StudyError> {
        let tasks = match self.memory {
            Memory::SharedText => self.workload.sharing_tasks(self.instructions)?,
            Memory::Apart | Memory::One => self.workload.tasks(self.instructions)?,
        };
        // Threads that take turns need somebody to see them enter and leave the kernel; and cores
        // look into each other's caches only with one.
        let meet = self.workload.cores() > machine.cores || self.memory != Memory::Apart;
        self.play_tasks(tasks, meet, machine, calls, control, logs)
    }

    fn play_tasks(
        &self,
        tasks: Vec<Task>,
        meet: bool,
        machine: &Machine,
        calls: &[CallProfile],
        control: &RunControl,
        logs: &Logs,
    ) -> Result<RunResult, StudyError> {
        let policy = |core: usize| logs.gating(core, self.joint.policy(machine, core));
        let moves = self.joint.offload();
        let make = moves.or(meet.then_some((&self.choice, WATCH)));
        let alone = machine.clone().without_os_cores(); // No thread would go to them.
        let machine = if moves.is_some() { machine } else { &alone };
        let offload = make.map(|(choice, make)| {
            move |thread: usize| logs.offload(thread, make(choice, machine.os.switch, calls))
        });
        let divides = self.joint.segregation();
        let rule = divides.map(|(choice, how)| {
            move |core: usize| logs.segregation(core, segregation_policy(&how, choice, machine))
        });
        let segregated = divides.zip(rule.as_ref()).map(|((_, how), rule)| Segregated {
            policy: rule,
            replacement: how.replacement,
            monitors: how.monitors,
        });
        let wake_up = |central: Central| logs.wake_up(0, Box::new(central));
        let options = Options {
            policy: &policy,
            offload: offload.as_ref().map(|make| make as &dyn Fn(usize) -> OffloadPolicy),
            retention: self.joint.retention(),
            timeline: self.timeline(),
            wake_up: Some(&wake_up),
            segregated,
        };
        Ok(run(machine, tasks, &options, &mut CodeCache::new(), control)?)
    }

    /// Part of the run whose states are kept.
    fn timeline(&self) -> Option<(Time, Time)> {
        self.timeline_ns.map(|(from, until)| (Time::ns(from), Time::ns(until)))
    }

    /// Unit of work, and how many were done. A run that was cut before its first request ended did
    /// some instructions all the same.
    fn work_of(&self, sums: &Sums) -> (&'static str, u64) {
        if self.workload.unit_of_work() == "request" && sums.requests > 0 {
            ("request", sums.requests)
        } else {
            ("instruction", sums.instructions)
        }
    }

    fn run_table(&self, machine: &Machine, frequency: f64, result: &RunResult) -> Table {
        let sums = Sums::of(result);
        let (unit_of_work, units) = self.work_of(&sums);
        let core_j = result.books.energy_where(is_core).as_j();
        let working_j = working_energy(result);
        let latency = |q: f64| Value::from(sums.latency.quantile(q).map(us));
        let (run_s, precision) = (sums.run.as_s(), &result.precision);
        let [ipc_low, ipc_high] = ends(interval(precision.ipc, 1.0));
        let share = |state: CoreState| Value::from(sums.residency[state as usize].as_s() / run_s);
        let mut cells = Common {
            unit_of_work,
            units,
            duration_s: result.duration.as_s(),
            energy_j: result.books.energy_where(|_| true).as_j(),
            latency_mean_us: sums.latency.mean().map(us),
            latency_p99_us: sums.latency.quantile(0.99).map(us),
            load: if self.workload.is_open() { Load::Open } else { Load::Closed },
            idle_w: Some(self.idle_w(machine, result)),
            intervals: intervals(unit_of_work, precision),
        }
        .cells();
        cells.extend([
            ("cores", machine.cores.into()),
            ("working_cores", result.cores.len().into()),
            ("frequency", frequency.into()),
            ("instructions", sums.instructions.into()),
            ("kernel_instructions", sums.kernel_instructions.into()),
            ("uops", sums.uops.into()),
            ("requests", sums.requests.into()),
            ("run_s", run_s.into()),
            ("ipc", (sums.instructions as f64 / (run_s * machine.clock.hz())).into()),
            ("ipc_low", ipc_low),
            ("ipc_high", ipc_high),
            ("core_energy_j", core_j.into()),
            ("working_core_energy_j", working_j.into()),
            ("core_energy_j_per_unit", (working_j / units as f64).into()),
            ("core_power_w", (working_j / run_s).into()), // For each: `run_s` is a sum over cores.
            ("latency_p50_us", latency(0.5)),
            ("latency_p90_us", latency(0.9)),
            ("latency_max_us", sums.latency.max().map(us).into()),
            ("stalls", sums.stalls.count().into()),
            ("stall_mean_ns", sums.stalls.mean().map(Time::as_ns).into()),
            ("memory_stall_mean_ns", sums.memory_stalls.mean().map(Time::as_ns).into()),
            ("memory_gb_s", memory_gb_s(result).into()),
            ("memory_read_mean_ns", memory_read_mean_ns(machine, result).into()),
            ("active_share", share(CoreState::Active)),
            ("stalled_share", share(CoreState::Stalled)),
            ("idle_share", share(CoreState::Idle)),
            ("gating_share", share(CoreState::Gating)),
            ("gated_share", (sums.gated().as_s() / run_s).into()),
            ("charging_share", share(CoreState::Charging)),
            ("restoring_share", share(CoreState::Restoring)),
            ("flushing_share", share(CoreState::Flushing)),
            ("cache_losses", losses(result, |l| l.losses).into()),
            ("cold_misses", losses(result, |l| l.cold_misses.iter().sum()).into()),
            ("wakes", sums.wakes.into()),
            ("halts", sums.halts.into()),
            ("power_basis", machine.power.basis.to_string().into()),
            ("power_low", machine.power.factor[0].into()),
            ("power_high", machine.power.factor[1].into()),
            ("late_wakes", sums.late_wakes.into()),
            ("late_share", (sums.late.as_s() / run_s).into()),
            ("most_outstanding", sums.most_outstanding.into()),
            ("closed_form_saving", closed_form(machine, result).into()),
        ]);
        cells.extend(kernel_columns(result, &sums).into_iter().chain(energy_columns(result)));
        Table::row(cells)
    }
}
