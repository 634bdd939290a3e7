//! Issuing CPUs in a closed loop, the block layer, the driver's two phases, the device.
//!
//! An event is the end of a CPU's stage, the device being done with an I/O, or a timer of the
//! policy. Each is a lane of its own with one time; there is no heap. Software that issues can be
//! interrupted, also by other CPUs; who holds or waits for a lock, or completes, cannot.

mod books;
mod cpu;
mod hearing;
mod lanes;
mod source;
mod steps;

pub use cpu::{Stage, State};

use halfwink_engine::confidence::{Piece, Pieces};
use halfwink_engine::{stream, Closed, Histogram, Imbalance, Interrupted, RunControl, Stream};
use halfwink_policy::completion::{Completion, CompletionPolicy, Event, Hears, Queues};
use halfwink_policy::{Host, StuckTimer};
use halfwink_units::Time;
use rand::Rng;

use self::cpu::{Cpu, FROM_ELSEWHERE};
use self::lanes::Lanes;
use self::source::Source;
use crate::coherence::Distances;
use crate::description::Machine;
use crate::device;
use crate::faults::{Broken, Fate, FaultCounts};
use crate::load::{Issues, MOST_IN_FLIGHT};
use crate::lock::{Deadlock, Lock, Wanted};

/// I/Os between two looks at whether the run shall stop.
const LOOK: u64 = 4096;
/// Simulated seconds that a run may take.
const MOST_PS: u64 = 3_600 * 1_000_000_000_000;

/// Layers between the issuers and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The driver takes I/Os where they are issued, past the request queue.
    Driver,
    /// The request queue, then the driver.
    QueueAndDriver,
    /// The request queue above a driver that has nothing to do (Fig 6.4).
    Queue,
}

/// Parts of a completion that are left out, to see what they cost (Sec 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Leaves out no part.
    All,
    /// Leaves out all after the acknowledgement.
    InterruptOnly,
    /// Completing to the operating system.
    NoCompletion,
}

/// Setting of a run.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// Machine that is simulated.
    pub machine: &'a Machine,
    /// Layers between issuers and device.
    pub path: Path,
    /// Parts that are left out.
    pub parts: Parts,
    /// CPUs that issue, from the first on.
    pub issuers: u16,
    /// The first of them.
    pub first: u16,
    /// I/Os that each has in flight.
    pub depth: u32,
    /// Bytes of each I/O.
    pub bytes: u32,
    /// I/Os a second of all together, at most.
    pub rate: Option<f64>,
    /// Draws exponential times between I/Os where rates are limited; otherwise they are even.
    pub poisson: bool,
    /// I/Os that each CPU issues, if they differ: these replace depth, bytes, rate and the number
    /// of issuers.
    pub load: Option<&'a [Issues]>,
    /// I/Os before any is counted.
    pub warm_up: u64,
    /// I/Os that are counted.
    pub ios: u64,
    /// Seed of the random streams.
    pub seed: u64,
}

/// The CPU that takes the device's interrupts.
pub const HEARS: u16 = 0;

/// Reason why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The run was stopped from outside.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The ledger does not balance: an error in the model.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// The ring's lock, upgraded by two.
    #[error("deadlock at {at}: {deadlock}; `driver.ring.kind` has others")]
    Deadlock {
        /// Time of the deadlock.
        at: Time,
        /// CPUs of the deadlock.
        deadlock: Deadlock,
    },
    /// An invariant was violated, which holds under any faults.
    #[error("seed {seed}: {broken}")]
    Broken {
        /// Seed of the setting.
        seed: u64,
        /// Invariant that was violated.
        broken: Broken,
    },
    /// The policy's timer rings for ever.
    #[error("{0}")]
    StuckTimer(StuckTimer),
    /// The setting cannot be run, for this reason.
    #[error("{0}")]
    Setting(String),
}

/// Time of a CPU by stage.
#[derive(Clone, Debug)]
pub struct CpuTimes {
    /// Time by stage, as [`Stage::ALL`] has them.
    pub times: [Time; Stage::ALL.len()],
}

impl CpuTimes {
    /// Time in some stages.
    pub fn of(&self, is: impl Fn(Stage) -> bool) -> Time {
        let all = Stage::ALL.iter().zip(&self.times);
        all.filter(|(&stage, _)| is(stage)).fold(Time::ZERO, |sum, (_, &time)| sum + time)
    }
}

/// Number of grants of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Number of all grants.
    pub grants: u64,
    /// Number of grants that moved between sockets.
    pub crossings: u64,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Length of the counted time.
    pub duration: Time,
    /// I/Os that were completed in it without an error.
    pub completed: u64,
    /// Number of I/Os completed since the start.
    pub completed_in_all: u64,
    /// I/Os that were issued since the beginning.
    pub issued: u64,
    /// I/Os that were somewhere at the end.
    pub in_flight: u64,
    /// Number of faults injected.
    pub faults: FaultCounts,
    /// Time from the issue of an I/O until its issuer knows the result.
    pub latency: Histogram,
    /// Times of each CPU.
    pub cpus: Vec<CpuTimes>,
    /// CPUs that completed anything for the driver.
    pub handlers: u32,
    /// Locks: request queue, ring, map.
    pub locks: [LockCounts; 3],
    /// Interrupts of the device, and those between CPUs.
    pub interrupts: [u64; 2],
    /// Pieces of the counted time, to compare with those of another policy: work is I/Os that were
    /// completed without an error.
    pub pieces: Vec<Piece>,
    /// Time and energy; modelled.
    pub books: Closed,
}

impl Run {
    /// Returns the number of I/Os per second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.completed as f64 / self.duration.as_s()
    }

    /// CPUs that the driver had, on average.
    #[must_use]
    pub fn driver_cpus(&self) -> f64 {
        let all = self.cpus.iter().map(|cpu| cpu.of(Stage::is_driver).as_s());
        all.sum::<f64>() / self.duration.as_s()
    }

    /// CPUs that did anything but sleep, on average.
    #[must_use]
    pub fn busy_cpus(&self) -> f64 {
        let all = self.cpus.iter().map(|cpu| cpu.of(|s| s.state() != State::Asleep).as_s());
        all.sum::<f64>() / self.duration.as_s()
    }
}

/// A kind of lock; of request queues there may be one for each CPU.
const QUEUE: usize = 0;
const RING: usize = 1;
const MAP: usize = 2;
const OWN: usize = 3;

/// Lanes behind those of the CPUs: the device, the policy, timeouts of I/Os.
const DEVICE: usize = 0;
const POLICY: usize = 1;
const TIMEOUTS: usize = 2;

/// An I/O that is not on its way.
const ENDED: u64 = u64::MAX;

/// Times of stages, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    submit: u64,
    jitter: f64,
    interrupt: u64,
    coalesce: u32,
    poll: u64,
    send: u64,
    receive: u64,
    /// Data structures outside their lock, where they follow the interrupt and elsewhere.
    structures: [u64; 2],
    complete: u64,
    wake: u64,
    /// Lines of a descriptor, in thousandths.
    descriptor_lines: u64,
    shared_lines: u64,
    batch: usize,
    period: u64,
}

struct World<'a, 'b> {
    setting: &'b Setting<'a>,
    distances: Distances,
    costs: Costs,
    hears: Hears,
    own_queues: bool,
    policy: Host<CompletionPolicy>,
    hears_polls: bool,
    cpus: Vec<Cpu>,
    lanes: Lanes,
    locks: Vec<Lock>,
    device: device::Queue,
    /// Fault state of the device, if faults are enabled.
    fate: Option<Box<Fate>>,
    /// Issue time of each I/O, [`ENDED`] if it is not in flight; then its issuer.
    begun: Vec<u64>,
    issuers: Vec<u16>,
    random: Stream,
    favours: Stream,
    looked: u64,
    /// CPU that issued last.
    last: u16,
    issued: u64,
    /// Number of finished I/Os, errors included.
    completed: u64,
    counting_from: u64,
    latency: Histogram,
    pieces: Pieces,
    interrupts: [u64; 2],
    failed: Option<WorldError>,
}

/// Plays a setting under a policy.
///
/// # Errors
/// If it cannot be played, is stopped, deadlocks, or its books do not balance.
pub fn play(
    setting: &Setting,
    policy: CompletionPolicy,
    control: &RunControl,
) -> Result<Run, WorldError> {
    check(setting)?;
    let mut world = World::new(setting, policy);
    world.begin();
    let (mut warm_up, mut next_look) = (Some(setting.warm_up), LOOK);
    let goal = setting.warm_up + setting.ios;
    let mut now = 0;
    while world.completed < goal {
        let (lane, due) = world.lanes.first();
        if due > MOST_PS {
            world.verify()?;
            // A lane without an event has the largest time: nothing is left to happen then, and
            // more time would not help.
            let message = if due < u64::MAX {
                "an hour of simulated time is over; ask for fewer I/Os (ios, warm_up), or \
                 for a shorter `faults.timeout_ms`"
            } else {
                "nothing more happens: no I/O is on its way, and none may be issued"
            };
            return Err(WorldError::Setting(message.to_owned()));
        }
        now = due;
        world.event(lane, now);
        if let Some(error) = world.failed.take() {
            return Err(error);
        }
        // An event may complete several I/Os, so counting begins after the one that passes the
        // mark.
        if warm_up.is_some_and(|first| world.completed >= first) {
            warm_up = None;
            world.count_from(now);
        }
        if world.completed >= next_look {
            next_look = world.completed + LOOK;
            control.report(world.completed)?;
        }
    }
    world.finish(now)
}

fn check(setting: &Setting) -> Result<(), WorldError> {
    let cpus = setting.machine.spec().topology.cpus();
    let fail = |message: String| Err(WorldError::Setting(message));
    if setting.issuers == 0 || setting.issuers > cpus {
        return fail(format!("{} issuing CPUs: expected 1 to {cpus}", setting.issuers));
    }
    if setting.first >= cpus || setting.issuers > cpus - setting.first {
        let (issuers, first) = (setting.issuers, setting.first);
        return fail(format!("{issuers} issuing CPUs from CPU {first} on: there are {cpus}"));
    }
    if setting.depth == 0 || setting.depth > MOST_IN_FLIGHT {
        return fail(format!("depth {}: expected 1 to {MOST_IN_FLIGHT}", setting.depth));
    }
    if let Some(issues) = setting.load {
        check_load(issues, setting.issuers).map_err(WorldError::Setting)?;
    }
    if setting.bytes == 0 || setting.ios == 0 {
        return fail("expected I/Os of 1 byte or more, and 1 of them or more".to_owned());
    }
    if setting.rate.is_some_and(|rate| !(rate.is_finite() && rate >= 1.0)) {
        return fail("rate: expected 1 I/O a second or more".to_owned());
    }
    Ok(())
}

fn check_load(load: &[Issues], issuers: u16) -> Result<(), String> {
    if load.len() != usize::from(issuers) {
        return Err(format!("{} loads for {issuers} issuing CPUs", load.len()));
    }
    for issues in load {
        let depth = issues.depth();
        if depth == 0 || depth > MOST_IN_FLIGHT {
            return Err(format!("depth {depth}: expected 1 to {MOST_IN_FLIGHT}"));
        }
    }
    Ok(())
}

impl<'a, 'b> World<'a, 'b> {
    fn new(setting: &'b Setting<'a>, policy: CompletionPolicy) -> World<'a, 'b> {
        let spec = setting.machine.spec();
        let distances = Distances::new(&spec.topology, &spec.coherence);
        let cpus = distances.cpus();
        let own_queues = policy.queues() == Queues::EachCpu;
        let lock = |of, home| Lock::new(of, spec.topology.sockets, home);
        let mut locks = vec![
            lock(&spec.block.queue, HEARS),
            lock(&spec.driver.ring, HEARS),
            lock(&spec.driver.map, HEARS),
        ];
        if own_queues {
            locks.extend((0..cpus).map(|cpu| lock(&spec.block.own_queue, cpu)));
        }
        let period = policy.period().map_or(u64::MAX, |period| period.0);
        let costs = Costs::new(setting, &locks[MAP], &distances, period);
        World {
            hears: policy.hears(),
            own_queues,
            hears_polls: policy.hears_polls(),
            policy: Host::new(policy),
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            lanes: Lanes::new(usize::from(cpus) + 3),
            locks,
            device: device::Queue::new(&spec.device),
            fate: None,
            begun: vec![],
            issuers: vec![],
            random: stream(setting.seed, "submit"),
            favours: stream(setting.seed, "locks"),
            looked: 0,
            last: HEARS,
            issued: 0,
            completed: 0,
            counting_from: 0,
            latency: Histogram::default(),
            pieces: Pieces::default(),
            interrupts: [0; 2],
            failed: None,
            setting,
            distances,
            costs,
        }
    }

    fn device_lane(&self) -> usize {
        self.cpus.len() + DEVICE
    }

    /// All issuers begin within the time of a submission.
    fn begin(&mut self) {
        self.policy.start(|_, _| ());
        let setting = self.setting;
        let sources = Source::all(setting, &setting.machine.spec().device);
        for (issuer, source) in (0..setting.issuers).zip(sources) {
            let cpu = setting.first + issuer;
            let (first, depth) = (self.begun.len() as u32, source.depth);
            self.begun.resize((first + depth) as usize, ENDED);
            self.issuers.resize(self.begun.len(), cpu);
            let of = (u64::from(issuer), u64::from(setting.issuers));
            let due = source.first(self.costs.submit, of);
            let it = &mut self.cpus[usize::from(cpu)];
            // `ready` is a stack: in reverse, the first I/O is issued first.
            it.ready.extend((first..first + depth).rev());
            (it.source, it.may_issue) = (source, due);
            self.lanes.set(usize::from(cpu), due);
        }
        // Only now is the number of I/Os known that the device may lose or delay.
        self.fate = setting.machine.spec().faults.of(setting.seed, self.begun.len());
        // Policies that poll are asked how CPUs wait before anything happens.
        for cpu in 0..self.cpus.len() {
            if self.hears_polls {
                let due = self.lanes.due(cpu);
                self.rest(cpu, 0);
                let it = &self.cpus[cpu];
                // One that halts is woken by its own clock for its first I/O.
                if !it.polls && it.deaf_until == 0 {
                    self.lanes.set(cpu, due);
                }
            }
        }
    }

    fn event(&mut self, lane: usize, now: u64) {
        if lane < self.cpus.len() {
            self.step(lane, now);
        } else if lane == self.device_lane() {
            self.device_done(now);
        } else if lane == self.cpus.len() + TIMEOUTS {
            self.time_out(now);
        } else {
            let rung = self.policy.ring(Time(now), |_, _| ());
            self.failed = rung.err().map(WorldError::StuckTimer);
        }
        if self.hears_polls {
            let due = self.policy.due();
            self.lanes.set(self.cpus.len() + POLICY, due.0);
        }
    }

    fn jittered_submit(&mut self) -> u64 {
        let (submit, jitter) = (self.costs.submit, self.costs.jitter);
        if jitter == 0.0 {
            return submit;
        }
        // Divided by 2^32, so that the share is below 1.
        let even = f64::from(self.random.next_u32()) / 4_294_967_296.0;
        (submit as f64 * (1.0 + jitter * (2.0 * even - 1.0))) as u64
    }

    /// The lock of the request queue that a CPU uses.
    fn queue_of(&self, cpu: usize) -> usize {
        if self.own_queues {
            OWN + cpu
        } else {
            QUEUE
        }
    }

    /// A CPU wants a lock: it has it and enters the stage, or it spins.
    fn lock(&mut self, cpu: usize, now: u64, lock: usize, stage: Stage, ios: u32) {
        let reads = stage == Stage::Peek;
        let wanted = Wanted { cpu: cpu as u16, ios, reads };
        if let Some(hold_ps) = self.locks[lock].request(wanted, &self.distances) {
            self.enter(cpu, now, stage, hold_ps);
        } else {
            let is_issuing = matches!(stage, Stage::Insert | Stage::Dispatch);
            let spin = if is_issuing { Stage::SpinToIssue } else { Stage::SpinToComplete };
            self.cpus[cpu].await_lock(stage);
            self.cpus[cpu].enter(now, spin);
            self.lanes.set(cpu, u64::MAX);
        }
    }

    fn unlock(&mut self, now: u64, lock: usize) {
        // The lock calls back while it is borrowed, so the fields that it needs are borrowed one by
        // one.
        let (cpus, lanes) = (&mut self.cpus, &mut self.lanes);
        self.locks[lock].release(&self.distances, &mut self.favours, |grant| {
            let cpu = usize::from(grant.wanted.cpu);
            let stage = cpus[cpu].awaited;
            cpus[cpu].enter(now, stage);
            lanes.set(cpu, now + grant.hold_ps);
        });
    }

    fn enter(&mut self, cpu: usize, now: u64, stage: Stage, takes: u64) {
        self.cpus[cpu].enter(now, stage);
        self.lanes.set(cpu, now + takes);
    }

    /// An I/O's issuer knows that it is complete.
    fn signal(&mut self, by: usize, now: u64, io: u32) {
        let issuer = usize::from(self.issuer(io));
        // The mark makes a second completion visible, which any double delivery would end in.
        let begun = std::mem::replace(&mut self.begun[io as usize], ENDED);
        if begun == ENDED {
            self.failed = Some(self.broken(Broken::Twice(io)));
            return;
        }
        self.completed += 1;
        if !self.fate.as_mut().is_some_and(|fate| fate.ends_as_error(io)) {
            self.latency.record(Time(now - begun));
            self.cut(now);
        }
        let (is_own, it) = (issuer == by, &mut self.cpus[issuer]);
        // The issuer pays for fetching the result only when it issues again.
        let ready = if is_own { io } else { io | FROM_ELSEWHERE };
        if it.source.think > 0 {
            it.thinking.push_back((now + it.source.think, ready));
        } else {
            it.ready.push(ready);
        }
        // The issuer that completes its own I/O runs already and finds it at its next choice of
        // work.
        if is_own {
            return;
        }
        if matches!(self.cpus[issuer].stage, Stage::Idle | Stage::Polling) {
            self.attract(issuer, now, false);
        }
    }

    /// The periodic check, where a CPU hears of an I/O (Sec 6.3.3).
    fn look(&mut self, now: u64) {
        if now - self.looked < self.costs.period {
            return;
        }
        let of = (now - self.looked) / 1000;
        self.looked = now;
        let of = of.min(u64::from(u32::MAX)) as u32;
        let spinning_is_use = self.setting.machine.spec().driver.spinning_is_use;
        for cpu in 0..self.cpus.len() {
            let it = &mut self.cpus[cpu];
            // Brings the account of the running stage up to now, so that a long stage counts in
            // the periods in which it ran.
            it.enter(now, it.stage);
            let used = it.driver_ps - if spinning_is_use { 0 } else { it.spun_ps };
            let busy = ((used - it.told_ps) / 1000).min(u64::from(of)) as u32;
            it.told_ps = used;
            let event = Event::Used { cpu: cpu as u16, busy, of };
            self.policy.deliver(Time(now), &event, |_, _| ());
        }
    }
}

impl Costs {
    fn new(setting: &Setting, map: &Lock, distances: &Distances, period: u64) -> Costs {
        let spec = setting.machine.spec();
        let slower = setting.machine.slower();
        let ps = |us: f64| (us * 1e6 + 0.5) as u64;
        let soft = |us: f64| ps(us * slower);
        let (block, driver) = (&spec.block, &spec.driver);
        // What the lock of the map takes is part of the data structures' time.
        let apart = |us: f64| ps(us).saturating_sub(map.alone_ps(distances));
        let lost = driver.structures_us * (1.0 + driver.lost_locality);
        let is_direct = setting.path == Path::Driver;
        let null = setting.path == Path::Queue;
        Costs {
            submit: soft(if is_direct { block.direct_submit_us } else { block.submit_us }),
            jitter: block.jitter,
            interrupt: ps(driver.interrupt_us),
            coalesce: driver.coalesce,
            poll: ps(driver.poll_us),
            send: ps(driver.ipi_send_us),
            receive: soft(driver.ipi_receive_us),
            structures: [apart(driver.structures_us), apart(lost)],
            complete: soft(if null { block.complete_us } else { driver.completion_us }),
            wake: soft(driver.wake_us),
            descriptor_lines: (driver.descriptor_lines * 1e3) as u64,
            shared_lines: (block.shared_lines * 1e3) as u64,
            batch: driver.batch as usize,
            period,
        }
    }
}
