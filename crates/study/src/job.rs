//! One technique on one workload on one machine.

use std::time::Instant;

use halfwink_chip::{run, CodeCache, Machine, Options, RunResult, MAX_CORES};
use halfwink_engine::RunControl;
use halfwink_policy::offload::{CallProfile, Fixed, OffloadPolicy};
use halfwink_power::CoreState;
use halfwink_units::Time;
use xxhash_rust::xxh3::xxh3_64;

use crate::closed_form::closed_form;
use crate::error::StudyError;
use crate::library::{Library, MachineInfo};
use crate::output::{
    call_profile, calls_table, counter_table, histogram_table, is_core, kernel_columns,
    ledger_table, timeline_table, us, working_energy, Sums,
};
use crate::registry::{technique, MakeOffload, Plan, Technique};
use crate::table::{Table, Value};
use crate::workload::Workload;

/// What to run, by names.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// See [`Library::workload`].
    pub workload: String,
    /// See [`Library::machine`].
    pub machine: String,
    /// See [`technique`].
    pub technique: String,
    /// Values of the machine to set: path and value.
    pub set: Vec<(String, String)>,
    /// Instructions of each core, at most.
    pub instructions: Option<u64>,
    /// Part of the run to record the states of, in nanoseconds from its start.
    pub timeline_ns: Option<(u64, u64)>,
}

/// A job whose names were found.
pub struct Prepared {
    job: Job,
    machine: MachineInfo,
    workload: Workload,
    technique: &'static Technique,
}

/// What a job found out.
#[derive(Clone, Debug)]
pub struct Output {
    /// One row: what was run, and its sums.
    pub run: Table,
    /// Time and energy by component, state, mode and cause.
    pub ledger: Table,
    /// Counts of caches, branches and memory, by component and mode.
    pub counters: Table,
    /// Stall lengths and latencies, as buckets.
    pub histograms: Table,
    /// Kernel invocations by cause, if the technique watches them.
    pub calls: Table,
    /// States of the cores over time, if they were asked for.
    pub timeline: Table,
}

impl Job {
    /// Finds everything that the job names.
    ///
    /// # Errors
    /// The first name or setting that does not exist, or a workload that does not fit the machine.
    pub fn prepare(self, library: &Library) -> Result<Prepared, StudyError> {
        let technique = technique(&self.technique)?;
        let machine = library.machine(&self.machine, &self.set)?;
        let workload = library.workload(&self.workload)?;
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
        if technique.needs_os_cores && machine.machine.os.cores == 0 {
            let (technique, machine) = (technique.name, machine.name);
            return Err(StudyError::Usage(format!(
                "technique `{technique}` needs OS cores, machine `{machine}` sets none aside; \
                 expected os.cores above 0"
            )));
        }
        if self.instructions == Some(0) {
            return Err(StudyError::Usage("0 instructions to play; expected at least 1".into()));
        }
        Ok(Prepared { job: self, machine, workload, technique })
    }
}

impl Prepared {
    /// Identifies the result: equal for jobs that must give the same.
    #[must_use]
    pub fn key(&self) -> String {
        let text = format!(
            "{}\n{}\n{}\n{:?}\n{:?}",
            self.workload.identity(),
            self.machine.text,
            self.technique.name,
            self.job.instructions,
            self.job.timeline_ns,
        );
        format!("{:016x}", xxh3_64(text.as_bytes()))
    }

    /// The machine description as it will be used.
    #[must_use]
    pub fn machine_text(&self) -> &str {
        &self.machine.text
    }

    /// Instructions that will be played, for a progress bar.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.workload.instructions(self.job.instructions)
    }

    /// Runs it.
    ///
    /// # Errors
    /// If a trace is damaged, the run is stopped, or the model fails.
    pub fn run(&self, control: &RunControl) -> Result<Output, StudyError> {
        let machine = (self.technique.adapt)(self.machine.machine.clone());
        let begun = Instant::now();
        let (frequency, machine, result) = self.chosen(&machine, control)?;
        let host_s = begun.elapsed().as_secs_f64();
        Ok(Output {
            run: self.run_table(&machine, frequency, &result, host_s),
            ledger: ledger_table(&result),
            counters: counter_table(&result),
            histograms: histogram_table(&result),
            calls: calls_table(&result),
            timeline: timeline_table(&result),
        })
    }

    /// The run that counts: at which share of the frequency, on which machine.
    fn chosen(
        &self,
        machine: &Machine,
        control: &RunControl,
    ) -> Result<(f64, Machine, RunResult), StudyError> {
        let full = self.play(machine, &[], control)?;
        let points = &machine.dvfs.frequencies;
        match self.technique.plan {
            Plan::Once => Ok((1.0, machine.clone(), full)),
            Plan::Profiled => {
                let calls = call_profile(&full, machine);
                Ok((1.0, machine.clone(), self.play(machine, &calls, control)?))
            }
            Plan::LeastEnergyDelay => {
                let mut best = (1.0, machine.clone(), full);
                for &share in &points[1..] {
                    let slower = machine.clone().at_frequency(share);
                    let result = self.play(&slower, &[], control)?;
                    if self.energy_delay(&result) < self.energy_delay(&best.2) {
                        best = (share, slower, result);
                    }
                }
                Ok(best)
            }
            Plan::BoundedSlowdown => {
                let residency = Sums::of(&full).residency;
                let running = residency[CoreState::Active as usize].as_s();
                let stalled = residency[CoreState::Stalled as usize].as_s();
                let bound = running / (running + stalled);
                let allowed = |share: f64| bound * (1.0 / share - 1.0) <= machine.dvfs.max_slowdown;
                match points.iter().rfind(|&&share| share < 1.0 && allowed(share)) {
                    Some(&share) => {
                        let slower = machine.clone().at_frequency(share);
                        let result = self.play(&slower, &[], control)?;
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
        let delay = sums.latency.mean().filter(|_| self.workload.is_open());
        energy * delay.map_or(sums.run.as_s(), Time::as_s)
    }

    fn play(
        &self,
        machine: &Machine,
        calls: &[CallProfile],
        control: &RunControl,
    ) -> Result<RunResult, StudyError> {
        let tasks = self.workload.tasks(self.job.instructions)?;
        let policy = |core: usize| (self.technique.build)(machine, core);
        // Threads that take turns need somebody to see them enter and leave the kernel.
        let takes_turns = self.workload.cores() > machine.cores;
        let watch: MakeOffload = |_, _| Box::new(Fixed::never());
        let make = self.technique.offload.or(takes_turns.then_some(watch));
        let alone = machine.clone().without_os_cores();
        let machine = if self.technique.offload.is_some() { machine } else { &alone };
        let offload = make.map(|make| move |_: usize| make(machine, calls));
        let window = self.job.timeline_ns;
        let options = Options {
            policy: &policy,
            offload: offload.as_ref().map(|make| make as &dyn Fn(usize) -> OffloadPolicy),
            retention: self.technique.retention,
            timeline: window.map(|(from, until)| (Time::ns(from), Time::ns(until))),
        };
        Ok(run(machine, tasks, &options, &mut CodeCache::new(), control)?)
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

    fn run_table(
        &self,
        machine: &Machine,
        frequency: f64,
        result: &RunResult,
        host_s: f64,
    ) -> Table {
        let sums = Sums::of(result);
        let (unit, units) = self.work_of(&sums);
        let total_j = result.books.energy_where(|_| true).as_j();
        let core_j = result.books.energy_where(is_core).as_j();
        let working = result.cores.len();
        let working_j = working_energy(result);
        let latency = |q: f64| Value::from(sums.latency.quantile(q).map(us));
        let set: Vec<String> = self.job.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let run_s = sums.run.as_s();
        let share = |state: CoreState| Value::from(sums.residency[state as usize].as_s() / run_s);
        let mut columns = vec![
            ("workload", self.workload.name.as_str().into()),
            ("machine", self.machine.name.as_str().into()),
            ("technique", self.technique.name.into()),
            ("set", set.join(" ").into()),
            ("cores", machine.cores.into()),
            ("working_cores", working.into()),
            ("frequency", frequency.into()),
            ("load", if self.workload.is_open() { "open" } else { "closed" }.into()),
            ("instructions", sums.instructions.into()),
            ("kernel_instructions", sums.kernel_instructions.into()),
            ("uops", sums.uops.into()),
            ("requests", sums.requests.into()),
            ("unit_of_work", unit.into()),
            ("units", units.into()),
            ("duration_s", result.duration.as_s().into()),
            ("run_s", run_s.into()),
            ("ipc", (sums.instructions as f64 / (run_s * machine.clock.hz())).into()),
            ("energy_j", total_j.into()),
            ("core_energy_j", core_j.into()),
            ("working_core_energy_j", working_j.into()),
            ("energy_j_per_unit", (total_j / units as f64).into()),
            ("core_energy_j_per_unit", (working_j / units as f64).into()),
            ("core_power_w", (working_j / run_s).into()),
            ("latency_mean_us", sums.latency.mean().map(us).into()),
            ("latency_p50_us", latency(0.5)),
            ("latency_p90_us", latency(0.9)),
            ("latency_p99_us", latency(0.99)),
            ("latency_max_us", sums.latency.max().map(us).into()),
            ("stalls", sums.stalls.count().into()),
            ("stall_mean_ns", sums.stalls.mean().map(Time::as_ns).into()),
            ("memory_stall_mean_ns", sums.memory_stalls.mean().map(Time::as_ns).into()),
            ("active_share", share(CoreState::Active)),
            ("stalled_share", share(CoreState::Stalled)),
            ("idle_share", share(CoreState::Idle)),
            ("gating_share", share(CoreState::Gating)),
            ("gated_share", share(CoreState::Gated)),
            ("charging_share", share(CoreState::Charging)),
            ("restoring_share", share(CoreState::Restoring)),
            ("wakes", sums.wakes.into()),
            ("late_wakes", sums.late_wakes.into()),
            ("late_share", (sums.late.as_s() / run_s).into()),
            ("most_outstanding", sums.most_outstanding.into()),
            ("closed_form_saving", closed_form(machine, result).into()),
            ("host_s", host_s.into()),
            ("mips", (sums.instructions as f64 / host_s / 1e6).into()),
        ];
        columns.extend(kernel_columns(result, &sums));
        Table::row(columns)
    }
}

/// For tests: the machine of a prepared job.
impl Prepared {
    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine.machine
    }
}
