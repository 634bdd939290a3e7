//! A run: a load on a machine under one policy for each slot.

use halfwink_engine::confidence::{Estimate, Estimator, Goal, Slots};
use halfwink_engine::{
    Cause, Closed, Histogram, Imbalance, Interrupted, Ledger, Mode, Row, RunControl, State,
};
use halfwink_units::{Energy, Power, Time};

use crate::books::{Books, Window, BACKGROUND, COLD, IDLE, PREHEAT, REQUEST, TICK, VISIT, WAKING};
use crate::core::{Cores, Preheating};
use crate::general::Floor;
use halfwink_techniques::node::MakeIdler;

use crate::governor::Governor;
use crate::intake::Intake;
use crate::load::{never, Asking, Load};
use crate::moved::Offload;
use crate::package::Sockets;
use crate::profile::{Preheated, Profile};
use crate::source::{exhaust, Source, Surroundings};
use crate::{fast, general};
use halfwink_techniques::node::machine::{us, Machine};
use halfwink_techniques::node::{Announce, Dispatch, Input, Plan};

/// Slices of a run, of equal time: enough for batch means of differences.
pub const SLICES: usize = 128;
/// Slices whose latencies are counted together: each part holds hundreds of the longest.
const TOGETHER: usize = 4;
/// Time before an idle machine's power is counted, and for which it is, in seconds: both are many
/// ticks and many wake-ups of the kernel's own.
const IDLE_SPANS_S: (f64, f64) = (0.1, 1.0);

/// Which engine plays a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Engine {
    /// The recurrence where it can play the plan, else the event queue.
    #[default]
    Any,
    /// The event queue plays all of it.
    Queue,
}

/// Length and seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Requests that come in the mean, with those before anything is counted.
    pub requests: u64,
    /// Seed of all random streams.
    pub seed: u64,
    /// Flows that requests belong to; 0 if each is a flow of its own.
    pub flows: u32,
    /// Cores that run kernel code of requests and nothing else of them, where it moves there.
    pub os_cores: u32,
    /// Requests that a core may have begun: with 1 it waits while its request is on a core of the
    /// kernel, as the worker of an event loop does; with more it takes another meanwhile.
    pub workers: u32,
    /// The engine that plays it.
    pub engine: Engine,
}

impl Options {
    /// So many requests, of which the first tenth is not counted.
    #[must_use]
    pub fn requests(requests: u64, seed: u64) -> Options {
        Options { requests, seed, flows: 0, os_cores: 0, workers: 1, engine: Engine::Any }
    }
}

/// A run that failed, with the reason.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was asked to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// No such arrivals or clients.
    #[error("load: {0}")]
    Load(String),
    /// The machine has no such state.
    #[error("{0}")]
    Plan(String),
    /// A policy asks for what a core cannot do.
    #[error("the idle policy failed: {0}")]
    Misled(String),
    /// The model lost track of time or energy.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
}

/// Counts of requests in the window that is counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were finished.
    pub finished: u64,
    /// Times from arrival until done, of those that came; empty before the run has ended.
    pub latency: Histogram,
    parts: Vec<Histogram>,
    /// Sum of the times from arrival until a core began, in picoseconds.
    pub waited_ps: u128,
    /// Requests that found their caches lost.
    pub cold: u64,
    /// Ticks that woke cores.
    pub ticks: u64,
    /// Wake-ups from each idle state, in the whole run.
    pub wakes: Vec<u64>,
    /// Time in which no core had work.
    pub all_idle: Time,
    /// Part of each latency in which no core works for the request.
    pub(crate) apart: Time,
    /// Finished requests and the sum of their latencies, by slice.
    pub(crate) slices: Vec<(u64, u128)>,
}

impl Tally {
    #[inline]
    pub(crate) fn request(&mut self, window: &Window, arrived: Time, start: Time, done: Time) {
        let latency = done - arrived + self.apart;
        if done < window.start {
            return;
        }
        // A request that came in the window counts even if it is done after it, in the last slice:
        // without those the longest latencies would be missing.
        let number = window.slice_of(done, SLICES);
        if arrived >= window.start && arrived < window.end {
            self.arrived += 1;
            self.parts[number / TOGETHER].record(latency);
            self.waited_ps += u128::from((start - arrived).0);
        }
        if done < window.end {
            self.finished += 1;
            let slice = &mut self.slices[number];
            slice.0 += 1;
            slice.1 += u128::from(latency.0);
        }
    }

    /// Puts the latencies of all parts together, and says how well they know their 99th percentile
    /// where slices are so long.
    fn join(&mut self, slice: Time) -> Estimate {
        let mut slots = Slots::<7>::default();
        for part in std::mem::take(&mut self.parts) {
            slots.slice(slice * TOGETHER as u64, 0.0, part.total(), part.picoseconds());
            self.latency.add(&part);
        }
        slots.end_slot();
        // Slots take nanoseconds.
        slots.precision().p99_s.times(1e-3)
    }
}

/// A part of a run: equal times in all compositions of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Requests that were finished.
    pub units: u64,
    /// Energy of the whole machine, in joules.
    pub energy_j: f64,
    /// Length, in seconds.
    pub time_s: f64,
    /// Sum of the latencies of those requests, in seconds.
    pub latency_sum_s: f64,
}

/// Use of an idle state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateUse {
    /// Name.
    pub name: &'static str,
    /// Share of the time of all cores.
    pub share: f64,
    /// Wake-ups from it, a core and second.
    pub wakes_per_s: f64,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Counts.
    pub tally: Tally,
    /// Balanced accounts.
    pub books: Closed,
    /// Parts of equal time.
    pub slices: Vec<Slice>,
    /// 99th percentile of the latency in seconds with its 95 % interval, from the share of longer
    /// ones in each part of the run.
    pub p99_latency: Estimate,
    /// Length of what is counted.
    pub duration: Time,
    /// Share of the time of all cores that they served requests, waited for lost lines, worked for
    /// the kernel, or woke.
    pub busy: [f64; 4],
    /// Cores of the kernel, and the share of their time that they ran code of requests.
    pub os_cores: (usize, f64),
    /// Use of each idle state, `poll` first.
    pub states: Vec<StateUse>,
    /// Share of the time that sockets slept.
    pub package_share: f64,
    /// Sleeps of sockets.
    pub package_sleeps: u64,
    /// True if the profile knows the cold costs of each state that was left.
    pub knows_cold: bool,
}

impl Run {
    /// Energy of the machine, in joules.
    #[must_use]
    pub fn energy_j(&self) -> f64 {
        self.books.energy_where(|_| true).as_j()
    }

    /// Energy of a request with its 95 % interval, from batch means over slices.
    #[must_use]
    pub fn energy_per_request(&self) -> Estimate {
        let mut estimator = Estimator::new(Goal::NONE);
        for slice in &self.slices {
            estimator.push_many(slice.energy_j, slice.units);
        }
        estimator.estimate()
    }

    /// Mean latency in seconds with its 95 % interval, from batch means over slices.
    #[must_use]
    pub fn mean_latency(&self) -> Estimate {
        let mut estimator = Estimator::new(Goal::NONE);
        for slice in &self.slices {
            estimator.push_many(slice.latency_sum_s, slice.units);
        }
        estimator.estimate()
    }
}

/// Plays a load on a machine under one policy for each slot.
///
/// # Errors
/// No such load or states, a policy that asks for what a core cannot do, or a run that was
/// stopped.
pub fn simulate(
    on: (&Machine, &Profile),
    load: &Load,
    plan: &Plan,
    make: MakeIdler,
    options: Options,
    control: &RunControl,
) -> Result<Run, RunError> {
    load.check().map_err(RunError::Load)?;
    let window = window(on, load, options)?;
    play(on, (load, window), plan, make, options, control)
}

/// Power of the machine under these policies while no request comes, in watts.
///
/// # Errors
/// As [`simulate`].
pub fn idle_power(
    on: (&Machine, &Profile),
    plan: &Plan,
    make: MakeIdler,
    options: Options,
    control: &RunControl,
) -> Result<f64, RunError> {
    let window = counted(IDLE_SPANS_S);
    let run = play(on, (&Load::Open(never()), window), plan, make, options, control)?;
    Ok(run.energy_j() / run.duration.as_s())
}

fn play(
    (machine, profile): (&Machine, &Profile),
    (load, window): (&Load, Window),
    plan: &Plan,
    make: MakeIdler,
    options: Options,
    control: &RunControl,
) -> Result<Run, RunError> {
    let package = match &plan.package {
        None => None,
        Some(name) => Some(machine.package(name).ok_or_else(|| {
            RunError::Plan(format!("this machine has no package state `{name}`"))
        })?),
    };
    let is_closed = matches!(load, Load::Closed(_));
    if let Some(why) = plan.contradiction(is_closed) {
        return Err(RunError::Plan(why.to_owned()));
    }
    let offload = offload((machine, profile), options)?;
    let mut sockets = Sockets::new(machine, package, &window);
    let preheating = plan.announce.map(|announce| preheating((machine, profile), announce));
    let serving = offload.map_or(machine.cores(), |offload| offload.first);
    let mut cores = cores((machine, profile), (&window, serving), make, preheating);
    let mut source = source((machine, profile), load, options, (plan.announce, serving));
    let asking = match load {
        Load::Open(_) => None,
        Load::Closed(clients) => {
            let service = (&profile.service, 1e6 * profile.variant.time);
            let to = (serving as u32, cores.tally.apart);
            let draws = (options.seed, options.flows);
            Some(Asking::new(clients, service, to, draws).map_err(RunError::Load)?)
        }
    };
    // Whatever makes a core depend on another one needs events in the order of time: the recurrence
    // plays one arrival to its end before it looks at the next.
    let is_apart = plan.dispatch == Dispatch::Hash
        && !is_closed
        && !sockets.can_sleep()
        && matches!(plan.input, Input::AtOnce | Input::Coalesced(0.0))
        && offload.is_none()
        && options.engine == Engine::Any;
    if is_apart {
        fast::play(&mut cores, &mut source, control)?;
    } else {
        let floor = Floor {
            cores: &mut cores,
            sockets: &mut sockets,
            dispatch: plan.dispatch,
            input: Intake::new(plan.input, &machine.states),
            offload,
            asking,
        };
        general::play(floor, &mut source, control)?;
    }
    finish((machine, profile), cores, sockets, serving)
}

/// The cores of the kernel of a run, the last ones of the machine.
fn offload(
    (machine, profile): (&Machine, &Profile),
    options: Options,
) -> Result<Option<Offload>, RunError> {
    let (all, kernel) = (machine.cores(), options.os_cores as usize);
    if profile.variant.moved.is_none() {
        return Ok(None);
    }
    // At least one core has to serve requests.
    if kernel == 0 || kernel >= all {
        let most = all - 1;
        return Err(RunError::Plan(format!(
            "{kernel} cores for kernel code that moves, expected 1 to {most}"
        )));
    }
    let slowdown = machine.spec().kernel_cores.slowdown;
    Ok(Offload::new(profile, slowdown, all - kernel, options.workers))
}

/// Draws the work of a load and does nothing with it; how many pieces there are.
///
/// # Errors
/// No such arrivals.
pub fn draw(on: (&Machine, &Profile), load: &Load, options: Options) -> Result<u64, RunError> {
    load.check().map_err(RunError::Load)?;
    let until = window(on, load, options)?.end;
    Ok(exhaust(&mut source(on, load, options, (None, on.0.cores())), until))
}

/// The span that is counted of a load.
fn window(on: (&Machine, &Profile), load: &Load, options: Options) -> Result<Window, RunError> {
    // A slice takes a nanosecond at least.
    let least = (most_per_s(on, load), 1e-9 * SLICES as f64);
    load.spans_s(options.requests, least).map(counted).map_err(RunError::Load)
}

/// The window that is so long, behind so much that is not counted.
fn counted((warm_s, counted_s): (f64, f64)) -> Window {
    let end = Time::from_ns((warm_s + counted_s) * 1e9);
    let slice = Time((counted_s * 1e12 / SLICES as f64) as u64);
    // A slice is cut to whole picoseconds; the warm-up takes the remainder, so that all slices are
    // alike.
    Window { start: end - Time(slice.0 * SLICES as u64), end, slice }
}

/// Requests a second that clients get through at most, whatever the policy: as many as they send
/// to a server without queues, or as many as the cores serve.
fn most_per_s((machine, profile): (&Machine, &Profile), load: &Load) -> f64 {
    let service_s = profile.mean_s();
    let answer_s = service_s + 1e-6 * profile.spec().apart_us;
    load.rate(answer_s).min(machine.cores() as f64 / service_s)
}

fn source<'a>(
    (machine, profile): (&Machine, &'a Profile),
    load: &Load,
    options: Options,
    (announce, serving): (Option<Announce>, usize),
) -> Source<'a> {
    let kernel = machine.spec().kernel;
    let around = Surroundings {
        serving: serving as u32,
        cores: machine.cores() as u32,
        flows: options.flows,
        background_per_s: kernel.background_per_s,
        background_us: kernel.background_us,
        pace: profile.variant.time,
        announce,
    };
    let never = never();
    let arrivals = match load {
        Load::Open(arrivals) => arrivals,
        Load::Closed(_) => &never,
    };
    Source::new(arrivals, &profile.service, options.seed, &around)
}

/// Builds the reaction of a machine's cores to announcements.
fn preheating((machine, profile): (&Machine, &Profile), announce: Announce) -> Preheating {
    let nothing = Preheated { load: Time::ZERO, left: Time::NEVER };
    let loads = |state: &halfwink_techniques::node::machine::State| {
        profile.preheated(&state.loses).unwrap_or(nothing)
    };
    Preheating {
        // The shallowest state that is no polling.
        awaits_in: machine.state("c1").unwrap_or(1),
        handling: machine.tick_work,
        loads: if announce.loads { machine.states.iter().map(loads).collect() } else { Vec::new() },
    }
}

fn cores<'a>(
    (machine, profile): (&'a Machine, &Profile),
    (window, serving): (&Window, usize),
    make: MakeIdler,
    preheating: Option<Preheating>,
) -> Cores<'a> {
    let states = machine.states.len();
    let busy = profile.busy(machine.active);
    let mut power = vec![busy; IDLE + states];
    power[BACKGROUND] = machine.active;
    power[TICK] = machine.active;
    power[PREHEAT] = machine.active;
    power[WAKING] = machine.waking;
    power[VISIT] = profile.visited(machine.active);
    for (n, state) in machine.states.iter().enumerate() {
        power[IDLE + n] = state.power;
    }
    let names = machine.state_names().collect();
    let count = machine.cores();
    let tally = Tally {
        wakes: vec![0; states],
        parts: vec![Histogram::default(); SLICES / TOGETHER],
        slices: vec![(0, 0); SLICES],
        apart: us(profile.spec().apart_us),
        ..Tally::default()
    };
    let times = machine.spec().kernel_cores.power;
    let kernel = power.iter().map(|power| Power::from_w(power.as_w() * times)).collect();
    let books = Books::new(*window, SLICES, count, power, (kernel, serving), names);
    let governors = (0..count).map(|n| Governor::new(make(n))).collect();
    let extra = |state: &halfwink_techniques::node::machine::State| {
        profile.extra(&state.loses).unwrap_or(Time::ZERO)
    };
    let extra = machine.states.iter().map(extra).collect();
    let mut cores = Cores::new(machine, books, governors, tally, extra, preheating);
    if let Some(share) = profile.visit_share() {
        // Lines are lost for a whole request, and a visit runs a part of it.
        cores.visit_cold = share.min(1.0);
    }
    cores
}

fn finish(
    (machine, profile): (&Machine, &Profile),
    mut cores: Cores,
    mut sockets: Sockets,
    serving: usize,
) -> Result<Run, RunError> {
    let books = &mut cores.books;
    let window = books.window;
    sockets.settle((&window, &mut books.slices));
    let duration = window.end - window.start;
    let mut ledger = Ledger::new();
    books.enter(&mut ledger, profile.user_share());
    sockets.enter_ledger(&mut ledger, &window);
    let (rest, accesses) = (Power::from_w(machine.spec().rest_w), profile.shared());
    let whole = Row { time: duration, energy: rest * duration };
    let id = ledger.component("rest", whole);
    ledger.post(id, State("on"), Cause { mode: Mode::Idle, reason: "machine" }, whole);
    let mut tally = cores.tally;
    let p99_latency = tally.join(window.slice);
    if accesses > Energy(0) {
        // Accesses to what cores share are paid for each request, by whichever core: no core's rows
        // hold them.
        let row = Row { time: duration, energy: accesses * tally.finished };
        let id = ledger.component("accesses", row);
        ledger.post(id, State("on"), Cause { mode: Mode::User, reason: "request" }, row);
    }
    let slices = slices(books, &tally, rest * window.slice, accesses);
    let knows_cold = machine
        .states
        .iter()
        .zip(&tally.wakes)
        .all(|(state, &wakes)| wakes == 0 || profile.extra(&state.loses).is_some());
    let all_s = duration.as_s() * machine.cores() as f64;
    let share = |kind| books.total(kind).as_s() / all_s;
    let busy = [
        share(REQUEST) + share(VISIT),
        share(COLD),
        share(BACKGROUND) + share(TICK) + share(PREHEAT),
        share(WAKING),
    ];
    // Wake-ups are counted from the start of the run, not of the window.
    let whole_s = window.end.as_s() * machine.cores() as f64;
    let states = machine.state_names().enumerate().map(|(n, name)| StateUse {
        name,
        share: share(IDLE + n),
        wakes_per_s: tally.wakes[n] as f64 / whole_s,
    });
    let states = states.collect();
    let kernel = machine.cores() - serving;
    let visited = books.total(VISIT).as_s() / (duration.as_s() * kernel.max(1) as f64);
    let (package_share, package_sleeps) = sockets.slept(&window);
    let closed = books.close(ledger)?;
    Ok(Run {
        books: closed,
        slices,
        p99_latency,
        duration,
        busy,
        os_cores: (kernel, visited),
        states,
        package_share,
        package_sleeps,
        knows_cold,
        tally,
    })
}

fn slices(books: &Books, tally: &Tally, rest: Energy, accesses: Energy) -> Vec<Slice> {
    let slice = |(&energy, &(units, latency)): (&u128, &(u64, u128))| Slice {
        units,
        energy_j: (Energy(energy) + rest + accesses * units).as_j(),
        time_s: books.window.slice.as_s(),
        latency_sum_s: latency as f64 * 1e-12,
    };
    books.slices.iter().zip(&tally.slices).map(slice).collect()
}
