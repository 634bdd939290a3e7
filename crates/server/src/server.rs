//! One pair of machines with its policy, event by event.

use halfwink_engine::{stream, Histogram, Stream};
use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_policy::{Host, StuckTimer};
use halfwink_techniques::server::{Model, Service};
use halfwink_units::Time;

use crate::faults::Fate;
use crate::station::{Spent, State, Station, Turn, Waiting};

/// Counters of requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of requests that arrived.
    pub arrived: u64,
    /// Requests that were sent to each machine, the small one first.
    pub sent: [u64; 2],
    /// Requests that are done, by machine.
    pub finished: [u64; 2],
    /// Requests that were sent to a lost machine, since the other one was lost too: done with.
    pub refused: u64,
    /// Times that a request came anew, since the machine that had it was lost; by machine.
    pub resteered: [u64; 2],
    /// Times that a machine was lost.
    pub losses: [u64; 2],
    /// Picoseconds that requests waited for service, by machine; of those whose service began.
    pub waited_ps: [u128; 2],
    /// The longest wait, by machine.
    pub longest_wait: [Time; 2],
    /// Time from arrival until the request is done.
    pub latency: Histogram,
    /// Latencies one by one, in seconds, if a caller collects them.
    pub(crate) one_by_one: Option<Vec<f64>>,
}

impl Tally {
    /// Adds what happened elsewhere, or later.
    pub fn add(&mut self, other: &Tally) {
        self.arrived += other.arrived;
        self.refused += other.refused;
        for side in 0..2 {
            self.sent[side] += other.sent[side];
            self.finished[side] += other.finished[side];
            self.resteered[side] += other.resteered[side];
            self.losses[side] += other.losses[side];
            self.waited_ps[side] += other.waited_ps[side];
            self.longest_wait[side] = self.longest_wait[side].max(other.longest_wait[side]);
        }
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
    /// A request sent to a machine that is lost, though the other one is not.
    #[error("the policy sent a request to the {1:?} machine, which is lost, at {0}")]
    ToLost(Time, Side),
    /// A request that was answered twice, or never.
    #[error("requests do not balance at {0}: {1} came, {2} were answered, {3} are there")]
    Unbalanced(Time, u64, u64, u64),
    /// The policy's timer never stops ringing.
    #[error(transparent)]
    StuckTimer(#[from] StuckTimer),
}

/// A hybrid server at run time.
pub(crate) struct Server<'a> {
    service: &'a Service,
    policy: Host<SteeringPolicy>,
    machines: [Station; 2],
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
        let print = request.arrived.0.rotate_left(32) ^ request.size.to_bits();
        self.print = self.print.wrapping_add(print.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

impl<'a> Server<'a> {
    /// Both machines on; then what the policy asks for at its start.
    pub(crate) fn new(
        model: &Model,
        service: &'a Service,
        policy: SteeringPolicy,
        seed: u64,
        name: &str,
    ) -> Server<'a> {
        let machines = model.machines();
        let machine = |side: Side| {
            let fate = Fate::of(&model.spec().faults, seed, &format!("{name}faults.{side:?}"));
            Station::new(machines[side as usize], fate)
        };
        let mut server = Server {
            service,
            policy: Host::new(policy),
            machines: Side::BOTH.map(machine),
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
        self.machines[0].load() + self.machines[1].load()
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
        tally.sent[side as usize] += 1;
        Ok(())
    }

    /// A request goes where the policy says.
    #[inline]
    fn place(&mut self, now: Time, request: Waiting, tally: &mut Tally) -> Result<Side, Misled> {
        self.policy.notify(now, &Event::Arrive);
        let side = self.apply().ok_or(Misled::Unanswered(now))?;
        if self.machines[side as usize].state == State::Lost {
            if self.machines[side.other() as usize].state != State::Lost {
                return Err(Misled::ToLost(now, side));
            }
            tally.refused += 1;
            self.leave(now, side, &request);
            return Ok(side);
        }
        self.machines[side as usize].queue(request);
        self.serve(now, side, tally);
        Ok(side)
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
            let [small, big] = &self.machines;
            let finish = [small.next_finish(), big.next_finish()];
            let turns = [small.turns(), big.turns()];
            let next = finish[0].min(finish[1]).min(turns[0]).min(turns[1]).min(self.timer);
            if next > until || next == Time::NEVER {
                break;
            }
            self.now = next;
            // What happens at the same time, in this order: done, changed, timer.
            if next == finish[0] {
                self.finish(next, Side::Small, tally);
            } else if next == finish[1] {
                self.finish(next, Side::Big, tally);
            } else if next == turns[0] {
                self.turn(next, Side::Small, tally)?;
            } else if next == turns[1] {
                self.turn(next, Side::Big, tally)?;
            } else {
                self.policy.expire(next)?;
                self.apply();
            }
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
            let [small, big] = &self.machines;
            let ends = [small.next_finish(), big.next_finish(), small.turns(), big.turns()];
            let next = ends.into_iter().min().unwrap_or(Time::NEVER).min(self.timer);
            // A policy's timer may ring, and the other machine be lost, again and again.
            if next == Time::NEVER || next > since.saturating_add(self.patience) {
                let side = Side::BOTH[usize::from(self.machines[0].load() == 0)];
                let left = self.machines[side as usize].load();
                return Err(Misled::Stranded(self.now, side, left));
            }
            self.advance(next, tally)?;
        }
        Ok(self.now)
    }

    fn finish(&mut self, now: Time, side: Side, tally: &mut Tally) {
        let Some(done) = self.machines[side as usize].finish(now) else { return };
        let latency = now - done.request.arrived;
        tally.finished[side as usize] += 1;
        tally.latency.record(latency);
        if let Some(list) = &mut tally.one_by_one {
            list.push(latency.as_s());
        }
        // The next one begins before the policy may put the machine to sleep.
        self.serve(now, side, tally);
        self.leave(now, side, &done.request);
    }

    fn turn(&mut self, now: Time, side: Side, tally: &mut Tally) -> Result<(), Misled> {
        let event = match self.machines[side as usize].turn(now) {
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
        tally.losses[side as usize] += 1;
        let left = self.machines[side as usize].abandon();
        self.policy.notify(now, &Event::Lost { side });
        self.apply();
        for request in left {
            tally.resteered[side as usize] += 1;
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
            self.drain(&mut Tally::default())?;
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
        let machine = &mut self.machines[side as usize];
        while let Some((request, load)) = machine.take() {
            let span = self.service.span(side, request.size, load);
            let waited = now - request.arrived;
            tally.waited_ps[side as usize] += u128::from(waited.0);
            let longest = &mut tally.longest_wait[side as usize];
            *longest = (*longest).max(waited);
            machine.serve(now, request, span);
        }
    }

    /// Does what the policy asks for; where it sends a request, if it does.
    #[inline]
    fn apply(&mut self) -> Option<Side> {
        let mut sent = None;
        while let Some(action) = self.policy.next_action() {
            match action {
                Action::Send { side } => sent = Some(side),
                Action::Wake { side } => {
                    self.machines[side as usize].wake(self.now);
                }
                Action::Sleep { side } => {
                    self.machines[side as usize].sleep(self.now);
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
    pub(crate) fn take(&mut self, now: Time, tally: &mut Tally) -> Result<[Spent; 2], Misled> {
        self.advance(now, tally)?;
        let [small, big] = &mut self.machines;
        Ok([small.close(now), big.close(now)])
    }
}

/// Longest time that a drain waits for an answer, beside the time of a wake-up.
const PATIENCE: Time = Time::ns(3_600_000_000_000);
