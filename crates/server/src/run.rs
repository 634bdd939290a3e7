//! Runs, and the closing of their ledgers.

use halfwink_engine::confidence::{Goal, Piece, Pieces, Precision, Watch};
use halfwink_engine::{
    stream, Cause, Closed, Imbalance, Interrupted, Ledger, Mode, Row, RunControl,
    State as StateName,
};
use halfwink_policy::steering::{SteeringPolicy, ASLEEP};
use halfwink_techniques::server::{Model, Service, Set};
use halfwink_units::{Energy, Time};

use crate::server::{Misled, Server, Tally};
use crate::station::{Spent, State};
use halfwink_arrivals::{Arrival, Arrivals};

/// Requests between two looks at how well results are known.
const INTERVAL: u64 = 1000;
/// Number of unfinished requests at which the server counts as overloaded.
const HOPELESS: usize = 200_000;

/// Length of a run, and the results that are kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of all random streams.
    pub seed: u64,
    /// Requests that come before accounts are opened.
    pub warm_up: u64,
    /// Requests after that; all there are, if fewer.
    pub requests: u64,
    /// Ends then, if not before.
    pub until: Time,
    /// Keeps what happened in each span of this length.
    pub slot: Option<Time>,
    /// Ends when results are known so well; not together with `slot`.
    pub goal: Option<Goal>,
    /// Waits until all requests are done; else the run ends with its last arrival.
    pub drain: bool,
}

impl Options {
    /// Returns options for this number of requests, the first tenth of which warms up.
    #[must_use]
    pub fn requests(requests: u64, seed: u64) -> Options {
        Options {
            seed,
            warm_up: requests / 10,
            requests: requests - requests / 10,
            until: Time::NEVER,
            slot: None,
            goal: None,
            drain: false,
        }
    }

    /// All requests of arrivals that end, until they are done.
    #[must_use]
    pub fn all(seed: u64) -> Options {
        Options {
            seed,
            warm_up: 0,
            requests: u64::MAX,
            until: Time::NEVER,
            slot: None,
            goal: None,
            drain: true,
        }
    }
}

/// Use of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineUse {
    /// Seconds in each state: on, going down, asleep, waking, lost.
    pub state_s: [f64; 5],
    /// Seconds that its workers served, summed up.
    pub served_s: f64,
    /// Energy of the machine, in joules.
    pub energy_j: f64,
    /// Times that it woke.
    pub wakes: u64,
}

/// A part of a run.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Begin of the part.
    pub start: Time,
    /// Length of the part.
    pub span: Time,
    /// Counters of requests.
    pub tally: Tally,
    /// Use of each machine, in the order of the set.
    pub machines: Vec<MachineUse>,
}

/// Requests between two looks at the control: less than a millisecond of host time.
const LOOK: u64 = 4096;

/// Results of a finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Length of the run without its warm-up.
    pub duration: Time,
    /// Counters of requests.
    pub tally: Tally,
    /// Use of each machine, in the order of the set.
    pub machines: Vec<MachineUse>,
    /// Parts of the run, if they were requested.
    pub slots: Vec<Slot>,
    /// Precision of the results, if it was requested.
    pub precision: Option<Precision>,
    /// Pieces of the run, to compare with those of another policy: work is arrivals.
    pub pieces: Vec<Piece>,
    /// Ledger of the run, balanced.
    pub books: Closed,
}

/// A run that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// The arrivals are impossible.
    #[error("arrivals: {0}")]
    Arrivals(String),
    /// A policy that does not do its part.
    #[error(transparent)]
    Misled(#[from] Misled),
    /// Accounts that do not balance.
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
    /// The run was stopped from outside.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Run {
    /// Returns the energy, in joules.
    #[must_use]
    pub fn energy_j(&self) -> f64 {
        self.machines.iter().map(|m| m.energy_j).sum()
    }

    /// Mean power, in watts.
    #[must_use]
    pub fn power_w(&self) -> f64 {
        self.energy_j() / self.duration.as_s()
    }

    /// Requests that are done.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.tally.finished.iter().sum()
    }

    /// Energy for each request that is done, in joules.
    #[must_use]
    pub fn energy_per_request_j(&self) -> f64 {
        self.energy_j() / self.finished().max(1) as f64
    }
}

/// Accounts of all machines of a set.
#[derive(Clone, Debug)]
pub(crate) struct Accounts<'a> {
    set: &'a Set,
    sums: Vec<Spent>,
}

impl Accounts<'_> {
    pub(crate) fn new(model: &Model) -> Accounts<'_> {
        let set = model.set();
        Accounts { set, sums: vec![Spent::default(); set.machines().len()] }
    }

    pub(crate) fn add(&mut self, spent: &[Spent]) {
        for (sum, more) in self.sums.iter_mut().zip(spent) {
            for (state, span) in sum.states.iter_mut().zip(more.states) {
                *state += span;
            }
            for (level, span) in sum.asleep.iter_mut().zip(more.asleep) {
                *level += span;
            }
            sum.served += more.served;
            sum.energy += more.energy;
            sum.wakes += more.wakes;
        }
    }

    fn energy(&self) -> Energy {
        self.sums.iter().map(|sum| sum.energy).sum()
    }

    pub(crate) fn machines(&self) -> Vec<MachineUse> {
        self.sums.iter().map(machine_use).collect()
    }

    /// The meters ran as power changed; rows are summed up from times in states and from what
    /// requests were served for.
    pub(crate) fn close(&self, duration: Time) -> Result<Closed, Imbalance> {
        let mut ledger = Ledger::new();
        let models = self.set.machines().iter();
        for (name, (m, spent)) in self.set.names().iter().zip(models.zip(&self.sums)) {
            let meter = Row { time: duration, energy: spent.energy };
            let id = ledger.component(name, meter);
            let mut post = |state, mode, reason, row| {
                ledger.post(id, StateName(state), Cause { mode, reason }, row);
            };
            for (state, time) in State::ALL.into_iter().zip(spent.states) {
                let (power, mode, reason) = match state {
                    State::On => (m.idle, Mode::Idle, "on"),
                    State::GoingDown => (m.transition, Mode::Kernel, "no-requests"),
                    State::Waking => (m.transition, Mode::Kernel, "requests"),
                    // A machine that does not answer still draws what an idle one does.
                    State::Lost => (m.idle, Mode::Idle, "lost"),
                    // By level, below.
                    State::Asleep => continue,
                };
                post(state.name(), mode, reason, Row { time, energy: power * time });
            }
            for (name, (level, time)) in ASLEEP.into_iter().zip(m.sleep.iter().zip(spent.asleep)) {
                let row = Row { time, energy: level.power * time };
                post(name, Mode::Idle, "no-requests", row);
            }
            // Threads run while their machine is on, whose time is posted already: this row has
            // their energy alone.
            let row = Row { time: Time::ZERO, energy: m.thread * spent.served };
            post("on", Mode::User, "requests", row);
        }
        ledger.close(duration)
    }
}

pub(crate) fn machine_use(spent: &Spent) -> MachineUse {
    MachineUse {
        state_s: spent.states.map(Time::as_s),
        served_s: spent.served.as_s(),
        energy_j: spent.energy.as_j(),
        wakes: spent.wakes,
    }
}

/// Plays arrivals against one set of machines under a policy.
///
/// # Errors
/// See [`RunError`].
pub fn simulate(
    model: &Model,
    service: &Service,
    arrivals: &Arrivals,
    policy: SteeringPolicy,
    options: Options,
) -> Result<Run, RunError> {
    simulate_controlled(model, service, arrivals, policy, options, &RunControl::new())
}

/// Simulates as [`simulate`] does, observed and stopped from outside; progress counts requests.
///
/// # Errors
/// See [`RunError`].
pub fn simulate_controlled(
    model: &Model,
    service: &Service,
    arrivals: &Arrivals,
    policy: SteeringPolicy,
    options: Options,
    control: &RunControl,
) -> Result<Run, RunError> {
    arrivals.check().map_err(RunError::Arrivals)?;
    let mut draw = arrivals.draw(options.seed, "");
    let mut server = Server::new(model, service, policy, options.seed, "");
    let counters = || Tally::of(model.set().machines().len());
    let mut play = Play { start: Time::ZERO, tally: counters(), books: Accounts::new(model) };
    play.warm_up(&mut server, draw.by_ref().take(options.warm_up as usize), control)?;
    let start = play.start;
    let (mut now, mut tally, mut slots) = (start, counters(), Vec::new());
    // Slots and intervals close accounts themselves.
    let cut = options.slot.is_none() && options.goal.is_none();
    let (mut pieces, mut arrived) = (Pieces::default(), 0);
    let mut watch =
        options.goal.filter(|_| options.slot.is_none()).map(|goal| Watch::new(goal, None));
    play.tally.one_by_one = watch.as_ref().map(|_| Vec::new());
    for count in 1..=options.requests {
        // The arrival behind the end is drawn and dropped: the stream is not used again.
        let Some((at, size)) = draw.next().filter(|(at, _)| *at <= options.until) else { break };
        slots.extend(play.parts_until(&mut server, at, options.slot, &mut tally)?);
        if count % LOOK == 0 {
            control.report(options.warm_up.saturating_add(count))?;
        }
        in_time(at, options.warm_up.saturating_add(count))?;
        server.arrive(at, size, &mut play.tally)?;
        (now, arrived) = (at, count);
        if cut && pieces.is_due(count) {
            play.settle(&mut server, now)?;
            // Pieces take the meter's energy at an arrival, where runs of other policies can be
            // cut as well: those see the same arrivals.
            pieces.end(count, now - start, play.books.energy());
        }
        if let Some(watch) = watch.as_mut().filter(|_| count % INTERVAL == 0) {
            if play.look(&mut server, now, watch)? {
                break;
            }
        }
    }
    // The server goes on after the last arrival, up to the end that was asked for: without that
    // its idle time would be missing.
    if options.until != Time::NEVER && now < options.until {
        slots.extend(play.parts_until(&mut server, options.until, options.slot, &mut tally)?);
        now = options.until;
    }
    if options.drain {
        now = now.max(server.drain(&mut play.tally)?);
    }
    let last = play.part(&mut server, now, &mut tally)?;
    slots.extend(last.filter(|_| options.slot.is_some()));
    // Before the books are closed: a lost request is a better message than an imbalance.
    server.verify()?;
    let duration = now - start;
    let books = play.books.close(duration)?;
    let precision = watch.map(|watch| watch.precision());
    let pieces =
        if cut { pieces.finish(arrived, duration, play.books.energy()) } else { Vec::new() };
    let machines = play.books.machines();
    Ok(Run { duration, tally, machines, slots, precision, pieces, books })
}

/// Latest arrival: times after it must not exceed what picoseconds can count.
// Half of what counts in picoseconds, 107 days: sums of a time and a span cannot overflow.
const LATEST: Time = Time(u64::MAX / 2);

/// Checks that a request comes before the end of time.
pub(crate) fn in_time(at: Time, count: u64) -> Result<(), RunError> {
    if at <= LATEST {
        return Ok(());
    }
    let days = LATEST.as_s() / 86_400.0;
    let mut message = format!("{count} requests take over {days:.0} days, expected fewer requests");
    if let Some(fewer) = surely(count) {
        message += &format!(": `--set requests={fewer}`");
    }
    Err(RunError::Arrivals(message))
}

/// A round number of requests that come in time under every seed, where so many did under one; none
/// if they are so few that chance decides.
fn surely(count: u64) -> Option<u64> {
    // A tenth less is three deviations of a thousand arrivals of a Poisson process.
    let most = (count >= 1_000).then(|| count - count / 10)?;
    let digit = 10_u64.pow(most.ilog10());
    Some(most / digit * digit)
}

/// Draws so many arrivals and sizes at most and does nothing with them: how many there are, for
/// benchmarks.
///
/// # Errors
/// Impossible arrivals.
pub fn draw(service: &Service, arrivals: &Arrivals, most: u64, seed: u64) -> Result<u64, RunError> {
    arrivals.check().map_err(RunError::Arrivals)?;
    let mut draw = arrivals.draw(seed, "");
    let mut sizes = stream(seed, "sizes");
    let mut count = 0;
    while count < most {
        let Some((_, size)) = draw.next() else { break };
        std::hint::black_box(size.unwrap_or_else(|| service.draw(&mut sizes)));
        count += 1;
    }
    Ok(count)
}

/// A run's parts, one after the other.
struct Play<'a> {
    /// Begin of the next part.
    start: Time,
    tally: Tally,
    books: Accounts<'a>,
}

impl Play<'_> {
    /// Plays requests before any account is opened.
    fn warm_up(
        &mut self,
        server: &mut Server,
        arrivals: impl Iterator<Item = Arrival>,
        control: &RunControl,
    ) -> Result<(), RunError> {
        // They fill queues and wake machines, so that accounts do not open on an idle server that
        // the arrivals would never find.
        for (count, (at, size)) in (0..).zip(arrivals) {
            if count % LOOK == 0 {
                control.report(count)?;
            }
            in_time(at, count)?;
            server.arrive(at, size, &mut self.tally)?;
            self.start = at;
        }
        server.take(self.start, &mut self.tally)?;
        self.tally.take();
        Ok(())
    }

    /// The parts that end before then.
    #[inline]
    fn parts_until(
        &mut self,
        server: &mut Server,
        at: Time,
        slot: Option<Time>,
        tally: &mut Tally,
    ) -> Result<Vec<Slot>, Misled> {
        let mut parts = Vec::new();
        if let Some(slot) = slot {
            // A slot that ends exactly at an arrival ends without it.
            while self.start + slot <= at {
                parts.extend(self.part(server, self.start + slot, tally)?);
            }
        }
        Ok(parts)
    }

    /// Closes the accounts up to now.
    fn settle(&mut self, server: &mut Server, now: Time) -> Result<(), Misled> {
        let spent = server.take(now, &mut self.tally)?;
        self.books.add(&spent);
        Ok(())
    }

    /// Looks at an interval; whether all that is wanted is known, or never will be.
    fn look(&mut self, server: &mut Server, now: Time, watch: &mut Watch) -> Result<bool, Misled> {
        let spent = server.take(now, &mut self.tally)?;
        self.books.add(&spent);
        let energy_j = spent.iter().map(|spent| spent.energy.as_j()).sum();
        let latencies = self.tally.one_by_one.as_mut().map(std::mem::take).unwrap_or_default();
        watch.interval(now, energy_j, &latencies);
        // A server that is overloaded has no mean latency to be known: its queue only grows.
        Ok(watch.is_done() || server.load() > HOPELESS)
    }

    /// Closes a part, if it has any length.
    fn part(
        &mut self,
        server: &mut Server,
        end: Time,
        tally: &mut Tally,
    ) -> Result<Option<Slot>, Misled> {
        let spent = server.take(end, &mut self.tally)?;
        self.books.add(&spent);
        let (start, span) = (self.start, end - self.start);
        let part = self.tally.take();
        tally.add(&part);
        self.start = end;
        let machines = spent.iter().map(machine_use).collect();
        Ok((span > Time::ZERO).then_some(Slot { start, span, tally: part, machines }))
    }
}
