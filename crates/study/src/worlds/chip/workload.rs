//! Workloads: traces and generators, alone, in copies, or side by side.

use std::sync::Arc;

use halfwink_chip::{Task, Threads, MAX_CORES};
use halfwink_engine::nearest;
use halfwink_trace::{
    CodeForm, Duty, Kernel, LoadKind, Problem, Samples, Service, ServiceModel, Source, Synthetic,
    TraceError,
};
use halfwink_units::Time;

use super::service::WarmService;
use super::trace::Trace;
use crate::error::StudyError;

/// The work that a chip is given.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name as it was asked for.
    pub name: String,
    /// The parts, each on its own cores.
    pub parts: Vec<Part>,
}

/// One program, in one or more copies.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name without the number of copies.
    pub name: String,
    /// The source of its instructions.
    pub(crate) kind: WorkloadKind,
    /// Cores that run it.
    pub copies: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum WorkloadKind {
    Trace(Arc<Trace>),
    /// A recording of several threads, each on a core of its own.
    Threads(Arc<Trace>, Arc<Threads>),
    Synthetic(Synthetic),
    Service(Arc<WarmService>),
}

/// Instructions of a synthetic workload, if nothing is said.
const SYNTHETIC_INSTRUCTIONS: u64 = 5_000_000;
/// Copies of a program start this far apart, so that they do not march in step.
const STAGGER: Time = Time::ns(20_000);

impl WorkloadKind {
    /// Returns the recording, if it is one.
    pub(super) fn trace(&self) -> Option<&Arc<Trace>> {
        match self {
            WorkloadKind::Trace(trace) | WorkloadKind::Threads(trace, _) => Some(trace),
            WorkloadKind::Synthetic(_) | WorkloadKind::Service(_) => None,
        }
    }

    /// Reads the settings of a synthetic workload: `mb=64,instructions=1000000,utilisation=10`.
    pub(crate) fn synthetic(
        kernel: Kernel,
        footprint: u64,
        settings: &str,
    ) -> Result<WorkloadKind, StudyError> {
        const KEYS: [&str; 5] = ["mb", "instructions", "seed", "utilisation", "burst"];
        let mut spec = Synthetic {
            kernel,
            footprint,
            instructions: SYNTHETIC_INSTRUCTIONS,
            seed: 1,
            duty: None,
        };
        let (mut utilisation, mut burst) = (100.0, 20_000);
        for setting in settings.split(',').filter(|s| !s.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let bad = || {
                StudyError::Usage(format!("workload setting `{setting}`: expected `{key}=NUMBER`"))
            };
            let whole = || value.parse::<u64>().map_err(|_| bad());
            match key {
                // Clamped before the shift, which would lose the upper bits of a number beyond
                // 2^44.
                "mb" => spec.footprint = whole()?.clamp(1, 1 << 20) << 20,
                "instructions" => spec.instructions = whole()?,
                "seed" => spec.seed = whole()?,
                "burst" => burst = whole()?.max(1),
                "utilisation" => {
                    utilisation = value.parse().map_err(|_| bad())?;
                    if !(0.001..=100.0).contains(&utilisation) {
                        let message = format!("utilisation {value} %, expected 0.001 to 100");
                        return Err(StudyError::Usage(message));
                    }
                }
                _ => {
                    let hint = nearest(key, KEYS).unwrap_or("mb");
                    return Err(StudyError::Usage(format!(
                        "unknown workload setting `{key}`; did you mean `{hint}`?"
                    )));
                }
            }
        }
        if utilisation < 100.0 {
            // As recorded machines count: a nanosecond an instruction.
            let idle_ns = (burst as f64 * (100.0 / utilisation - 1.0)).round() as u64;
            spec.duty = Some(Duty { burst, idle_ns });
        }
        Ok(WorkloadKind::Synthetic(spec))
    }
}

/// Reads the settings of a generated service: `instructions=1000000,seed=2,warm-up=0`.
pub(crate) fn service(model: ServiceModel, settings: &str) -> Result<Service, StudyError> {
    const KEYS: [&str; 3] = ["instructions", "seed", "warm-up"];
    let (instructions, warm_up) = (SYNTHETIC_INSTRUCTIONS, Service::WARM_UP);
    let mut spec = Service { model, instructions, seed: 1, warm_up };
    for setting in settings.split(',').filter(|s| !s.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let slot = match key {
            "instructions" => &mut spec.instructions,
            "seed" => &mut spec.seed,
            "warm-up" => &mut spec.warm_up,
            _ => {
                let hint = nearest(key, KEYS).unwrap_or("instructions");
                return Err(StudyError::Usage(format!(
                    "unknown workload setting `{key}`; did you mean `{hint}`?"
                )));
            }
        };
        *slot = value.parse().map_err(|_| {
            StudyError::Usage(format!("workload setting `{setting}`: expected `{key}=NUMBER`"))
        })?;
    }
    Ok(spec)
}

/// The setting of a recording that puts each of its threads on a core of its own.
const THREADS: &str = "threads=cores";

/// Splits the setting off the name of a recording; true if it is there.
///
/// # Errors
/// If the setting has another value.
pub(crate) fn by_threads(name: &str) -> Result<(&str, bool), StudyError> {
    match name.rsplit_once(':') {
        Some((file, THREADS)) => Ok((file, true)),
        Some((_, setting)) if setting.split('=').next() == Some("threads") => {
            let message = format!("workload `{name}`: setting `{setting}`: expected `{THREADS}`");
            Err(StudyError::Usage(message))
        }
        _ => Ok((name, false)),
    }
}

/// A recording, played by threads; one that has a single thread plays as ever.
///
/// # Errors
/// If the order of its threads is not known, if there are too many of them, or if the file is
/// damaged.
pub(crate) fn threads_of(name: &str, trace: Arc<Trace>) -> Result<WorkloadKind, StudyError> {
    if let Some(samples) = &trace.header.samples {
        return Err(StudyError::Usage(format!(
            "workload `{name}`: {THREADS}: {} samples do not hold what threads waited for between \
             them; expected a recording in one piece",
            samples.begins.len()
        )));
    }
    let threads = trace.threads()?;
    let count = threads.count();
    if count == 1 {
        return Ok(WorkloadKind::Trace(trace));
    }
    if count > MAX_CORES {
        return Err(StudyError::Usage(format!(
            "workload `{name}`: {THREADS}: {count} threads, expected at most {MAX_CORES}"
        )));
    }
    if trace.header.code == CodeForm::Decoded && !threads.synchronise() {
        return Err(StudyError::Usage(format!(
            "workload `{name}`: {THREADS}: it was imported without the bytes of its instructions, \
             so that atomic ones are not known; expected a recording with them"
        )));
    }
    Ok(WorkloadKind::Threads(trace, threads))
}

impl Workload {
    /// Number of cores it needs.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.parts.iter().map(|part| part.copies).sum()
    }

    /// Instructions that all cores together will play.
    #[must_use]
    pub fn instructions(&self, limit: Option<u64>) -> u64 {
        let limit = limit.unwrap_or(u64::MAX);
        let of = |part: &Part| {
            let copies = part.copies as u64;
            match &part.kind {
                WorkloadKind::Trace(trace) => trace.totals.instructions.min(limit) * copies,
                // At most: how they are divided among the threads is not known.
                WorkloadKind::Threads(trace, _) => {
                    trace.totals.instructions.min(limit.saturating_mul(copies))
                }
                WorkloadKind::Synthetic(spec) => spec.instructions.min(limit) * copies,
                WorkloadKind::Service(service) => service.spec.instructions.min(limit) * copies,
            }
        };
        self.parts.iter().map(of).sum()
    }

    /// The run of which it holds samples, if it is a recording of some.
    pub(crate) fn samples(&self) -> Option<&Samples> {
        self.parts.first()?.kind.trace()?.header.samples.as_ref()
    }

    /// Returns whether its operating systems ever halt a core.
    pub(crate) fn halts(&self) -> bool {
        self.parts.iter().any(|part| match &part.kind {
            WorkloadKind::Trace(trace) | WorkloadKind::Threads(trace, _) => {
                trace.totals.events.contains_key("idle")
            }
            WorkloadKind::Synthetic(spec) => spec.duty.is_some(),
            WorkloadKind::Service(_) => false,
        })
    }

    /// Identifies the instructions it will play.
    #[must_use]
    pub fn identity(&self) -> String {
        let part = |part: &Part| match &part.kind {
            WorkloadKind::Trace(trace) => format!("{:016x}*{}", trace.digest, part.copies),
            WorkloadKind::Threads(trace, _) => format!("{:016x} by threads", trace.digest),
            WorkloadKind::Synthetic(spec) => format!("{spec:?}*{}", part.copies),
            WorkloadKind::Service(service) => format!("{:?}*{}", service.spec, part.copies),
        };
        self.parts.iter().map(part).collect::<Vec<_>>().join("+")
    }

    /// Returns what is counted as work: `request` if every part marks its requests.
    #[must_use]
    pub fn unit_of_work(&self) -> &'static str {
        let marks = |part: &Part| {
            part.kind.trace().is_some_and(|trace| {
                trace.header.unit_of_work == "request" && trace.totals.requests > 0
            })
        };
        // All or none: requests of one part beside instructions of another have no common unit.
        if self.parts.iter().all(marks) {
            "request"
        } else {
            "instruction"
        }
    }

    /// True if requests arrive whether or not earlier ones were answered.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.parts.iter().any(|part| load_of(part) == LoadKind::Open)
    }

    /// Checks that there are copies of a recording.
    pub(crate) fn check_copies(&self) -> Result<(), StudyError> {
        let copied = |part: &Part| part.copies > 1 && matches!(part.kind, WorkloadKind::Trace(_));
        if self.parts.iter().any(copied) {
            return Ok(());
        }
        let name = &self.name;
        let message =
            format!("memory=shared-text: `{name}`: expected copies of a recording, as nginx*4");
        Err(StudyError::Usage(message))
    }

    /// The work of each core, of which copies of a recording have in common what none ever writes.
    ///
    /// # Errors
    /// As [`Workload::tasks`].
    pub(crate) fn sharing_tasks(&self, limit: Option<u64>) -> Result<Vec<Task>, StudyError> {
        let mut tasks = self.tasks(limit)?;
        let mut rest = &mut tasks[..];
        for part in &self.parts {
            let (own, behind) = rest.split_at_mut(part.copies);
            rest = behind;
            if let WorkloadKind::Trace(trace) = &part.kind {
                let lines = trace.shared_lines()?;
                own.iter_mut().for_each(|task| task.shared = Some(Arc::clone(&lines)));
            }
        }
        Ok(tasks)
    }

    /// The work of each core.
    ///
    /// # Errors
    /// If a trace holds nothing, or its warm set is damaged.
    pub fn tasks(&self, limit: Option<u64>) -> Result<Vec<Task>, StudyError> {
        let mut tasks: Vec<Task> = Vec::new();
        for part in &self.parts {
            let file = part.kind.trace().map(|trace| trace.file()).transpose()?;
            let warm = match (&part.kind, &file) {
                (WorkloadKind::Service(service), _) => service.warm(),
                (_, Some(file)) => {
                    if file.footer().totals.instructions == 0 {
                        let error = TraceError::at(0, Problem::NoInstructions);
                        return Err(match file.path() {
                            Some(path) => error.in_file(path).into(),
                            None => error.into(),
                        });
                    }
                    Arc::new(file.warm()?)
                }
                (_, None) => Arc::default(),
            };
            for copy in 0..part.copies {
                let mut thread = None;
                let source: Box<dyn Source> = match (&part.kind, &file) {
                    (WorkloadKind::Synthetic(spec), _) => Box::new(spec.source()),
                    (WorkloadKind::Service(service), _) => Box::new(service.source()),
                    (WorkloadKind::Threads(_, threads), Some(file)) => {
                        let (source, one) = threads.thread(copy, file.stream());
                        thread = Some(one);
                        source
                    }
                    (_, Some(file)) => Box::new(file.stream()),
                    (WorkloadKind::Trace(trace) | WorkloadKind::Threads(trace, _), None) => {
                        Box::new(trace.file()?.stream())
                    }
                };
                tasks.push(Task {
                    source,
                    warm: Arc::clone(&warm),
                    load: load_of(part),
                    limit: limit.unwrap_or(u64::MAX),
                    // By the number of all tasks, not of the copies: parts side by side are
                    // staggered as well. Threads begin when one of them begins another.
                    start: if thread.is_some() { Time::ZERO } else { STAGGER * tasks.len() as u64 },
                    shared: None,
                    thread,
                });
            }
        }
        Ok(tasks)
    }
}

fn load_of(part: &Part) -> LoadKind {
    match &part.kind {
        WorkloadKind::Trace(trace) | WorkloadKind::Threads(trace, _) => {
            trace.header.load.as_ref().map_or(LoadKind::Closed, |load| load.kind)
        }
        // Bursts come on their own schedule.
        WorkloadKind::Synthetic(spec) if spec.duty.is_some() => LoadKind::Open,
        WorkloadKind::Synthetic(_) | WorkloadKind::Service(_) => LoadKind::Closed,
    }
}
