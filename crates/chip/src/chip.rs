//! Running a chip: cores go on independently until they must hear from outside, and what they share
//! serves them in the order of time.

mod check;
mod options;

use std::sync::Arc;

use halfwink_engine::{Interrupted, RunControl};
use halfwink_power::Lost;
use halfwink_trace::{Program, Source, TraceError};
use halfwink_units::{Clock, Time};

pub use self::options::Options;
use crate::accounting::{Accountant, AccountingError, EnergyParts};
use crate::agent::Agent;
use crate::core::{Core, CoreError, CoreInput, Message, Policies, Shared, Thread};
use crate::engine::Engine;
use crate::faults::Broken;
use crate::followers::{can_be_followed, follow_core, Follower, Followers};
use crate::front_end::FrontEnd;
use crate::lines::{memory_of, Memories};
use crate::machine::{Machine, MAX_CORES};
use crate::os_cores::{Departure, OsThread};
use crate::precision::{Slices, Sums};
use crate::progress::{Progress, Reached};
use crate::result::{result, CoreResult, RunResult};
use crate::scheduler::Scheduler;
use crate::task::Task;
use crate::threads::{Board, Contended};
use crate::timeline::Timeline;
use crate::uncore::{Request, Served, SnoopResult, Uncore, Want};
use crate::uop::Code;
use crate::wake_up::WakeUpController;
use crate::warm_up::warm_up;

/// A run ended early.
#[derive(Debug, thiserror::Error)]
pub enum ChipError {
    /// A trace is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// More work than cores.
    #[error("{tasks} workloads for {cores} cores")]
    TooManyTasks {
        /// Number of tasks.
        tasks: usize,
        /// Cores of the machine.
        cores: usize,
    },
    /// No instruction was given.
    #[error("the workload holds no instructions")]
    NoWork,
    /// The third level is lost while others may need it.
    #[error("gating.loses: \"l3\" is shared: it is lost only where one core alone has work")]
    SharedLoss,
    /// Cores that share memory look into each other's caches only where threads are watched.
    #[error("one memory for all threads: expected a technique that watches the kernel")]
    Unwatched,
    /// A window cannot begin with what other caches held.
    #[error("the caches were warmed for a machine whose caches have another shape")]
    OtherCaches,
    /// The outside asked for it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A policy or a pipeline did the impossible.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// An invariant was violated under faults of this seed.
    #[error("seed {0}: {1}")]
    Broken(u64, Broken),
    /// The accounts do not balance.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

/// Micro-operations of programs, shared by the cores that run the same.
#[derive(Default)]
pub struct CodeCache {
    known: Vec<(Arc<Program>, Arc<Code>)>,
}

impl CodeCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> CodeCache {
        CodeCache::default()
    }

    pub(crate) fn compile(&mut self, program: &Arc<Program>) -> Arc<Code> {
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
    let mut chip = Chip::new(machine, tasks, options, &[], codes)?;
    chip.play(control)?;
    Ok(chip.finish()?.0)
}

pub(crate) struct Chip<'a> {
    clock: Clock,
    /// Seed of the faults, if any are enabled.
    fault_seed: Option<u64>,
    pub(crate) accountant: Accountant<'a>,
    /// Cores of the tasks, then those for the kernel.
    pub(crate) cores: Vec<Core>,
    pub(crate) shared: Shared,
    /// Scheduler, if threads move from core to core, and cores share lines.
    scheduler: Option<Scheduler>,
    /// Agents that are no core.
    pub(crate) engine: Engine,
    /// A core without a thread may have caches to write back.
    loses: bool,
    /// Shortest time from an act of a core until another part can notice it.
    shortest_message: Time,
    /// Longest time that a core may run ahead in one turn: long enough to be worth the turn, short
    /// enough that progress and interruption do not wait. Results do not depend on it.
    pub(crate) quantum: Time,
    watch: Watch,
    slices: Slices,
    followers: Followers<'a>,
    /// All cores come to this time before any goes on.
    stop: Time,
}

/// Tells when the outside should be heard again. What a turn of the main loop costs the host is
/// between nothing and a whole quantum: a core that waits for memory takes short turns, one that
/// never leaves its caches takes none but long ones. So both turns and the time simulated in them
/// count, and neither alone would do.
#[derive(Debug, Default)]
struct Watch {
    turns: u32,
    simulated: Time,
}

impl Watch {
    /// Turns, and time summed over the cores, after which a look is due: milliseconds of the host.
    const TURNS: u32 = 1 << 14;
    const SIMULATED: Time = Time::ns(20_000);

    /// Counts a turn of the main loop; true if the outside should be heard now.
    fn is_due(&mut self) -> bool {
        self.turns += 1;
        let due = self.turns >= Watch::TURNS || self.simulated >= Watch::SIMULATED;
        if due {
            *self = Watch::default();
        }
        due
    }
}

/// Rejects impossible combinations of machine, tasks and options.
fn refuse(machine: &Machine, tasks: &[Task], options: &Options<'_>) -> Result<(), ChipError> {
    let in_common = machine.os.one_memory || tasks.iter().any(|task| task.shared.is_some());
    let tasks = tasks.len();
    let shares = options.offload.is_some() && machine.os.time_slice > Time::ZERO;
    if tasks > if shares { MAX_CORES } else { machine.cores } {
        return Err(ChipError::TooManyTasks { tasks, cores: machine.cores });
    }
    if in_common && options.offload.is_none() {
        return Err(ChipError::Unwatched);
    }
    if machine.gating.loses(Lost::L3) && (tasks > 1 || options.offload.is_some()) {
        return Err(ChipError::SharedLoss);
    }
    Ok(())
}

/// Moves strings as the machine does, and makes changes of privilege visible if calls may be
/// offloaded.
fn seen(front_end: FrontEnd, machine: &Machine, options: &Options<'_>) -> FrontEnd {
    let front_end = front_end.with_strings(machine.core.strings);
    if options.offload.is_some() {
        front_end.showing_crossings()
    } else {
        front_end
    }
}

/// Creates a core that is set aside for the kernel.
fn os_core(
    machine: &Machine,
    options: &Options<'_>,
    n: usize,
    timeline: Option<Timeline>,
) -> Result<Core, CoreError> {
    let machine = machine.os_core();
    let policies = Policies::of(&machine, options, n);
    Core::new(&machine, n, CoreInput::vacant(policies, timeline))
}

/// Watches the kernel entries of a thread, by its number and home, if they may move or it may take
/// turns of a `slice`.
fn watched(
    machine: &Machine,
    options: &Options<'_>,
    (thread, home): (usize, usize),
    slice: Option<Time>,
) -> Option<Box<OsThread>> {
    let policy = options.offload?(thread);
    let mut os = OsThread::on(machine, policy, home);
    os.slice = slice;
    Some(Box::new(os))
}

impl<'a> Chip<'a> {
    pub(crate) fn new(
        machine: &'a Machine,
        tasks: Vec<Task>,
        options: &Options<'_>,
        followers: &[Follower<'a>],
        codes: &mut CodeCache,
    ) -> Result<Chip<'a>, ChipError> {
        refuse(machine, &tasks, options)?;
        let memories = Memories::of(machine, &tasks);
        let board = Board::of(tasks.iter().map(|task| task.thread.as_ref()));
        let mut uncore = Uncore::new(machine);
        uncore.contended = board.as_ref().map(|_| Contended::default());
        let (mut cores, mut wait) = (Vec::new(), Vec::new());
        let mut warm = Vec::with_capacity(tasks.len());
        let users = tasks.len().min(machine.cores);
        let slice = (tasks.len() > users).then_some(machine.os.time_slice);
        let timeline = options.timeline.map(|(from, until)| Timeline::new(from, until));
        let followers = if can_be_followed(machine, options) { followers } else { &[] };
        for (n, task) in tasks.into_iter().enumerate() {
            let code = codes.compile(task.source.program());
            let front_end = memories.place(n, FrontEnd::new(task.source, code, n, task.limit));
            let front_end = seen(front_end, machine, options).taking_turns(task.thread);
            let mut thread = Thread::new(front_end, task.load);
            thread.context.os = watched(machine, options, (n, n % users), slice);
            warm.push(task.warm);
            if n >= users {
                thread.left = (task.start, Departure::Sleeps(task.start));
                wait.push(thread);
                continue;
            }
            let input = CoreInput {
                thread: Some(thread),
                shares: options.offload.is_some(),
                policies: Policies::of(machine, options, n),
                segregated: options.segregated.as_ref(),
                followers: follow_core(followers, n),
                start: task.start,
                timeline: timeline.clone(),
            };
            cores.push(Core::new(machine, n, input)?);
        }
        let os_cores = options.offload.map_or(0, |_| machine.os.cores);
        for n in users..users + os_cores {
            cores.push(os_core(machine, options, n, timeline.clone())?);
        }
        let apart = if memories.meet() { 1 } else { users };
        let scheduler = options.offload.map(|_| Scheduler::new(machine, users, apart, wait, board));
        warm_up(&mut cores, users, &memories, &mut uncore, &warm);
        cores.iter_mut().for_each(Core::begin_losses);
        let wake_up = WakeUpController::of(machine, users, options.wake_up);
        let shortest_message = cores.iter().map(Core::shortest_message).min().unwrap_or(Time::ZERO);
        Ok(Chip {
            clock: machine.clock,
            fault_seed: machine.faults.any().then_some(machine.faults.seed),
            accountant: Accountant::new(machine, users, options.retention),
            slices: Slices::new(),
            followers: Followers::new(followers, users),
            stop: Time::NEVER,
            shared: Shared { uncore, wake_up },
            engine: Engine::default(),
            loses: cores.iter().any(Core::loses),
            cores,
            scheduler,
            shortest_message,
            quantum: Watch::SIMULATED,
            watch: Watch::default(),
        })
    }

    /// Runs until all work is done. In each round something happens whose time has certainly come:
    /// a message is served, a thread arrives, or else the core that is furthest behind goes on.
    pub(crate) fn play(&mut self, control: &RunControl) -> Result<(), ChipError> {
        self.play_to(Time::NEVER, control).map(|_| ())
    }

    /// Plays until all cores have come to `stop`; returns false if all work was done before.
    pub(crate) fn play_to(&mut self, stop: Time, control: &RunControl) -> Result<bool, ChipError> {
        self.stop = stop;
        loop {
            self.look_up(control)?;
            let progress = Progress::of(&self.cores, self.shared.uncore.memory.undecided());
            // What is served waits in inboxes: it moves no core. But who waits knows better when it
            // goes on, and so what else is final.
            if self.serve(&progress) || self.schedule(&progress) {
                continue;
            }
            match progress.behind {
                Some(core) if self.loses && self.is_over(core.local) => return Ok(false),
                Some(core) if core.local >= self.slices.next() && !self.is_vacant(core) => {
                    self.end_slice(core.local)?;
                }
                Some(core) if core.local >= self.stop => return Ok(true),
                Some(core) => self.turn(core, &progress)?,
                None => return Ok(false),
            }
        }
    }

    /// Returns whether the core has no thread: its next event then only concerns its power, and
    /// ends no slice.
    fn is_vacant(&self, core: Reached) -> bool {
        self.loses && self.cores[core.core].is_vacant()
    }

    /// Returns whether only timers of cores without threads remain, from `next` on.
    fn is_over(&self, next: Time) -> bool {
        let is_idle = |c: &Core| c.is_vacant() && !c.is_flushing() || c.finished.is_some();
        self.next_arrival() == Time::NEVER
            && self.cores.iter().all(|core| is_idle(core) && core.departure.is_none())
            && next >= self.end()
    }

    /// Returns the time at which the last core finishes its work.
    fn end(&self) -> Time {
        let ends =
            self.cores.iter().map(|c| c.finished.unwrap_or(Time::ZERO).max(c.vacant_since()));
        ends.max().unwrap_or(Time::ZERO)
    }

    /// Shows the outside how far the run is, and asks whether it shall go on, every now and then.
    fn look_up(&mut self, control: &RunControl) -> Result<(), Interrupted> {
        if self.watch.is_due() {
            control.report(self.instructions())?;
        }
        Ok(())
    }

    /// Returns the time at which the next thread arrives at a core.
    fn next_arrival(&self) -> Time {
        self.scheduler.as_ref().map_or(Time::NEVER, Scheduler::next_time)
    }

    /// Serves the messages at the shared levels and the controller that are final; true if the core
    /// that is furthest behind heard of memory.
    #[inline]
    fn serve(&mut self, progress: &Progress) -> bool {
        // A thread that arrives can make its core send something too.
        let arrival = self.next_arrival();
        let earliest = progress.message().min(arrival.saturating_add(self.shortest_message));
        if let Some(controller) = &mut self.shared.wake_up {
            while controller.next_time() < earliest {
                if let Some(grant) = controller.serve() {
                    self.cores[grant.core].receive(grant.at, Message::Grant(grant.wake_up));
                }
            }
        }
        let uncore = &mut self.shared.uncore;
        let Some(scheduler) = &self.scheduler else {
            while uncore.next_time() < earliest {
                let cores = &mut self.cores;
                // A device looks into all caches, as they are at its time.
                let devices = uncore.next_agent() == Some(Agent::DEVICE);
                if devices && uncore.next_time() > progress.reached() {
                    break;
                }
                let found = |request: &Request, waiting| match request.agent {
                    Agent::DEVICE => {
                        let memories = cores.len();
                        snoop(cores, memories, request, waiting)
                    }
                    _ => SnoopResult::Miss,
                };
                if let Some(served) = uncore.serve(found) {
                    hand_over(&mut self.cores, &mut self.engine, served);
                }
            }
            return self.run_memory(earliest, progress);
        };
        // A request must find the caches of other cores as they are at its time, with all that is
        // done at that very time, whoever was simulated first. The core that asks has come past it
        // too: until then it may still send a request that arrives before, or do what gives
        // another core a thread.
        while uncore.next_time() < progress.reached() && uncore.next_time() <= arrival {
            let cores = &mut self.cores;
            let memories = scheduler.memories;
            if let Some(served) = uncore.serve(|r, waiting| snoop(cores, memories, r, waiting)) {
                hand_over(&mut self.cores, &mut self.engine, served);
            }
        }
        self.run_memory(earliest, progress)
    }

    /// Lets memory decide what is final, if no core can still send a message that arrives before
    /// `earliest`, and tells the cores; true if the one that is furthest behind hears. At the end
    /// of a slice, which no core passes before the others, memory has come exactly as far as they.
    #[inline]
    fn run_memory(&mut self, earliest: Time, progress: &Progress) -> bool {
        let uncore = &mut self.shared.uncore;
        uncore.run_memory(earliest, self.slices.next().min(self.stop));
        let behind = progress.behind.map(|behind| behind.core);
        let mut told = false;
        let (cores, engine) = (&mut self.cores, &mut self.engine);
        uncore.memory.tell(|news| match news.agent().number() {
            Some(core) => {
                told |= Some(core) == behind;
                cores[core].hears(news);
            }
            None => engine.hears(&news),
        });
        told
    }

    /// Lets a thread leave or arrive, if all cores have come as far; true if one did.
    fn schedule(&mut self, progress: &Progress) -> bool {
        let reached = progress.behind.map_or(Time::NEVER, |behind| behind.local);
        match &mut self.scheduler {
            // Strictly: a core that has come exactly as far may still send a thread at that time,
            // which may be the first of the two.
            Some(scheduler) if scheduler.next_time() < reached => {
                scheduler.deliver(&mut self.cores);
                true
            }
            _ => false,
        }
    }

    /// All cores have come to the end of a slice.
    fn end_slice(&mut self, now: Time) -> Result<(), ChipError> {
        for core in &mut self.cores {
            core.idle_until(now)?;
        }
        let sums = self.sums(now);
        self.slices.end(sums);
        // Who parted on the way here has no sum.
        self.followers.drop_parted(&mut self.cores);
        self.followers.end_slice(&self.cores, &self.shared.uncore, sums);
        Ok(())
    }

    /// Returns the sums over all cores up to `now`.
    fn sums(&mut self, now: Time) -> Sums {
        for core in &mut self.cores {
            for latency in core.completed() {
                self.slices.complete(latency);
                self.followers.complete(latency);
            }
        }
        let runs = self.cores[..self.accountant.users()].iter().map(|core| core.run_before(now));
        Sums {
            at: now,
            energy: self.accountant.energy(&self.cores, &self.shared.uncore, now),
            instructions: self.instructions(),
            run: runs.fold(Time::ZERO, |sum, run| sum + run),
        }
    }

    /// Returns the time up to which the core furthest behind may go: apart from replies, which its
    /// inbox knows, no message can come before it.
    fn limit(&mut self, behind: Reached, progress: &Progress) -> Time {
        // The end of a slice is the one time at which all cores have come equally far: sums that
        // are taken there do not depend on who ran ahead.
        let is_vacant = self.is_vacant(behind);
        let end = if is_vacant { self.stop } else { self.slices.next().min(self.stop) };
        let ahead = behind.local.saturating_add(self.quantum).min(end);
        if self.scheduler.is_none() {
            // Nobody but a device looks into its caches, and nobody gives it a thread.
            return ahead.min(self.engine.next_device(&self.shared.uncore));
        }
        let arrival = self.next_arrival().saturating_add(self.shortest_message);
        let mut limit = ahead.min(arrival).min(progress.message_of_others);
        if is_vacant {
            // A thread may come from any of the others, and must find the core no further.
            let thread = self.next_arrival().min(progress.without(behind.core));
            limit = limit.min(thread.saturating_add(Time(1)));
        }
        // The next request may look into this core's caches, and must find them as they are at its
        // time, with all that happens then, even if the core that asked has nothing to do any more.
        limit.min(self.shared.uncore.next_time().saturating_add(Time(1)))
    }

    /// Lets one core go on, and its thread leave.
    fn turn(&mut self, behind: Reached, progress: &Progress) -> Result<(), ChipError> {
        let limit = self.limit(behind, progress);
        let core = &mut self.cores[behind.core];
        if let Some(scheduler) = &self.scheduler {
            scheduler.decide(core);
        }
        core.advance(limit, &mut self.shared)?;
        if let Some(error) = core.fail_of_source() {
            return Err(error.into());
        }
        if let Some(error) = core.impossible_rule() {
            return Err(error.into());
        }
        self.watch.simulated += core.reached().min(limit).saturating_sub(behind.local);
        if core.followers.take_has_parted() {
            self.followers.drop_parted(&mut self.cores);
            return Ok(());
        }
        let Some(scheduler) = &mut self.scheduler else { return Ok(()) };
        for (at, post) in core.posted() {
            scheduler.post(post, at);
        }
        if let Some((at, interrupt)) = core.detached() {
            scheduler.detaches(behind.core, at, interrupt);
        }
        if core.departure.is_some() {
            scheduler.departs(behind.core, core.give_up());
        }
        Ok(())
    }

    pub(crate) fn instructions(&self) -> u64 {
        let of = |core: &Core| core.common().front_end.work.instructions.iter().sum::<u64>();
        self.cores.iter().map(of).sum()
    }

    /// Returns the result of the technique that paced the run, and of each follower that did not
    /// diverge.
    pub(crate) fn finish(mut self) -> Result<(RunResult, Vec<Option<RunResult>>), ChipError> {
        if self.instructions() == 0 {
            return Err(ChipError::NoWork);
        }
        self.check_work()?;
        let scheduler = self.scheduler.take();
        let users = self.accountant.users();
        for ended in scheduler.map(Scheduler::end).into_iter().flatten() {
            self.cores[ended.home(0)].end(ended);
        }
        let duration = self.end();
        for core in &mut self.cores {
            core.close(duration)?;
        }
        self.shared.uncore.finish(duration);
        self.check_times(duration)?;
        let sums = self.sums(duration);
        self.followers.drop_parted(&mut self.cores);
        let uncore = &self.shared.uncore;
        let books = self.accountant.close(&self.cores, uncore, duration)?;
        let whole = |books, (precision, pieces), follower, parts: Vec<EnergyParts>| {
            let each = self.cores.iter().zip(parts);
            let mut cores: Vec<CoreResult> =
                each.map(|(core, parts)| result(core, follower, parts)).collect();
            let os_cores = cores.split_off(users);
            let (l3, memory) = (uncore.counts, uncore.memory.counts());
            RunResult { books, l3, memory, duration, cores, os_cores, precision, pieces }
        };
        let followers = self.followers.finish(&self.cores, uncore, sums, self.clock)?;
        let of = |(n, closed): (usize, Option<_>)| {
            closed.map(|(books, sliced, parts)| whole(books, sliced, Some(n), parts))
        };
        let followers = followers.into_iter().enumerate().map(of).collect();
        let parts = self.accountant.parts(&self.cores);
        Ok((whole(books, self.slices.finish(sums, self.clock), None, parts), followers))
    }
}

/// Delivers the outcome of a request to the agent that made it.
#[inline]
fn hand_over(cores: &mut [Core], engine: &mut Engine, served: Served) {
    match served.agent().number() {
        Some(core) => cores[core].served(served),
        None => engine.served(&served),
    }
}

/// Looks for a line in the caches of the cores that its thread may have run on: threads of the
/// first cores take turns on them, where each has a memory of its own; any runs on the others.
/// Cores that are `waiting`, a bit each, do not have it yet.
fn snoop(cores: &mut [Core], memories: usize, request: &Request, waiting: u128) -> SnoopResult {
    let read = matches!(request.want, Want::Read | Want::Preheat | Want::Prefetch);
    let mut found = SnoopResult::Miss;
    for (n, core) in cores.iter_mut().enumerate() {
        let may_hold = n >= memories || memory_of(request.line) % memories == n;
        if may_hold && request.agent != Agent::core(n) && waiting >> n & 1 == 0 {
            found = found.max(core.snoop(request.line, read));
        }
    }
    found
}
