//! One technique on one workload on one machine.

use std::time::Instant;

use halfwink_chip::{run, CodeCache, CoreResult, Machine, Options, RunResult};
use halfwink_engine::{Histogram, RunControl};
use halfwink_power::CoreState;
use halfwink_units::Time;
use xxhash_rust::xxh3::xxh3_64;

use crate::closed_form::closed_form;
use crate::error::StudyError;
use crate::library::{Library, MachineInfo};
use crate::registry::{technique, Plan, Technique};
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
        if workload.cores() > machine.machine.cores {
            return Err(StudyError::Usage(format!(
                "workload `{}` needs {} cores, machine `{}` has {}",
                workload.name,
                workload.cores(),
                machine.name,
                machine.machine.cores
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
            timeline: timeline_table(&result),
        })
    }

    /// The run that counts: at which share of the frequency, on which machine.
    fn chosen(
        &self,
        machine: &Machine,
        control: &RunControl,
    ) -> Result<(f64, Machine, RunResult), StudyError> {
        let full = self.play(machine, control)?;
        let points = &machine.dvfs.frequencies;
        match self.technique.plan {
            Plan::Once => Ok((1.0, machine.clone(), full)),
            Plan::LeastEnergyDelay => {
                let mut best = (1.0, machine.clone(), full);
                for &share in &points[1..] {
                    let slower = machine.clone().at_frequency(share);
                    let result = self.play(&slower, control)?;
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
                        let result = self.play(&slower, control)?;
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

    fn play(&self, machine: &Machine, control: &RunControl) -> Result<RunResult, StudyError> {
        let tasks = self.workload.tasks(self.job.instructions)?;
        let policy = |core: usize| (self.technique.build)(machine, core);
        let window = self.job.timeline_ns;
        let options = Options {
            policy: &policy,
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
        let core_j = result.books.energy_where(|name| name.starts_with("core")).as_j();
        let working = result.cores.len();
        let working_j = working_energy(result);
        let latency = |q: f64| Value::from(sums.latency.quantile(q).map(us));
        let set: Vec<String> = self.job.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let run_s = sums.run.as_s();
        let share = |state: CoreState| Value::from(sums.residency[state as usize].as_s() / run_s);
        Table::row(vec![
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
        ])
    }
}

fn us(time: Time) -> f64 {
    time.as_ns() * 1e-3
}

/// Totals over the cores that had work.
struct Sums {
    instructions: u64,
    kernel_instructions: u64,
    uops: u64,
    requests: u64,
    latency: Histogram,
    stalls: Histogram,
    memory_stalls: Histogram,
    residency: [Time; CoreState::ALL.len()],
    run: Time,
    wakes: u64,
    late_wakes: u64,
    late: Time,
    most_outstanding: u64,
}

impl Sums {
    fn of(result: &RunResult) -> Sums {
        let mut sums = Sums {
            instructions: 0,
            kernel_instructions: 0,
            uops: 0,
            requests: 0,
            latency: Histogram::default(),
            stalls: Histogram::default(),
            memory_stalls: Histogram::default(),
            residency: Default::default(),
            run: Time::ZERO,
            wakes: 0,
            late_wakes: 0,
            late: Time::ZERO,
            most_outstanding: 0,
        };
        for core in &result.cores {
            sums.add(core);
        }
        sums
    }

    fn add(&mut self, core: &CoreResult) {
        self.instructions += core.work.instructions.iter().sum::<u64>();
        self.kernel_instructions += core.work.instructions[1];
        self.uops += core.work.uops.iter().sum::<u64>();
        self.requests += core.requests;
        self.latency.add(&core.latency);
        self.stalls.add(&core.stalls);
        self.memory_stalls.add(&core.memory_stalls);
        for (sum, time) in self.residency.iter_mut().zip(core.residency) {
            *sum += time;
        }
        self.run += core.finished - core.started;
        self.wakes += core.wakes;
        self.late_wakes += core.late_wakes;
        self.late += core.late;
        let outstanding = u64::from(core.caches.most_outstanding);
        self.most_outstanding = self.most_outstanding.max(outstanding);
    }
}

/// Energy of the cores that had work, in joules.
fn working_energy(result: &RunResult) -> f64 {
    let working = result.cores.len();
    let is_working = |name: &str| {
        name.strip_prefix("core").and_then(|n| n.parse().ok()).is_some_and(|n: usize| n < working)
    };
    result.books.energy_where(is_working).as_j()
}

fn ledger_table(result: &RunResult) -> Table {
    let mut table = Table::new(&["component", "state", "mode", "cause", "time_s", "energy_j"]);
    for (component, state, cause, row) in result.books.named_rows() {
        table.push(vec![
            component.into(),
            state.0.into(),
            cause.mode.name().into(),
            cause.reason.into(),
            row.time.as_s().into(),
            row.energy.as_j().into(),
        ]);
    }
    table
}

fn counter_table(result: &RunResult) -> Table {
    let mut table = Table::new(&["component", "counter", "user", "kernel"]);
    let mut push = |component: &str, counter: &str, [user, kernel]: [u64; 2]| {
        table.push(vec![component.into(), counter.into(), user.into(), kernel.into()]);
    };
    for (n, core) in result.cores.iter().enumerate() {
        let name = format!("core{n}");
        let (caches, branches) = (&core.caches, &core.branches);
        for (counter, values) in [
            ("instructions", core.work.instructions),
            ("uops", core.work.uops),
            ("l1i.accesses", caches.l1i_accesses),
            ("l1i.misses", caches.l1i_misses),
            ("l1d.accesses", caches.l1d_accesses),
            ("l1d.misses", caches.l1d_misses),
            ("l2.accesses", caches.l2_accesses),
            ("l2.misses", caches.l2_misses),
            ("branches", branches.predicted),
            ("branches.mispredicted", branches.mispredicted),
        ] {
            push(&name, counter, values);
        }
    }
    push("l3", "accesses", result.l3.accesses);
    push("l3", "misses", result.l3.misses);
    push("memory", "reads", result.memory.reads);
    push("memory", "writes", result.memory.writes);
    push("memory", "activates", result.memory.activates);
    table
}

fn histogram_table(result: &RunResult) -> Table {
    let sums = Sums::of(result);
    let mut table = Table::new(&["histogram", "from_ns", "to_ns", "count"]);
    for (name, histogram) in
        [("stall", &sums.stalls), ("memory-stall", &sums.memory_stalls), ("latency", &sums.latency)]
    {
        for bucket in histogram.log_buckets(4) {
            let row = vec![
                name.into(),
                bucket.from.as_ns().into(),
                bucket.to.as_ns().into(),
                bucket.count.into(),
            ];
            table.push(row);
        }
    }
    table
}

fn timeline_table(result: &RunResult) -> Table {
    let mut table = Table::new(&["component", "state", "start_ns", "end_ns"]);
    for (n, core) in result.cores.iter().enumerate() {
        for (state, start, end) in core.timeline.iter().flat_map(|t| &t.spans) {
            table.push(vec![
                format!("core{n}").into(),
                state.name().into(),
                start.as_ns().into(),
                end.as_ns().into(),
            ]);
        }
    }
    table
}

/// For tests: the machine of a prepared job.
impl Prepared {
    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine.machine
    }
}
