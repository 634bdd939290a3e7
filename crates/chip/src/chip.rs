//! Running a chip: cores go on independently until they must hear from what they share, and what
//! they share serves them in the order of time.

use std::sync::Arc;

use halfwink_engine::{Closed, Histogram, Interrupted, RunControl};
use halfwink_policy::gating::GatingPolicy;
use halfwink_policy::offload::OffloadPolicy;
use halfwink_policy::wake_up::Event;
use halfwink_trace::{LoadKind, Program, Source, TraceError, WarmSet};
use halfwink_units::Time;

use crate::account::UnitCounts;
use crate::books::{self, BooksError};
use crate::branch::BranchCounts;
use crate::core::{Core, CoreError, CoreInput, Departure, Thread};
use crate::dram::DramCounts;
use crate::feed::{line_of, Feed, WorkCounts};
use crate::gate::Residency;
use crate::machine::{Machine, MAX_CORES};
use crate::os_cores::{os_core_of, Calls, OsThread, Traffic};
use crate::private::CacheCounts;
use crate::private::Warm;
use crate::timeline::Timeline;
use crate::uncore::{Held, L3Counts, Uncore};
use crate::uop::Code;
use crate::wake_up::WakeUpController;

/// Work for one core.
pub struct Task {
    /// Its instructions.
    pub source: Box<dyn Source>,
    /// Lines in its caches before it starts.
    pub warm: Arc<WarmSet>,
    /// How its requests arrive.
    pub load: LoadKind,
    /// Instructions to play at most.
    pub limit: u64,
    /// When its core begins.
    pub start: Time,
}

/// How to run a chip.
pub struct Options<'a> {
    /// Makes the gating policy of each core; OS cores come behind the others.
    pub policy: &'a dyn Fn(usize) -> GatingPolicy,
    /// Makes the policy that decides where kernel entries of a task run. Without one they run where
    /// they are, and the machine needs no OS cores.
    pub offload: Option<&'a dyn Fn(usize) -> OffloadPolicy>,
    /// Cores carry retention cells, which leak a little while they are on.
    pub retention: bool,
    /// Part of the run whose states are kept for a picture.
    pub timeline: Option<(Time, Time)>,
}

/// A run ended early.
#[derive(Debug, thiserror::Error)]
pub enum ChipError {
    /// A trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// More work than cores.
    #[error("{tasks} workloads for {cores} cores")]
    TooManyTasks {
        /// Pieces of work.
        tasks: usize,
        /// Cores of the machine.
        cores: usize,
    },
    /// No instruction was given.
    #[error("the workload holds no instructions")]
    NoWork,
    /// The outside asked for it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A policy or a pipeline did the impossible.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The accounts do not balance.
    #[error(transparent)]
    Books(#[from] BooksError),
}

/// What one core did.
#[derive(Clone, Debug)]
pub struct CoreResult {
    /// Instructions.
    pub work: WorkCounts,
    /// Caches.
    pub caches: CacheCounts,
    /// Branches.
    pub branches: BranchCounts,
    /// Functional units.
    pub units: UnitCounts,
    /// Requests completed, and how long they took.
    pub requests: u64,
    /// Latencies of requests.
    pub latency: Histogram,
    /// Lengths of all stalls on the shared levels.
    pub stalls: Histogram,
    /// Lengths of those that memory ended.
    pub memory_stalls: Histogram,
    /// Time in each power state, as [`halfwink_power::CoreState::ALL`].
    pub residency: Residency,
    /// Wake-ups from the gated state.
    pub wakes: u64,
    /// Wake-ups that were late, and by how much together.
    pub late_wakes: u64,
    /// Time by which responses waited for the core.
    pub late: Time,
    /// When its work began.
    pub started: Time,
    /// When its work was done.
    pub finished: Time,
    /// Its states, if they were asked for.
    pub timeline: Option<Timeline>,
    /// Kernel invocations of the task that began here, if a policy watched them.
    pub calls: Calls,
}

/// What the chip did.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Time and energy, balanced.
    pub books: Closed,
    /// Cores that had work, in order.
    pub cores: Vec<CoreResult>,
    /// Cores that were set aside for the kernel.
    pub os_cores: Vec<CoreResult>,
    /// The shared cache.
    pub l3: L3Counts,
    /// Memory.
    pub memory: DramCounts,
    /// Until the last core was done.
    pub duration: Time,
}

/// Micro-operations of programs, shared by the cores that run the same.
#[derive(Default)]
pub struct CodeCache {
    known: Vec<(Arc<Program>, Arc<Code>)>,
}

impl CodeCache {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> CodeCache {
        CodeCache::default()
    }

    fn compile(&mut self, program: &Arc<Program>) -> Arc<Code> {
        if let Some((_, code)) = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, program)) {
            return Arc::clone(code);
        }
        let code = Arc::new(Code::compile(program));
        self.known.push((Arc::clone(program), Arc::clone(&code)));
        code
    }
}

/// Runs tasks on the first cores of a machine until all are done: one each, or in turns if there
/// are more and the machine has time slices.
///
/// # Errors
/// See [`ChipError`].
pub fn run(
    machine: &Machine,
    tasks: Vec<Task>,
    options: &Options<'_>,
    codes: &mut CodeCache,
    control: &RunControl,
) -> Result<RunResult, ChipError> {
    let mut chip = Chip::new(machine, tasks, options, codes)?;
    chip.play(control)?;
    chip.finish(machine, options.retention)
}

pub(crate) struct Chip {
    /// Those of the tasks, then those for the kernel.
    pub(crate) cores: Vec<Core>,
    pub(crate) uncore: Uncore,
    /// Threads on their way from core to core.
    pub(crate) traffic: Option<Traffic>,
    wake_up: Option<WakeUpController>,
    /// From anything that a core does until another can notice.
    pub(crate) shortest_access: Time,
    /// How far a core may run ahead in one turn: far enough to be worth the turn, near enough that
    /// progress and interruption do not wait. Results do not depend on it.
    pub(crate) quantum: Time,
}

/// Turns of the main loop between two reports.
pub(crate) const REPORT_EVERY: u32 = 1 << 14;

impl Chip {
    pub(crate) fn new(
        machine: &Machine,
        tasks: Vec<Task>,
        options: &Options<'_>,
        codes: &mut CodeCache,
    ) -> Result<Chip, ChipError> {
        let shares = options.offload.is_some() && machine.os.time_slice > Time::ZERO;
        if tasks.len() > if shares { MAX_CORES } else { machine.cores } {
            return Err(ChipError::TooManyTasks { tasks: tasks.len(), cores: machine.cores });
        }
        let mut uncore = Uncore::new(machine);
        let mut cores = Vec::with_capacity(tasks.len());
        let mut warm = Vec::with_capacity(tasks.len());
        let users = tasks.len().min(machine.cores);
        let slice = (tasks.len() > users).then_some(machine.os.time_slice);
        let mut wait = Vec::new();
        let timeline = options.timeline.map(|(from, until)| Timeline::new(from, until));
        for (n, task) in tasks.into_iter().enumerate() {
            let code = codes.compile(task.source.program());
            let mut feed = Feed::new(task.source, code, n, task.limit);
            feed.os = options.offload.map(|policy| {
                let mut thread = OsThread::new(policy(n), n % users);
                thread.slice = slice;
                Box::new(thread)
            });
            warm.push(task.warm);
            let mut thread = Thread::new(feed, task.load);
            if n >= users {
                thread.left = (task.start, Departure::Sleeps(task.start));
                wait.push(thread);
                continue;
            }
            let input = CoreInput {
                thread: Some(thread),
                shares: options.offload.is_some(),
                policy: (options.policy)(n),
                start: task.start,
                timeline: timeline.clone(),
            };
            cores.push(Core::new(machine, n, input)?);
        }
        let os_cores = if options.offload.is_some() { machine.os.cores } else { 0 };
        for n in users..users + os_cores {
            let input = CoreInput {
                thread: None,
                shares: true,
                policy: (options.policy)(n),
                start: Time::ZERO,
                timeline: timeline.clone(),
            };
            cores.push(Core::new(&machine.os_core(), n, input)?);
        }
        let traffic = options.offload.map(|_| Traffic::new(users, os_cores, wait));
        warm_up(&mut cores, users, &mut uncore, &warm);
        let wake_up = machine.central_wake_up(cores.len());
        let wake_up = wake_up.map(|c| WakeUpController::new(c, machine.wake_up.delay));
        let shortest_access = cores.iter().map(Core::shortest_message).min().unwrap_or(Time::ZERO);
        Ok(Chip { cores, uncore, traffic, wake_up, shortest_access, quantum: Time::ns(100_000) })
    }

    pub(crate) fn play(&mut self, control: &RunControl) -> Result<(), ChipError> {
        if self.traffic.is_some() {
            return self.play_traffic(control);
        }
        let mut turns = 0u32;
        loop {
            turns += 1;
            if turns.is_multiple_of(REPORT_EVERY) {
                control.report(self.instructions())?;
            }
            // The core that is furthest behind, and the earliest time at which it could ask for
            // something. Requests before that are final.
            let (behind, earliest) = self
                .cores
                .iter()
                .enumerate()
                .map(|(n, core)| (n, core.next_request()))
                .min_by_key(|&(_, at)| at)
                .expect("a chip that runs has a core");
            if self.next_message() < earliest {
                self.serve(earliest);
            } else if self.cores[behind].is_finished() {
                return Ok(());
            } else {
                self.advance(behind)?;
            }
        }
    }

    /// When the next request or message reaches what the cores share.
    fn next_message(&self) -> Time {
        let wake_up = self.wake_up.as_ref().map_or(Time::NEVER, WakeUpController::next_time);
        self.uncore.next_time().min(wake_up)
    }

    /// Serves all requests and messages before `earliest`.
    fn serve(&mut self, earliest: Time) {
        if let Some(controller) = &mut self.wake_up {
            while controller.next_time() < earliest {
                if let Some(grant) = controller.serve() {
                    self.cores[grant.core].gate.hear_grant(grant.at, grant.wake_up);
                }
            }
        }
        while self.uncore.next_time() < earliest {
            if let Some(answer) = self.uncore.serve(|_| Held::No) {
                self.cores[answer.core].hear(answer);
            }
        }
    }

    fn advance(&mut self, n: usize) -> Result<(), ChipError> {
        let now = self.cores[n].next_request();
        self.cores[n].advance(now.saturating_add(self.quantum), &mut self.uncore)?;
        if let (Some(controller), Some(report)) =
            (&mut self.wake_up, &mut self.cores[n].gate.report)
        {
            for (at, gated) in report.unsent.drain(..) {
                controller.tell(at, if gated { Event::Gated(n) } else { Event::Awake(n) });
            }
        }
        match self.cores[n].fail_of_source() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    pub(crate) fn instructions(&self) -> u64 {
        let of = |core: &Core| core.common().feed.work.instructions.iter().sum::<u64>();
        self.cores.iter().map(of).sum()
    }

    pub(crate) fn finish(
        mut self,
        machine: &Machine,
        retention: bool,
    ) -> Result<RunResult, ChipError> {
        if self.instructions() == 0 {
            return Err(ChipError::NoWork);
        }
        let traffic = self.traffic.take();
        let users = traffic.as_ref().map_or(self.cores.len(), |traffic| traffic.users);
        for ended in traffic.map(Traffic::end).into_iter().flatten() {
            self.cores[ended.home(0)].end(ended);
        }
        let ends =
            self.cores.iter().map(|c| c.finished.unwrap_or(Time::ZERO).max(c.vacant_since()));
        let duration = ends.max().unwrap_or(Time::ZERO);
        for core in &mut self.cores {
            core.close(duration)?;
        }
        let books = books::close(machine, &self.cores, users, &self.uncore, retention, duration)?;
        let mut cores: Vec<CoreResult> = self.cores.into_iter().map(result).collect();
        let os_cores = cores.split_off(users);
        let (l3, memory) = (self.uncore.counts, self.uncore.dram.counts);
        Ok(RunResult { books, l3, memory, duration, cores, os_cores })
    }
}

fn result(core: Core) -> CoreResult {
    let common = core.common();
    CoreResult {
        work: common.feed.work,
        caches: common.private.counts,
        branches: common.predictor.counts,
        units: common.feed.units,
        requests: core.baggage.requests.completed,
        latency: core.baggage.requests.latency,
        calls: core.calls,
        stalls: core.stalls,
        memory_stalls: core.memory_stalls,
        residency: core.gate.residency,
        wakes: core.gate.wakes,
        late_wakes: core.late_wakes,
        late: core.late,
        started: core.started,
        finished: core.finished.unwrap_or(Time::ZERO),
        timeline: core.gate.timeline,
    }
}

/// Fills all caches as the programs left them, taking turns so that the shared cache is shared.
/// What the kernel used is in the caches of its cores too, and in none of them to be written.
fn warm_up(cores: &mut [Core], users: usize, uncore: &mut Uncore, warm: &[Arc<WarmSet>]) {
    let longest = warm.iter().map(|set| set.lines.len()).max().unwrap_or(0);
    let (cores, os_cores) = cores.split_at_mut(users);
    for back in (1..=longest).rev() {
        for (n, set) in warm.iter().enumerate() {
            let Some(index) = set.lines.len().checked_sub(back) else { continue };
            let entry = set.lines[index];
            let line = line_of(n, entry.line.0);
            let shared = entry.kernel && !os_cores.is_empty();
            let home = n % users;
            cores[home].warm(line, Warm { dirty: entry.dirty && !shared, shared, ..entry.into() });
            if shared {
                let os_core = &mut os_cores[os_core_of(home, os_cores.len())];
                os_core.warm(line, Warm { dirty: false, shared, ..entry.into() });
            }
            uncore.warm(line, entry.dirty, entry.kernel);
        }
    }
}
