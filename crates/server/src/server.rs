//! One ordered set of machines with its policy, event by event.

use halfwink_engine::{stream, Histogram, Stream};
use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_policy::{Host, StuckTimer};
use halfwink_techniques::server::{Model, Service, Set};
use halfwink_units::Time;

use crate::faults::Fate;
use crate::station::{Spent, State, Station, Turn, Waiting};

/// Counters of requests.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Number of requests that arrived.
    pub arrived: u64,
    /// Requests that were sent to each machine, in the order of the set.
    pub sent: Vec<u64>,
    /// Requests that are done, by machine.
    pub finished: Vec<u64>,
    /// Requests that were sent to a lost machine, since all were lost: done with.
    pub refused: u64,
    /// Times that a request came anew, since the machine that had it was lost; by machine.
    pub resteered: Vec<u64>,
    /// Times that a machine was lost.
    pub losses: Vec<u64>,
    /// Picoseconds that requests waited for service, by machine; of those whose service began.
    pub waited_ps: Vec<u128>,
    /// The longest wait, by machine.
    pub longest_wait: Vec<Time>,
    /// Time from arrival until service begins, on all machines; of a request that came anew, each
    /// time.
    pub waits: Histogram,
    /// Time from arrival until the request is done.
    pub latency: Histogram,
    /// Latencies one by one, in seconds, if a caller collects them.
    pub(crate) one_by_one: Option<Vec<f64>>,
}

impl Tally {
    /// Creates the counters of so many machines.
    #[must_use]
    pub fn of(machines: usize) -> Tally {
        Tally {
            arrived: 0,
            sent: vec![0; machines],
            finished: vec![0; machines],
            refused: 0,
            resteered: vec![0; machines],
            losses: vec![0; machines],
            waited_ps: vec![0; machines],
            longest_wait: vec![Time::ZERO; machines],
            waits: Histogram::default(),
            latency: Histogram::default(),
            one_by_one: None,
        }
    }

    /// Takes the counters, and leaves empty ones.
    pub(crate) fn take(&mut self) -> Tally {
        let machines = self.sent.len();
        std::mem::replace(self, Tally::of(machines))
    }

    /// Adds what happened elsewhere, or later.
    pub fn add(&mut self, other: &Tally) {
        self.arrived += other.arrived;
        self.refused += other.refused;
        for side in 0..self.sent.len() {
            self.sent[side] += other.sent[side];
            self.finished[side] += other.finished[side];
            self.resteered[side] += other.resteered[side];
            self.losses[side] += other.losses[side];
            self.waited_ps[side] += other.waited_ps[side];
            self.longest_wait[side] = self.longest_wait[side].max(other.longest_wait[side]);
        }
        self.waits.add(&other.waits);
        self.latency.add(&other.latency);
    }
}

/// A policy did not do what the world needs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misled {
    /// No answer to an arrival.
    #[error("the policy sent an arriving request nowhere, at {0}")]
    Unanswered(Time),
    /// Requests that are never served.
    #[error("the policy lets the {1:?} machine sleep for ever with {2} requests, at {0}")]
    Stranded(Time, Side, usize),
    /// An action for a machine that the set does not have.
    #[error("the policy names the machine {1:?}, which is not there, at {0}")]
    Unknown(Time, Side),
    /// A request sent to a machine that is lost, though another one is not.
    #[error("the policy sent a request to the {1:?} machine, which is lost, at {0}")]
    ToLost(Time, Side),
    /// A request that was answered twice, or never.
    #[error("requests do not balance at {0}: {1} came, {2} were answered, {3} are there")]
    Unbalanced(Time, u64, u64, u64),
    /// The policy's timer never stops ringing.
    #[error(transparent)]
    StuckTimer(#[from] StuckTimer),
}

/// A server of several machines at run time.
pub(crate) struct Server<'a> {
    set: &'a Set,
    service: &'a Service,
    policy: Host<SteeringPolicy>,
    machines: Vec<Station>,
    /// An action for a machine that is not there.
    unknown: Option<Side>,
    sizes: Stream,
    timer: Time,
    now: Time,
    /// Whether its machines may be lost.
    faulty: bool,
    /// Longest time that a drain waits for an answer.
    patience: Time,
    came: Sum,
    answered: Sum,
}

/// Order-free checksum of a set of requests: their number, and a number that distinguishes sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    print: u64,
}

impl Sum {
    #[inline]
    fn add(&mut self, request: &Waiting) {
        self.count += 1;
        // Sums of mixed prints: equal counts alone would not notice one request that is answered
        // twice and one that never is.
        let print = request.arrived.0.rotate_left(32) ^ request.size.to_bits();
        self.print = self.print.wrapping_add(print.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

impl<'a> Server<'a> {
    /// All machines on; then what the policy asks for at its start.
    pub(crate) fn new(
        model: &'a Model,
        service: &'a Service,
        policy: SteeringPolicy,
        seed: u64,
        name: &str,
    ) -> Server<'a> {
        let set = model.set();
        let machine = |side: Side| {
            let fate = Fate::of(&model.spec().faults, seed, &format!("{name}faults.{side:?}"));
            Station::new(set.machines()[side.index()], fate)
        };
        let mut server = Server {
            set,
            service,
            policy: Host::new(policy),
            machines: set.sides().map(machine).collect(),
            unknown: None,
            sizes: stream(seed, &format!("{name}sizes")),
            timer: Time::NEVER,
            now: Time::ZERO,
            faulty: model.spec().faults.any(),
            patience: PATIENCE + model.spec().faults.patience(),
            came: Sum::default(),
            answered: Sum::default(),
        };
        server.apply();
        server
    }

    /// Returns the number of unfinished requests.
    pub(crate) fn load(&self) -> usize {
        self.machines.iter().map(Station::load).sum()
    }

    /// A request comes, of this size if that is known. All that happens until then, happens first.
    ///
    /// # Errors
    /// If the policy does not send it anywhere.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        size: Option<f64>,
        tally: &mut Tally,
    ) -> Result<(), Misled> {
        self.advance(now, tally)?;
        let size = size.unwrap_or_else(|| self.service.draw(&mut self.sizes));
        tally.arrived += 1;
        let request = Waiting { arrived: now, size };
        self.came.add(&request);
        let side = self.place(now, request, tally)?;
        tally.sent[side.index()] += 1;
        Ok(())
    }

    /// A request goes where the policy says.
    #[inline]
    fn place(&mut self, now: Time, request: Waiting, tally: &mut Tally) -> Result<Side, Misled> {
        self.policy.notify(now, &Event::Arrive);
        let sent = self.apply();
        self.known()?;
        let side = sent.ok_or(Misled::Unanswered(now))?;
        if self.machines[side.index()].state == State::Lost {
            // With all machines lost any choice is as good, and the request is refused rather than
            // blamed on the policy.
            if self.machines.iter().any(|machine| machine.state != State::Lost) {
                return Err(Misled::ToLost(now, side));
            }
            tally.refused += 1;
            self.leave(now, side, &request);
            return Ok(side);
        }
        self.machines[side.index()].queue(request);
        self.serve(now, side, tally);
        Ok(side)
    }

    /// Checks that the policy named no machine that the set does not have.
    #[inline]
    fn known(&self) -> Result<(), Misled> {
        self.unknown.map_or(Ok(()), |side| Err(Misled::Unknown(self.now, side)))
    }

    /// A request is answered, or cannot be.
    #[inline]
    fn leave(&mut self, now: Time, side: Side, request: &Waiting) {
        self.answered.add(request);
        self.policy.notify(now, &Event::Finish { side, latency: now - request.arrived });
        self.apply();
    }

    /// Lets happen what happens until then.
    ///
    /// # Errors
    /// If the policy's timer rings for ever.
    #[inline]
    pub(crate) fn advance(&mut self, until: Time, tally: &mut Tally) -> Result<(), Misled> {
        loop {
            let (finish, done) = earliest(&self.machines, Station::next_finish);
            let (turn, changed) = earliest(&self.machines, Station::turns);
            let next = finish.min(turn).min(self.timer);
            if next > until || next == Time::NEVER {
                break;
            }
            self.now = next;
            // What happens at the same time, in this order: done, changed, timer.
            if next == finish {
                self.finish(next, self.set.side(done), tally);
            } else if next == turn {
                self.turn(next, self.set.side(changed), tally)?;
            } else {
                self.policy.expire(next)?;
                self.apply();
            }
            self.known()?;
        }
        self.now = self.now.max(if until == Time::NEVER { Time::ZERO } else { until });
        Ok(())
    }

    /// Lets all requests finish.
    ///
    /// # Errors
    /// If a machine sleeps for ever with requests.
    pub(crate) fn drain(&mut self, tally: &mut Tally) -> Result<Time, Misled> {
        let (mut answered, mut since) = (self.answered.count, self.now);
        while self.load() > 0 {
            if self.answered.count > answered {
                (answered, since) = (self.answered.count, self.now);
            }
            let ends = self.machines.iter().map(|m| m.next_finish().min(m.turns()));
            let next = ends.min().unwrap_or(Time::NEVER).min(self.timer);
            // A policy's timer may ring, and another machine be lost, again and again.
            if next == Time::NEVER || next > since.saturating_add(self.patience) {
                let first = self.machines.iter().position(|m| m.load() > 0).unwrap_or(0);
                let (side, left) = (self.set.side(first), self.machines[first].load());
                return Err(Misled::Stranded(self.now, side, left));
            }
            self.advance(next, tally)?;
        }
        Ok(self.now)
    }

    fn finish(&mut self, now: Time, side: Side, tally: &mut Tally) {
        let Some(done) = self.machines[side.index()].finish(now) else { return };
        let latency = now - done.request.arrived;
        tally.finished[side.index()] += 1;
        tally.latency.record(latency);
        if let Some(list) = &mut tally.one_by_one {
            list.push(latency.as_s());
        }
        // The next one begins before the policy may put the machine to sleep.
        self.serve(now, side, tally);
        self.leave(now, side, &done.request);
    }

    fn turn(&mut self, now: Time, side: Side, tally: &mut Tally) -> Result<(), Misled> {
        let event = match self.machines[side.index()].turn(now) {
            Some(Turn::Awake) => Event::Awake { side },
            Some(Turn::Asleep) => Event::Asleep { side },
            Some(Turn::Back) => Event::Back { side },
            Some(Turn::Lost) => return self.lose(now, side, tally),
            None => return Ok(()),
        };
        self.serve(now, side, tally);
        self.policy.notify(now, &event);
        self.apply();
        Ok(())
    }

    /// Steers the requests of a lost machine again.
    fn lose(&mut self, now: Time, side: Side, tally: &mut Tally) -> Result<(), Misled> {
        tally.losses[side.index()] += 1;
        let left = self.machines[side.index()].abandon();
        self.policy.notify(now, &Event::Lost { side });
        self.apply();
        for request in left {
            tally.resteered[side.index()] += 1;
            self.policy.notify(now, &Event::Finish { side, latency: now - request.arrived });
            self.apply();
            self.place(now, request, tally)?;
        }
        Ok(())
    }

    /// Looks whether all that came is answered once, and will be: at the end of a run, whose
    /// result it leaves alone.
    ///
    /// # Errors
    /// What the policy did not do.
    pub(crate) fn verify(&mut self) -> Result<(), Misled> {
        self.balance()?;
        if self.faulty {
            // Into a tally of its own: the run is over, and its figures must not change.
            self.drain(&mut Tally::of(self.machines.len()))?;
            self.balance()?;
        }
        Ok(())
    }

    /// Checks that each request that arrived was answered once, or is present.
    ///
    /// # Errors
    /// If not.
    fn balance(&self) -> Result<(), Misled> {
        let mut all = self.answered;
        self.machines.iter().flat_map(Station::requests).for_each(|request| all.add(request));
        if all == self.came {
            return Ok(());
        }
        let (came, answered) = (self.came.count, self.answered.count);
        Err(Misled::Unbalanced(self.now, came, answered, all.count - answered))
    }

    /// Starts what can start.
    #[inline]
    fn serve(&mut self, now: Time, side: Side, tally: &mut Tally) {
        let machine = &mut self.machines[side.index()];
        while let Some((request, load)) = machine.take() {
            let span = self.service.span(side, request.size, load);
            let waited = now - request.arrived;
            tally.waited_ps[side.index()] += u128::from(waited.0);
            let longest = &mut tally.longest_wait[side.index()];
            *longest = (*longest).max(waited);
            tally.waits.record(waited);
            machine.serve(now, request, span);
        }
    }

    /// Does what the policy asks for; where it sends a request, if it does.
    #[inline]
    fn apply(&mut self) -> Option<Side> {
        let mut sent = None;
        while let Some(action) = self.policy.next_action() {
            let (Action::Send { side } | Action::Wake { side } | Action::Sleep { side }) = action;
            let Some(machine) = self.machines.get_mut(side.index()) else {
                // Noted, and the other actions taken: an error in the middle of a call would leave
                // the policy's queue half read.
                self.unknown = Some(side);
                continue;
            };
            match action {
                Action::Send { side } => sent = Some(side),
                Action::Wake { .. } => {
                    machine.wake(self.now);
                }
                Action::Sleep { .. } => {
                    machine.sleep(self.now);
                }
            }
        }
        self.timer = self.policy.due();
        sent
    }

    /// Returns the use of its machines since the last call.
    ///
    /// # Errors
    /// If the policy's timer rings for ever.
    pub(crate) fn take(&mut self, now: Time, tally: &mut Tally) -> Result<Vec<Spent>, Misled> {
        self.advance(now, tally)?;
        Ok(self.machines.iter_mut().map(|machine| machine.close(now)).collect())
    }
}

/// Returns the earliest time of any machine, and the first machine that has it.
#[inline]
fn earliest(machines: &[Station], time: impl Fn(&Station) -> Time) -> (Time, usize) {
    let mut earliest = (Time::NEVER, 0);
    for (place, machine) in machines.iter().enumerate() {
        let at = time(machine);
        // Of equals the first in the order of the set, so that a run does not depend on how ties
        // are found.
        if at < earliest.0 {
            earliest = (at, place);
        }
    }
    earliest
}

/// Longest time that a drain waits for an answer, beside the time of a wake-up.
const PATIENCE: Time = Time::ns(3_600_000_000_000);
